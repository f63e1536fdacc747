"""The sentence at the top of the report, worked by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse

from longtail.data.corpus import Corpus
from longtail.data.dataset import Dataset
from longtail.data.labels import LabelSet
from longtail.metrics.measures import Measures
from longtail.metrics.significance import BETTER, SAME, Difference
from longtail.predictions import Predictions
from longtail.report.findings import find
from longtail.report.headline import headline, mean_ranks, pareto_front
from longtail.report.result import Result


def corpus_of_three() -> Corpus:
    """Labels: 0 head, 1 torso, 2 and 3 tail, 4 unseen."""
    labels = LabelSet(ids=tuple("abcde"), counts=np.array([100, 20, 3, 2, 0]), train_rows=100)
    targets = sparse.csr_array(np.array([[1, 0, 1, 0, 0], [1, 1, 0, 0, 1], [0, 0, 0, 1, 0]], dtype=np.float32))
    test = Dataset(labels=labels, targets=targets, ids=("x", "y", "z"), texts=("x", "y", "z"))
    return Corpus(name="worked", train=test, valid=test, test=test)


def result(corpus: Corpus, name: str, first: float, tail: float, top: tuple[int, ...] = (2, 4, 3)) -> Result:
    indices = np.array([[label] for label in top], dtype=np.int32)
    predictions = Predictions(corpus.labels, indices, np.ones((3, 1), dtype=np.float32))
    values = {"P@1": first, "PSP@5": tail}
    measures = Measures(values=values, bins=(), bins_at=5, propensity=corpus.propensity, rows=3)
    return Result(name, measures, predictions, 1.0, 1.0, 1, 1)


def plain(results: list[Result], corpus: Corpus) -> str:
    markup = headline(results, find(results, corpus))
    for tag in ("<strong>", "</strong>", "<bdi>", "</bdi>"):
        markup = type(markup)(markup.replace(tag, ""))
    return str(markup)


@pytest.mark.parametrize(
    ("points", "front"),
    [
        ([(60, 20), (59, 30), (58, 25)], [0, 1]),
        ([(60, 20), (60, 20)], [0]),
        ([(65, 31), (0.2, 38)], [0]),  # nobody wants the most tail at any price
        ([(60, 20), (20, 50)], [0, 1]),  # where both lose much, both are shown
        ([(1, 1)], [0]),
    ],
)
def test_the_front(points: list[tuple[float, float]], front: list[int]) -> None:
    assert pareto_front(points) == front


def test_the_first_named_has_the_best_mean_rank_and_others_say_their_price() -> None:
    corpus = corpus_of_three()
    results = [
        result(corpus, "parabel", 65.0, 31.4, (0, 0, 0)),
        result(corpus, "parabel + rerank", 64.8, 37.8),
        result(corpus, "bm25", 0.2, 38.0),
    ]
    assert mean_ranks(results) == [2.0, 2.0, 2.0]
    assert plain(results, corpus) == (
        "parabel + rerank is the trade-off to choose: P@1 64.8 and PSP@5 37.8. It finds 3 of 3 tail and unseen labels "
        "(100%) at least once. parabel has 0.2 points more P@1 for 6.4 points less PSP@5."
    )


def test_a_difference_that_is_not_shown_is_said() -> None:
    corpus = corpus_of_three()
    first, second = result(corpus, "a", 65.0, 31.4), result(corpus, "b", 64.8, 37.8)
    sure = {"P@1": Difference(-0.2, -0.5, 0.1, 0.3, 0.3, 0.3, SAME)}
    sure["PSP@5"] = Difference(6.4, 6.0, 6.8, 0.001, 0.001, 0.001, BETTER)
    sentence = plain([first, replace(second, against_first=sure)], corpus)
    assert sentence.endswith("a has 0.2 points more P@1 (no difference shown) for 6.4 points less PSP@5.")


def test_best_at_both_one_recipe_and_nothing() -> None:
    corpus = corpus_of_three()
    both = plain([result(corpus, "weak", 50, 20), result(corpus, "strong", 60, 30)], corpus)
    assert both.startswith("strong is best at both: P@1 60.0 and PSP@5 30.0.")
    assert both.endswith("Next is weak with P@1 50.0 and PSP@5 20.0.")
    alone = plain([result(corpus, "one", 50, 20, (2, 0, 3))], corpus)
    assert alone == "one finds 2 of 3 tail and unseen labels (67%) at least once. Its P@1 is 50.0."
    silent = replace(corpus.test, targets=sparse.csr_array((3, 5), dtype=np.float32))
    empty = Corpus(name="empty", train=corpus.train, valid=corpus.valid, test=silent)
    assert "no true labels" in plain([result(corpus, "one", 0, 0)], empty)


def test_measures_that_are_missing() -> None:
    corpus = corpus_of_three()
    results = [result(corpus, "few", 50, 20, (0, 0, 3)), result(corpus, "many", 60, 30)]
    bare = [replace(one, measures=replace(one.measures, values={})) for one in results]
    assert plain(bare, corpus) == "many finds 3 of 3 tail and unseen labels (100%) at least once."
