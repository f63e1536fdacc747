"""Hard negatives: which rows they are, and that a node learns from them."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import minimize

from lines import Lines
from longtail.data import Corpus, Dataset, LabelSet
from longtail.errors import RecipeError
from longtail.learners.bonsai import Bonsai
from longtail.linear.features.sparse_features import unit_rows
from longtail.linear.trees.beam_search import LabelForest
from longtail.linear.trees.hard_negatives import hard_negatives_of
from longtail.linear.trees.label_clusters import kmeans_tree, label_vectors
from longtail.linear.trees.label_forest import ForestScorer
from longtail.linear.trees.node_rows import LevelTargets
from longtail.linear.trees.train_tree import Chunk, Training, _node_targets, fit_tree
from longtail.plan import DataFacts
from longtail.progress import listening
from longtail.recipe import Recipe


def problem(rows: int = 200, features: int = 40, labels: int = 30) -> tuple[sparse.csr_array, sparse.csr_array]:
    """Random rows and targets; the last row has no label."""
    rng = np.random.default_rng(5)
    inputs = unit_rows(sparse.random_array((rows, features), density=0.2, rng=rng, dtype=np.float32).tocsr())
    targets = (rng.random((rows, labels)) < 0.06).astype(np.float32)
    targets[np.arange(rows), rng.integers(0, labels, rows)] = 1
    targets[-1] = 0
    return inputs, sparse.csr_array(targets)


def scores_of(chunk: Chunk, dense: np.ndarray) -> np.ndarray:
    weights = np.zeros((dense.shape[1], len(chunk.bias)))
    weights[np.repeat(chunk.features, np.diff(chunk.starts)), chunk.children] = chunk.weights
    return dense @ weights + chunk.bias


@pytest.mark.parametrize("number", [1, 3, 50])
@pytest.mark.parametrize("depth", [1, 2])
def test_hard_negatives_are_the_most_likely_nodes_without_a_label_of_the_row(number: int, depth: int) -> None:
    rows, targets = problem()
    order, levels = kmeans_tree(label_vectors(targets, rows), branches=4, depth=depth, seed=0)
    asked: list[tuple[list[Chunk], np.ndarray, tuple[np.ndarray, np.ndarray]]] = []
    real = hard_negatives_of(rows, number)

    def listen(above: list[Chunk], over: list[np.ndarray], nodes: sparse.csr_array) -> tuple[np.ndarray, np.ndarray]:
        found = real(above, over, nodes)
        asked.append((list(above), nodes.toarray(), found))
        return found

    fit_tree(rows, targets, order, levels, Training(weight_threshold=0.0), lambda chunk: None, listen)
    assert len(asked) == depth
    dense = rows.toarray().astype(np.float64)
    logs = np.zeros((len(dense), 1))
    for level, (above, nodes, (found_rows, found_nodes)) in enumerate(asked):
        below = np.full(nodes.shape, -np.inf)
        for chunk in above:
            if chunk.level == level:
                log = -(np.maximum(0, 1 - scores_of(chunk, dense)) ** 2)
                below[:, chunk.first : chunk.first + len(chunk.bias)] = logs[:, [chunk.parent]] + log
        logs = below
        for row in range(len(dense)):
            found = found_nodes[found_rows == row]
            assert len(set(found.tolist())) == len(found) and not nodes[row, found].any()
            wrong = np.flatnonzero(nodes[row] == 0)
            expected = np.sort(logs[row, wrong])[::-1][:number] if nodes[row].any() else np.zeros(0)
            assert np.sort(logs[row, found])[::-1] == pytest.approx(expected, abs=1e-3)  # weights are kept in 16 bits


def test_negatives_are_among_a_nodes_own_rows_and_have_no_target() -> None:
    targets = sparse.csr_array(np.array([[1, 0, 0, 0, 0], [0, 0, 0.5, 1, 0], [0, 1, 0, 0, 0]], dtype=np.float32))
    negatives = (np.array([1, 0, 0]), np.array([0, 1, 2], dtype=np.int32))
    held = LevelTargets(targets, np.array([0, 2, 4, 5]), negatives)
    assert [held.rows(node) for node in range(3)] == [3, 2, 0]  # a node without rows of its own stays without
    first, second = held.of(0), held.of(1)
    assert first.rows.tolist() == [0, 1, 2] and first.starts.tolist() == [0, 1, 1, 2]
    assert first.children.tolist() == [0, 1]
    assert second.rows.tolist() == [0, 1] and second.starts.tolist() == [0, 0, 2]
    assert second.children.tolist() == [2, 3] and second.values.tolist() == [0.5, 1.0]


def test_a_leaf_learns_from_its_own_rows_and_from_hard_negatives() -> None:
    rows, targets = problem()
    order, levels = np.arange(30, dtype=np.int32), [np.array([0, 30]), np.array([0, 15, 30])]
    own = _node_targets(targets, levels[1]).toarray()[:, 1] > 0
    negative_rows = np.flatnonzero(~own)[:20]
    kept: list[Chunk] = []
    fit_tree(
        rows,
        targets,
        order,
        levels,
        Training(weight_threshold=0.0, tol=1e-6, max_iter=5000),
        kept.append,
        lambda above, over, nodes: (negative_rows, np.ones(20, dtype=np.int32)),
    )
    chunk = next(one for one in kept if one.level == 1 and one.parent == 1)
    here = np.union1d(np.flatnonzero(own), negative_rows)
    design = np.c_[rows.toarray()[here], np.ones(len(here))].astype(np.float64)
    found = scores_of(chunk, design[:, :-1])
    for child in (0, 7):
        sign = 2 * targets.toarray()[here, 15 + child].astype(np.float64) - 1

        def loss(w: np.ndarray, sign: np.ndarray = sign) -> tuple[float, np.ndarray]:
            short = np.maximum(0, 1 - sign * (design @ w))
            return 0.5 * w @ w + (short**2).sum(), w - 2 * design.T @ (sign * short)

        best = minimize(loss, np.zeros(41), jac=True, method="L-BFGS-B", options={"ftol": 1e-15, "gtol": 1e-10})
        assert np.abs(found[:, child] - design @ best.x).max() < 1e-3


def test_path_weight_is_the_share_of_a_forks_log_probability_that_counts() -> None:
    rows, targets = problem()
    order, levels = np.arange(30, dtype=np.int32), [np.array([0, 30]), np.array([0, 10, 20, 30])]
    whole: list[Chunk] = []
    part: list[Chunk] = []
    fit_tree(rows, targets, order, levels, Training(), whole.append)
    fit_tree(rows, targets, order, levels, Training(path_weight=0.4), part.append)
    dense = rows.toarray().astype(np.float64)
    for one, other in zip(whole, part, strict=True):
        before, after = ((1 - scores_of(chunk, dense)) for chunk in (one, other))
        counts = 0.4 if one.level == 0 else 1.0
        assert np.maximum(after, 0) ** 2 == pytest.approx(counts * np.maximum(before, 0) ** 2, abs=1e-5)


def test_bonsai_with_hard_negatives_does_not_depend_on_threads(tiny: Corpus, monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    for threads in ("1", "3"):
        monkeypatch.setenv("LONGTAIL_THREADS", threads)
        scorer = Recipe.parse("bonsai(branches=3, hard_negatives=3)").fit(tiny.train, tiny.valid).scorer
        assert isinstance(scorer, ForestScorer)
        found.append(scorer.forest)
    plain = Recipe.parse("bonsai(branches=3, hard_negatives=0)").fit(tiny.train, tiny.valid).scorer
    assert isinstance(plain, ForestScorer)
    assert all(np.array_equal(getattr(found[0], one.name), getattr(found[1], one.name)) for one in fields(LabelForest))
    assert not np.array_equal(found[0].bias, plain.forest.bias)


@pytest.mark.parametrize("given", [True, False], ids=["valid given", "no valid"])
def test_hard_negatives_are_chosen_on_held_out_examples(given: bool, tiny: Corpus) -> None:
    valid = tiny.valid if given else tiny.train.take([])
    lines = Lines()
    with listening(lines):
        chosen = Recipe.parse("bonsai(branches=3, trees=2, hard_negatives='auto')").fit(tiny.train, valid).scorer
    *tries, last = lines.lines
    assert [one.split(":")[1].strip() for one in tries] == ["hard_negatives=3", "hard_negatives=0"]
    number = int(last.removeprefix("bonsai: chosen hard_negatives="))
    passes = {3: 5, 0: 8}[number]
    same = Recipe.parse(f"bonsai(branches=3, trees=2, hard_negatives={number}, max_iter={passes})")
    fixed = same.fit(tiny.train, valid).scorer  # on all rows, those held out for the choice too
    assert isinstance(chosen, ForestScorer) and isinstance(fixed, ForestScorer)
    assert all(
        np.array_equal(getattr(chosen.forest, one.name), getattr(fixed.forest, one.name)) for one in fields(LabelForest)
    )


@pytest.mark.parametrize(
    ("better", "number"), [({3: 60.0, 0: 50.0}, 3), ({3: 50.0, 0: 60.0}, 0), ({3: 5.0, 0: 5.0}, 3)]
)
def test_the_better_half_is_kept_and_of_equals_the_default(
    better: dict[int, float], number: int, tiny: Corpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The measures are given, so that each answer is seen."""
    measured = iter([better[3], better[0]])

    def given(*_: object, **__: object) -> dict[str, float]:
        value = next(measured)
        return {f"{name}@{k}": value for name in ("P", "PSP") for k in (1, 3, 5)}

    monkeypatch.setattr("longtail.learners.bonsai.evaluate", given)
    learner = Recipe.parse("bonsai(branches=3, trees=1, hard_negatives='auto')").learner
    assert learner._chosen(tiny.train, tiny.valid).hard_negatives == number  # type: ignore[attr-defined]


def test_two_forks_are_tried_where_clusters_are_large(tiny: Corpus, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten labels in two clusters; what is large is given, so that ten labels are enough."""
    monkeypatch.setattr("longtail.learners.bonsai.LARGE_CLUSTER", 5)
    measured, names = iter([50.0, 40.0, 60.0]), [f"{name}@{k}" for name in ("P", "PSP") for k in (1, 3, 5)]
    monkeypatch.setattr("longtail.learners.bonsai.evaluate", lambda *_, **__: dict.fromkeys(names, next(measured)))
    lines, learner = Lines(), Bonsai(branches=2, trees=1)
    with listening(lines):
        chosen = learner._chosen(tiny.train, tiny.valid)
    assert lines.lines[-1] == "bonsai: chosen hard_negatives=0, depth=2"
    assert (chosen.hard_negatives, chosen.depth, chosen.max_iter) == (0, 2, 8)
    for other in (replace(learner, depth=1), replace(learner, depth=2), replace(learner, branches=3)):
        assert len(other._choices(10)) == 2


def test_a_plan_of_a_choice_has_more_trees() -> None:
    facts = DataFacts(10_000, 500, 20_000, 5_000, 30.0, 2.0, 90_000, 3.0, 10**6)
    fixed, auto = (Recipe.parse(f"bonsai(hard_negatives={value})").plan(facts) for value in ("3", "'auto'"))
    assert fixed.train_seconds < auto.train_seconds < 4 * fixed.train_seconds
    assert fixed.train_bytes == auto.train_bytes


def test_trees_of_which_one_has_nothing_left_to_split_are_searched_together() -> None:
    """All clusters of the second tree have too few labels for another fork; the search goes down all trees at once."""
    inputs, targets = problem(rows=60, features=30, labels=9)
    vectors = label_vectors(targets, inputs)
    depths = [len(kmeans_tree(vectors, branches=4, depth=2, seed=seed)[1]) for seed in range(3)]
    assert depths == [3, 2, 3]
    labels = LabelSet(ids=tuple(map(str, range(9)))).counted(targets)
    data = Dataset(labels=labels, targets=targets, ids=tuple(map(str, range(60))), features=inputs)
    own = Bonsai(branches=4, depth=2, hard_negatives=0)

    def scores(learner: Bonsai) -> np.ndarray:
        found, values = learner.fit(data, data, ()).top(data.rows, 9)
        return np.take_along_axis(values, np.argsort(found, axis=1), axis=1)  # by label

    alone = [scores(replace(own, trees=1, seed=seed)) for seed in range(3)]
    # The second tree's leaves are a level lower than alone, so its rows come in another order, and passes end early.
    np.testing.assert_allclose(scores(replace(own, trees=3)), np.mean(alone, axis=0), atol=0.1)


def test_a_negative_number_of_hard_negatives_is_refused() -> None:
    with pytest.raises(RecipeError, match="'hard_negatives' of bonsai is at least 0, got -1"):
        Recipe.parse("bonsai(hard_negatives=-1)")


def test_tries_train_here_and_not_as_jobs(tiny: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A scheduler would have to be asked twice for trees that train in a second."""
    from longtail.jobs import current_job_runner, using_jobs

    seen = []
    monkeypatch.setattr(
        Bonsai, "fit", lambda self, *_: seen.append((self.hard_negatives, current_job_runner())) or 1 / 0
    )
    with using_jobs(tmp_path, "processes"), pytest.raises(ZeroDivisionError):
        Bonsai()._chosen(tiny.train, tiny.valid)
    assert seen == [(3, None)]
