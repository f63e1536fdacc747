"""Title and body as separate fields: the weight against plain arithmetic, and the reading that keeps them apart."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import longtail
from longtail.answers import answer_lines
from longtail.data import Dataset, LabelSet
from longtail.data.dataset import Rows
from longtail.data.read import Columns, load
from longtail.errors import DataError, RecipeError
from longtail.linear.features.sparse_features import Features
from longtail.recipe import Recipe

TEXTS = ("red sea\nold king of the sea", "\nold hill", "red king", "hill\n")


def unit(vector: np.ndarray) -> np.ndarray:
    return vector / max(np.linalg.norm(vector), 1e-12)


@pytest.mark.parametrize("weight", [0.0, 0.5, 3.0])
def test_vectors_are_weighted_sums_of_title_and_rest(weight: float) -> None:
    labels = LabelSet(ids=("a",))
    train = Dataset(labels=labels, targets=np.ones((4, 1), np.float32), ids=tuple("1234"), texts=TEXTS)
    features, vectors = Features.learn(train, title_weight=weight)
    words = features.vocabulary.words  # type: ignore[union-attr]
    for row, text in enumerate(TEXTS):
        title, _, rest = text.partition("\n")
        expected = np.zeros(len(words))
        for part, share in ((title, weight), (rest, 1.0)):
            for place, word in enumerate(words):
                count = part.split().count(word)
                expected[place] += share * (1 + np.log(count)) * features.idf[place] if count else 0
        assert vectors[[row]].toarray()[0] == pytest.approx(unit(expected), abs=1e-6)
    again = Features.restore(features.state())
    assert np.allclose(again.of(Rows(texts=TEXTS)).toarray(), vectors.toarray())
    whole, plain = Features.learn(train)
    assert "title_weight" not in whole.state().settings
    assert np.allclose(plain[[2]].toarray(), vectors[[2]].toarray()) or weight == 0  # one line alone: the same


def test_titles_are_kept_apart_from_jsonl_and_tables_to_predictions(tmp_path: Path) -> None:
    rows = [{"id": str(n), "title": "sun ", "text": "moon", "labels": ["sun"]} for n in range(9)]
    rows += [{"id": f"m{n}", "title": "moon", "text": "sun", "labels": ["moon"]} for n in range(9)]
    (tmp_path / "train.jsonl").write_text("\n".join(map(json.dumps, rows)))
    corpus = load(tmp_path, text="title/text", valid_share=0)
    assert corpus.train.texts[0] == "sun\nmoon" and corpus.text_field == "title/text"  # type: ignore[index]
    table = tmp_path / "t.csv"
    table.write_text("id,name,blurb,more,labels\n1,sun,moon,x,a\n2,,moon,,b\n")
    found = load(table, columns=Columns(text="name/blurb,more"), valid_share=0)
    assert found.train.texts == ("sun\nmoon x", "\nmoon")
    assert found.text_field == "name/blurb+more" and found.table is not None and found.table.title_apart
    assert load(table, columns=Columns.of(found.table), valid_share=0).train.texts == found.train.texts
    model = Recipe.parse("knn(neighbours=5, title_weight=3)").fit(corpus.train, corpus.train.take([]))
    model = replace(model, text_field=corpus.text_field)
    again = longtail.load_model(model.save(tmp_path / "model"))
    lines = [(1, '{"title": "sun", "text": "moon"}'), (2, '{"text": "moon", "title": "sun"}')]
    first = [answer["labels"][0]["id"] for answer in answer_lines(again, lines, 2, None, 0.0, "lines")]
    assert first == ["sun", "sun"]
    # Without the weight, both documents are the same bag of words.
    plain = Recipe.parse("knn(neighbours=18)").fit(corpus.train, corpus.train.take([])).predict(["sun\nmoon"], 2)
    assert plain.scores[0, 0] == pytest.approx(plain.scores[0, 1])


def test_what_cannot_be_kept_apart_is_told(tmp_path: Path) -> None:
    (tmp_path / "train.txt").write_text("1 2 2\n0 0:1\n")
    with pytest.raises(DataError, match="--text title/text keeps titles apart in JSON lines and tables"):
        load(tmp_path, text="title/text")
    with pytest.raises(RecipeError, match="title_weight"):
        Recipe.parse("parabel(title_weight=-1)")
