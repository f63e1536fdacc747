import json
import math
from dataclasses import replace

import numpy as np
import pytest
from report_sample import sample_corpus, sample_result

from longtail.report.result import joined


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
        "rows",
        "seeds",
        "deviations",
        "runs",
        "intervals",
        "against_first",
        "shared",
        "notes",
        "clean",
        "dial",
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


def test_seeds_are_joined_by_means_also_where_one_lacks_a_measure() -> None:
    corpus = sample_corpus()
    first, second = (sample_result("r", corpus, skill=skill, seed=seed) for skill, seed in ((0.3, 0), (0.6, 1)))
    values = {name: value for name, value in second.measures.values.items() if not name.startswith("ECE")}
    second = replace(second, seeds=(1,), measures=replace(second.measures, values=values))
    both = joined([first, second])
    assert both.measures["P@1"] == pytest.approx((first.measures["P@1"] + second.measures["P@1"]) / 2)
    assert "ECE@1" in first.measures.values and "ECE@1" not in both.measures.values
    assert both.deviation("P@1") == pytest.approx(abs(first.measures["P@1"] - second.measures["P@1"]) / math.sqrt(2))
    part = both.measures.bins[0]
    assert part.contribution == pytest.approx(
        (first.measures.bins[0].contribution + second.measures.bins[0].contribution) / 2
    )
    assert both.train_seconds == (first.train_seconds + second.train_seconds) / 2
    assert json.loads(json.dumps(both.as_json(), allow_nan=False))["seeds"] == [0, 1]
    assert joined([first]) is first
