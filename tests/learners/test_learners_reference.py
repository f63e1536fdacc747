"""Each first learner against a slow, obvious version of its formula."""

from __future__ import annotations

import math
import re
from collections import Counter

import numpy as np
import pytest

from longtail.data import Corpus
from longtail.linear.text import Features
from longtail.recipe import Recipe


def test_bm25_by_formula(tiny: Corpus) -> None:
    k1, b = 1.5, 0.6
    model = Recipe.parse(f"bm25(k1={k1}, b={b})").fit(tiny.train, tiny.valid)
    documents = [Counter(re.findall(r"\w+", text.lower())) for text in tiny.labels.texts]
    mean = sum(sum(document.values()) for document in documents) / len(documents)
    holders = Counter(word for document in documents for word in document)

    def score(query: str, document: Counter[str]) -> float:
        total = 0.0
        for word in set(re.findall(r"\w+", query.lower())):
            if word in document:
                idf = math.log(1 + (len(documents) - holders[word] + 0.5) / (holders[word] + 0.5))
                norm = k1 * (1 - b + b * sum(document.values()) / mean)
                total += idf * document[word] * (k1 + 1) / (document[word] + norm)
        return total

    query = "a dragon and a castle by the harbour"
    found = model.predict([query], k=10)
    expected = {row: score(query, document) for row, document in enumerate(documents)}
    shown = dict(zip(found.indices[0].tolist(), found.scores[0].tolist(), strict=True))
    assert shown == pytest.approx({row: value for row, value in expected.items() if value > 0}, rel=1e-5)


def test_bm25_finds_labels_without_examples(tiny: Corpus) -> None:
    """Zero-shot by nature: it reads label texts, never training rows."""
    few = tiny.train.take([0])
    model = Recipe.parse("bm25").fit(few, tiny.valid)
    assert model.predict(["the jungle"], k=1).answers(0)[0].text == "a jungle"


def test_centroid_by_formula(tiny: Corpus) -> None:
    model = Recipe.parse("centroid(chances=false)").fit(tiny.train, tiny.valid)
    features, vectors = Features.learn(tiny.train)
    means = tiny.train.targets.toarray().T.astype(np.float64) @ vectors.toarray()
    means /= np.linalg.norm(means, axis=1, keepdims=True)
    cosines = features.of(tiny.test.rows).toarray() @ means.T  # (rows, labels)
    found = model.predict(tiny.test.rows, k=3)
    best = np.argsort(-cosines, axis=1, kind="stable")[:, :3]
    assert np.take_along_axis(cosines, best, axis=1) == pytest.approx(found.scores, abs=1e-5)


def test_centroid_chances_are_probabilities(tiny: Corpus) -> None:
    found = Recipe.parse("centroid").fit(tiny.train, tiny.valid).predict(tiny.test.rows, k=5)
    assert (found.scores >= 0).all() and (found.scores <= 1).all()
    hits = found.hits(tiny.test.targets)
    assert abs(found.scores[:, 0].mean() - hits[:, 0].mean()) < 0.1


def test_knn_by_formula(tiny: Corpus) -> None:
    neighbours = 7
    model = Recipe.parse(f"knn(neighbours={neighbours})").fit(tiny.train, tiny.valid)
    features, vectors = Features.learn(tiny.train)
    likeness = features.of(tiny.test.rows).toarray() @ vectors.toarray().T
    targets = tiny.train.targets.toarray()
    found = model.predict(tiny.test.rows, k=10)
    for row in range(len(tiny.test)):
        near = np.argsort(-likeness[row], kind="stable")[:neighbours]
        votes = likeness[row, near] @ targets[near] / likeness[row, near].sum()
        shown = found.scores[row][found.indices[row] >= 0]
        # Rows at equal distance may stand in for each other, so the sum of the votes is what must agree.
        assert shown.sum() == pytest.approx(votes.sum(), rel=0.35)
        if len(set(np.round(np.sort(-likeness[row])[: neighbours + 1], 6))) == neighbours + 1:
            assert shown == pytest.approx(np.sort(votes[votes > 0])[::-1], abs=1e-5)
