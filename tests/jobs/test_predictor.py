"""`longtail.predictor`: pickles small, loads once a process, takes and returns frames."""

from __future__ import annotations

import pickle
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas
import polars
import pyarrow
import pytest

import longtail
from longtail.errors import DataError

TEXTS = ["large cat that roars", "", "cart with wheels"]


def test_it_answers_as_the_model_and_in_the_frame_that_was_given(model: Path) -> None:
    predict = longtail.predictor(model, k=3)
    direct = [[answer.id for answer in answers] for answers in longtail.load_model(model).predict(TEXTS, 3)]
    assert [row["labels"] for row in predict(np.array(TEXTS, dtype=object))] == direct
    frame = pandas.DataFrame({"text": [*TEXTS[:1], None, *TEXTS[2:]], "n": [1, 2, 3]}, index=[7, 8, 9])
    found = predict(frame)
    assert list(found.columns) == ["text", "n", "labels", "scores"] and list(found.index) == [7, 8, 9]
    assert found["labels"].tolist() == direct == predict(frame["text"].fillna(""))["labels"].tolist()
    assert predict(polars.DataFrame({"text": TEXTS}))["labels"].to_list() == direct
    assert predict(pyarrow.table({"text": TEXTS}))["labels"].to_pylist() == direct
    assert predict(pandas.DataFrame({"text": []}))["labels"].tolist() == []


def test_a_frame_has_the_languages_of_its_texts_where_the_model_learned_them(tmp_path: Path) -> None:
    texts, codes = ["Kirchen und Zeitungen", "churches and newspapers"] * 5, ["de", "en"] * 5
    known = {"text": [*texts, "Bibliotheken"], "labels": [*[["k"]] * 10, ["b"]], "lang": [*codes, "de"]}
    corpus = longtail.corpus(known, texts="text", labels="labels", languages="lang", valid_share=0)
    model = longtail.Recipe.parse("knn(words='stem')").fit(corpus.train, corpus.valid)
    replace(model, language_field=corpus.language_field).save(tmp_path / "spoken")
    predict = longtail.predictor(tmp_path / "spoken", k=1)
    frame = pandas.DataFrame({"text": ["Bibliotheken"] * 3, "lang": ["ger", "en", None]})
    found = predict(frame)["labels"].tolist()
    assert found[:2] == [["b"], []]  # English leaves the plural as it is
    assert predict(frame.assign(lang="klingon"))["labels"].tolist() == predict(frame[["text"]])["labels"].tolist()


def test_it_pickles_into_fresh_processes_and_loads_once(model: Path) -> None:
    predict = longtail.predictor(model, k=2)
    sent = pickle.dumps(predict)
    assert len(sent) < 500
    code = f"""
import pickle, sys
predict = pickle.loads(bytes.fromhex({sent.hex()!r}))
import longtail.frame_predictor as place
print([row["labels"] for row in predict({TEXTS!r})] and [row["labels"] for row in predict({TEXTS!r})])
print(place.loaded_model.cache_info().misses)
"""
    for _ in range(2):
        out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
        assert out.splitlines() == [str([row["labels"] for row in predict(TEXTS)]), "1"]


def test_dask_carries_it(model: Path) -> None:
    dask = pytest.importorskip("dask.dataframe")
    predict = longtail.predictor(model, k=2)
    frame = pandas.DataFrame({"text": TEXTS * 4})
    parts = dask.from_pandas(frame, npartitions=3)
    found = parts.map_partitions(predict, meta=predict(frame.head(0))).compute(scheduler="processes", num_workers=2)
    assert found["labels"].tolist() == predict(frame)["labels"].tolist()


def test_wrong_frames_are_named(model: Path) -> None:
    with pytest.raises(DataError, match="no column 'body'; its columns are text"):
        longtail.predictor(model, text="body")(pandas.DataFrame({"text": TEXTS}))
    with pytest.raises(DataError, match="text 1 is not a string but int"):
        longtail.predictor(model)(["fine", 7])
    with pytest.raises(DataError, match="at least 1"):
        longtail.predictor(model, k=0)
