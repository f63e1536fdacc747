import json
import math
from dataclasses import replace

import numpy as np
from report_sample import sample_corpus, sample_result


def test_json_has_the_promised_keys_and_values() -> None:
    result = sample_result('bm25(k1=1.2) + "x"', sample_corpus())
    data = json.loads(json.dumps(result.as_json(), allow_nan=False))
    assert data["recipe"] == 'bm25(k1=1.2) + "x"'
    assert data["P@1"] == result.measures["P@1"]
    assert set(data) == set(result.measures.values) | {
        "recipe",
        "train_seconds",
        "predict_seconds",
        "peak_bytes",
        "model_bytes",
        "propensity",
        "bins",
        "row_norms",
        "teaching",
        "uncalibrated",
    }
    assert {"P@1", "PSP@1", "C@1", "nDCG@5"} <= set(data)
    assert data["propensity"] == {"a": 0.55, "b": 1.5}
    assert [list(one) for one in data["bins"]] == [
        ["name", "low", "high", "labels", "positives", "contribution", "recall", "coverage"]
    ] * len(result.measures.bins)
    assert data["bins"][-1]["name"] == "zero-shot"


def test_json_has_null_for_what_is_not_a_number() -> None:
    result = sample_result("a", sample_corpus())
    measures = replace(result.measures, values={"P@1": math.nan, "P@3": np.float32(25.0)})
    data = replace(result, measures=measures).as_json()
    assert data["P@1"] is None and data["P@3"] == 25.0
    json.dumps(data, allow_nan=False)
