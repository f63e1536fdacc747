"""`memory`: votes of the nearest training examples, exact and approximate search, and examples that join later."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from longtail.data import Corpus
from longtail.errors import DataError
from longtail.learners.memory import Memory, MemoryScorer
from longtail.model import Model
from longtail.recipe import Recipe
from longtail.search.approximate import Approximate
from longtail.store import load

SMALL = "trees=20, min_leaf=5, learning_rate=0.3"
DPR = "dpr(encoder='bag', dimension=32, batch_size=64, epochs=3)"


def fit(recipe: str, corpus: Corpus) -> Model:
    return Recipe.parse(recipe).fit(corpus.train, corpus.valid)


def test_memory_alone_is_written_with_the_member_that_it_trains() -> None:
    """It trains without a GPU, and a table says what was trained."""
    alone = Recipe.parse("memory(neighbours=9) + rerank")
    assert str(alone) == "memory(\"dpr(encoder='bag', epochs=3)\", neighbours=9) + rerank"
    assert Recipe.parse(str(alone)) == alone and str(Recipe.of(Memory())) == str(Recipe.parse("memory"))
    assert str(Recipe.parse('memory("ngame")')) == 'memory("ngame")'
    assert str(Recipe.parse("fuse")) == "fuse", "others are written as they were given"


def test_memory_votes_with_a_softmax_of_cosines(tiny: Corpus, tmp_path: Path) -> None:
    model = fit(f'memory("{DPR}", neighbours=7, temperature=0.1)', tiny)
    scorer = model.scorer
    queries, rows = scorer.encoding.row_vectors(tiny.test.rows), scorer.encoding.row_vectors(tiny.train.rows)  # type: ignore[attr-defined]
    cosines = queries @ rows.T
    found = model.predict(tiny.test.rows, k=10)
    for row in range(8):
        near = np.argsort(-cosines[row], kind="stable")[:7]
        weights = np.exp(cosines[row, near] / 0.1)
        votes = (weights / weights.sum()) @ tiny.train.targets[near].toarray()
        scores = np.zeros(10)
        scores[found.indices[row][found.indices[row] >= 0]] = found.scores[row][found.indices[row] >= 0]
        np.testing.assert_allclose(scores, votes, atol=1e-4)
    again = load(model.save(tmp_path / "memory"))
    assert np.array_equal(again.predict(tiny.test.rows).indices, model.predict(tiny.test.rows).indices)
    reasons = model.explain(list(tiny.test.texts[:1]), model.predict(list(tiny.test.texts[:1]), k=1))
    [nearest, *_] = reasons[0][0].neighbours
    assert nearest.id in tiny.train.ids and nearest.text in tiny.train.texts and 0 < nearest.similarity <= 1.001


def test_an_approximate_memory_answers_as_the_exact_one(tiny: Corpus, tmp_path: Path) -> None:
    pytest.importorskip("faiss", reason="the extra search is not installed")
    near = fit(f'memory("{DPR}", neighbours=7, search="approximate")', tiny)
    assert isinstance(near.scorer, MemoryScorer)
    exact = replace(near, scorer=replace(near.scorer, search="exact"))
    found, wanted = (one.predict(tiny.test.rows, k=3) for one in (near, exact))
    assert isinstance(near.scorer._quick, Approximate) and "_quick" not in vars(exact.scorer)
    assert (found.indices == wanted.indices).mean() > 0.95
    again = load(near.save(tmp_path / "near")).scorer
    assert isinstance(again, MemoryScorer) and again.search == "approximate"


@pytest.mark.parametrize(
    "recipe",
    [
        f'memory("{DPR}", neighbours=3)',
        "knn(neighbours=3)",
        f'fuse("memory(\\"{DPR}\\", neighbours=3)", "bm25", {SMALL})',
    ],
)
def test_a_label_with_one_new_example_is_found_at_once(recipe: str, tiny: Corpus, tmp_path: Path) -> None:
    model = fit(recipe, tiny)
    text = "guitar and harbour and guitar"
    grown = model.with_rows([text, "apple"], [["NEW", "L6"], ["L0"]], label_texts={"NEW": "music at sea"})
    assert len(model.labels) == 10 and len(grown.labels) == 11
    assert grown.labels.texts[-1] == "music at sea" and grown.labels.train_rows == tiny.labels.train_rows + 2
    assert grown.labels.counts[-1] == 1 and grown.labels.counts[0] == model.labels.counts[0] + 1
    assert "NEW" in {answer.id for answer in grown.predict([text], k=4).answers(0)}
    again = load(grown.save(tmp_path / "grown"))
    assert np.array_equal(again.predict([text], k=5).indices, grown.predict([text], k=5).indices)


def test_new_rows_are_refused_where_nothing_remembers_them(tiny: Corpus) -> None:
    with pytest.raises(DataError, match="does not remember them"):
        fit("bm25", tiny).with_rows(["a"], [["L1"]])
    with pytest.raises(DataError, match="no member of fuse remembers"):
        fit(f'fuse("bm25", "centroid", {SMALL})', tiny).with_rows(["a"], [["L1"]])
    model = fit("knn + rerank", tiny)
    assert model.with_rows(["apple"], [["L1"]]).predict(["apple"], k=1).indices[0, 0] >= 0
    with pytest.raises(DataError, match="do not know the new label 'NEW'"):
        model.with_rows(["apple"], [["NEW"]])
    for texts, labels in ((["a", "b"], [["L1"]]), ("a", [["L1"]]), (["a"], ["L1"]), (["a"], [[]]), (["a"], [[1]])):
        with pytest.raises(DataError, match="with_rows takes"):
            model.with_rows(texts, labels)
