"""Requests that say in which language their texts are."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from serving import serving

import longtail
from longtail.data.text_language import CODES

TEXTS = ["Kirchen und Zeitungen", "churches and newspapers", "Bibliotheken", "libraries"] * 5
LABELS = [["k"], ["k"], ["b"], ["b"]] * 5


@pytest.fixture
def folders(tmp_path: Path) -> list[Path]:
    corpus = longtail.corpus(
        {"text": TEXTS, "labels": LABELS, "lang": ["de", "en"] * 10},
        texts="text", labels="labels", languages="lang", valid_share=0.2,
    )  # fmt: skip
    recipe = longtail.Recipe.parse("knn(words='stem')")
    spoken = replace(recipe.fit(corpus.train, corpus.valid), language_field=corpus.language_field)
    return [spoken.save(tmp_path / "spoken"), recipe.fit(corpus.train, corpus.valid).save(tmp_path / "guessing")]


def test_a_request_may_name_the_language_of_its_texts(folders: list[Path]) -> None:
    with serving(*folders) as running:
        asked = {"texts": ["Bibliotheken", "Kirchen"], "k": 1, "language": "de"}
        reply = running.post("/predict", asked)
        assert reply.status == 200
        assert [one["labels"][0]["id"] for one in reply.json["answers"]] == ["b", "k"]
        english = running.post("/predict", {**asked, "language": "en"}).json["answers"]
        assert [one["labels"] for one in english] != [one["labels"] for one in reply.json["answers"]]
        assert running.post("/predict", {**asked, "language": None}).status == 200
        wrong = running.post("/predict", {**asked, "language": "german"})
        assert wrong.status == 422 and "such as de or en" in str(wrong.json)
        other = running.post("/predict", {**asked, "model": "guessing"})
        assert other.status == 409 and "learned no languages from a column" in str(other.json)
        schema = running.get("/openapi.json").json["components"]["schemas"]["PredictRequest"]["properties"]["language"]
        assert schema["anyOf"][0]["enum"] == sorted(CODES)
