"""bm25, centroid and knn against slow, obvious versions of their formulas."""

from __future__ import annotations

import math
import re
from collections import Counter

import numpy as np
import pytest
from scipy import sparse

from longtail.data import Corpus, Dataset, LabelSet, Rows
from longtail.linear.features.sparse_features import Features
from longtail.recipe import Recipe


def test_bm25_by_formula(tiny: Corpus) -> None:
    k1, b = 1.5, 0.6
    model = Recipe.parse(f"bm25(k1={k1}, b={b})").fit(tiny.train, tiny.valid)
    documents = [Counter(re.findall(r"\w+", text.lower())) for text in tiny.labels.texts]
    mean = sum(sum(document.values()) for document in documents) / len(documents)
    documents_with = Counter(word for document in documents for word in document)

    def score(query: str, document: Counter[str]) -> float:
        total = 0.0
        for word in set(re.findall(r"\w+", query.lower())):
            if word in document:
                idf = math.log(1 + (len(documents) - documents_with[word] + 0.5) / (documents_with[word] + 0.5))
                norm = k1 * (1 - b + b * sum(document.values()) / mean)
                total += idf * document[word] * (k1 + 1) / (document[word] + norm)
        return total

    query = "a dragon and a castle by the harbour"
    found = model.predict([query], k=10)
    expected = {row: score(query, document) for row, document in enumerate(documents)}
    shown = dict(zip(found.indices[0].tolist(), found.scores[0].tolist(), strict=True))
    assert shown == pytest.approx({row: value for row, value in expected.items() if value > 0}, rel=1e-5)


def test_bm25_prefers_short_label_texts() -> None:
    labels = LabelSet(ids=("long", "short"), texts=("apple of the old garden wall", "apple tree"))
    data = Dataset(labels=labels, targets=sparse.csr_array((1, 2), dtype=np.float32), ids=("0",), texts=("x",))
    idf = math.log(1 + 0.5 / 2.5)  # both labels have the word
    for b in (0.0, 0.75):
        expected = {
            name: idf * 2.2 / (1 + 1.2 * (1 - b + b * words / 4)) for name, words in (("long", 6), ("short", 2))
        }
        (found,) = Recipe.parse(f"bm25(b={b})").fit(data, data).predict(["apple"], k=2)
        assert {answer.id: answer.score for answer in found} == pytest.approx(expected)
    assert found[0].id == "short"


def test_bm25_finds_labels_without_examples(tiny: Corpus) -> None:
    """Zero-shot: it reads label texts, never training examples."""
    few = tiny.train.take([0])
    model = Recipe.parse("bm25").fit(few, tiny.valid)
    assert model.predict(["the jungle"], k=1).answers(0)[0].text == "a jungle"


def test_centroid_by_formula(tiny: Corpus) -> None:
    model = Recipe.parse("centroid(probabilities=false)").fit(tiny.train, tiny.valid)
    features, vectors = Features.learn(tiny.train)
    means = tiny.train.targets.toarray().T.astype(np.float64) @ vectors.toarray()
    means /= np.linalg.norm(means, axis=1, keepdims=True)
    cosines = features.of(tiny.test.rows).toarray() @ means.T  # (rows, labels)
    found = model.predict(tiny.test.rows, k=3)
    best = np.argsort(-cosines, axis=1, kind="stable")[:, :3]
    assert np.take_along_axis(cosines, best, axis=1) == pytest.approx(found.scores, abs=1e-5)


def test_centroid_scores_are_probabilities(tiny: Corpus) -> None:
    found = Recipe.parse("centroid").fit(tiny.train, tiny.valid).predict(tiny.test.rows, k=5)
    assert (found.scores >= 0).all() and (found.scores <= 1).all()
    hits = found.hits(tiny.test.targets)
    assert abs(found.scores[:, 0].mean() - hits[:, 0].mean()) < 0.1


def test_knn_by_formula(tiny: Corpus) -> None:
    neighbours = 7
    model = Recipe.parse(f"knn(neighbours={neighbours})").fit(tiny.train, tiny.valid)
    features, vectors = Features.learn(tiny.train)
    cosines = features.of(tiny.test.rows).toarray() @ vectors.toarray().T
    targets = tiny.train.targets.toarray()
    found = model.predict(tiny.test.rows, k=10)
    for row in range(len(tiny.test)):
        near = np.argsort(-cosines[row], kind="stable")[:neighbours]
        votes = cosines[row, near] @ targets[near] / cosines[row, near].sum()
        shown = found.scores[row][found.indices[row] >= 0]
        # Examples at equal distance may replace each other, so only the sum of the votes must agree.
        assert shown.sum() == pytest.approx(votes.sum(), rel=0.35)
        if len(set(np.round(np.sort(-cosines[row])[: neighbours + 1], 6))) == neighbours + 1:
            assert shown == pytest.approx(np.sort(votes[votes > 0])[::-1], abs=1e-5)


def test_as_many_neighbours_vote_as_the_setting_says() -> None:
    labels = LabelSet(ids=tuple("abcd"))
    features = sparse.csr_array(np.array([[9, 1], [6, 4], [3, 7], [1, 9]], dtype=np.float32))
    data = Dataset(
        labels=labels, targets=sparse.csr_array(np.eye(4, dtype=np.float32)), ids=labels.ids, features=features
    )
    asked = Rows(features=sparse.csr_array(np.array([[1, 0]], dtype=np.float32)))  # the rows are nearer the earlier
    for neighbours in (1, 2, 3):
        found = Recipe.parse(f"knn(neighbours={neighbours})").fit(data, data.take([])).predict(asked, k=4)
        assert found.indices[0].tolist() == [0, 1, 2, 3][:neighbours] + [-1] * (4 - neighbours)
        assert found.scores.sum() == pytest.approx(1)
