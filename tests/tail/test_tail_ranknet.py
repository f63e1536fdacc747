from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import permutations, product

import numpy as np
import pytest
from scipy import sparse

from lines import Lines
from longtail.arrays import Doubles
from longtail.data import Corpus, Dataset, LabelSet, Rows
from longtail.errors import RecipeError
from longtail.linear.solvers.ranknet_kernels import (
    Blocks,
    Candidates,
    Loss,
    added,
    backward,
    choose,
    forward,
    hardest,
    parted,
    population_loss,
)
from longtail.linear.solvers.ranknet_matrix import matrix_added, matrix_descend
from longtail.metrics import evaluate, inverse_propensity
from longtail.predictions import Predictions
from longtail.progress import listening
from longtail.recipe import Recipe
from longtail.seams import Misfit, State
from longtail.tail.ranknet import DEFAULT_STEP, STEPS, STRENGTHS, RankNet, RankNetBlocks
from stored import check

NOTHING = Rows(texts=())


def some_blocks(blocks: int, labels: int, bottleneck: int, seed: int) -> Blocks:
    """Random weights in double precision, none of them 0."""
    rng = np.random.default_rng(seed)
    shape = blocks, labels, bottleneck
    return Blocks(
        rng.normal(0, 0.3, shape),
        rng.normal(0, 0.5, shape),
        rng.normal(0, 0.5, shape[::2]),
        rng.random(labels),
    )


def slow_scores(blocks: Blocks, labels: list[int], inputs: Doubles) -> Doubles:
    """F = (W2 + rarity x shared) sigmoid(W1 y) + y with the whole matrices and the whole vector y."""
    y = np.zeros(len(blocks.rarity))
    y[labels] = inputs
    for into, out, shared in zip(blocks.into, blocks.out, blocks.shared, strict=True):
        change = (out + np.outer(blocks.rarity, shared)) @ (1 / (1 + np.exp(-(into.T @ y))))
        y[labels] += change[labels]
    return y[labels]


def slow_loss(
    scores: Doubles, counts: Doubles, positives: list[int], negatives: list[int], margin: float, weight: float
) -> float:
    pairs = sum(
        max(0.0, (counts[i] - counts[j]) / (counts[i] + counts[j]) * (scores[i] - scores[j]))
        for i, j in permutations(positives, 2)
    )
    return pairs + weight * sum(max(0.0, scores[k] - scores[i] + margin) for i in positives for k in negatives)


@dataclass
class Row:
    """One row with everything the loss needs, and the kernels' answer for it."""

    blocks: Blocks
    labels: list[int]
    inputs: Doubles
    counts: Doubles
    positives: list[int]
    negatives: list[int]

    def loss(self, blocks: Blocks) -> float:
        return slow_loss(
            slow_scores(blocks, self.labels, self.inputs), self.counts, self.positives, self.negatives, 0.5, 0.7
        )

    def gradient(self) -> tuple[float, Blocks]:
        number, (depth, _, bottleneck) = len(self.labels), self.blocks.into.shape
        labels = np.array(self.labels, dtype=np.int32)
        values, gradients = np.zeros((depth + 1, number)), np.zeros((depth + 1, number))
        hidden, under = np.zeros((depth, bottleneck)), np.zeros((depth, bottleneck))
        values[0] = self.inputs
        forward(labels, number, *self.blocks, values, hidden)
        places = np.array(self.positives), np.array(self.negatives)
        loss = population_loss(values[-1], self.counts, *places, 0.5, 0.7, gradients[-1])
        backward(labels, number, *self.blocks, hidden, gradients, under)
        found = Blocks(*(np.zeros_like(part) for part in self.blocks))
        for block in range(depth):
            for place, label in enumerate(self.labels):
                found.into[block, label] += values[block, place] * under[block]
                found.out[block, label] += gradients[block + 1, place] * hidden[block]
                found.shared[block] += gradients[block + 1, place] * self.blocks.rarity[label] * hidden[block]
        return loss, found


def some_row(depth: int, seed: int) -> Row:
    rng = np.random.default_rng(seed)
    labels = rng.permutation(9)[:6].tolist()
    counts = rng.integers(1, 50, 6).astype(np.float64)
    return Row(some_blocks(depth, 9, 4, seed), labels, rng.normal(1, 1, 6), counts, [0, 2, 5], [1, 4])


@pytest.mark.parametrize("depth", [1, 2, 3])
@pytest.mark.parametrize("seed", range(4))
def test_loss_and_gradient_match_a_slow_loss_and_its_differences(depth: int, seed: int) -> None:
    row = some_row(depth, seed)
    loss, found = row.gradient()
    assert loss == pytest.approx(row.loss(row.blocks), rel=1e-12)
    assert loss > 0
    step = 1e-6
    for name in ("into", "out", "shared"):
        weights, gradient = getattr(row.blocks, name), getattr(found, name)
        for place in np.ndindex(weights.shape):
            ends = []
            for sign in (1, -1):
                moved = weights.copy()
                moved[place] += sign * step
                ends.append(row.loss(row.blocks._replace(**{name: moved})))
            assert gradient[place] == pytest.approx((ends[0] - ends[1]) / (2 * step), abs=1e-7), (name, place)


def test_scores_match_a_slow_reference_and_leave_empty_places_alone() -> None:
    rng = np.random.default_rng(1)
    blocks = Blocks(*(part.astype(np.float32) for part in some_blocks(2, 12, 3, seed=5)))
    indices = np.stack([rng.permutation(12)[:7] for _ in range(40)]).astype(np.int32)
    indices[3, 2:] = -1
    indices[4] = -1
    inputs = np.where(indices >= 0, rng.normal(1, 1, indices.shape), 0).astype(np.float32)
    found = added(blocks, indices, inputs)
    for row in range(40):
        there = indices[row] >= 0
        expected = slow_scores(blocks, indices[row][there].tolist(), inputs[row][there].astype(np.float64))
        assert found[row][there] == pytest.approx(expected - inputs[row][there], abs=1e-4)
        assert (found[row][~there] == 0).all()


def test_a_pair_of_positives_pulls_the_rarer_up_and_equal_counts_pull_nothing() -> None:
    none, both = np.array([], dtype=np.int64), np.array([0, 1])
    gradients = np.zeros(2)
    loss = population_loss(np.array([2.0, 1.0]), np.array([30.0, 10.0]), both, none, 1.0, 1.0, gradients)
    assert loss == pytest.approx(2 * 0.5 * 1.0)  # (30 - 10) / (30 + 10) x (2 - 1), both ways round
    assert gradients.tolist() == [1.0, -1.0]  # descent lowers the common label and raises the rare one
    for counts, scores in (([10.0, 10.0], [2.0, 1.0]), ([10.0, 30.0], [2.0, 1.0]), ([0.0, 0.0], [2.0, 1.0])):
        gradients = np.zeros(2)
        assert population_loss(np.array(scores), np.array(counts), both, none, 1.0, 1.0, gradients) == 0
        assert (gradients == 0).all()


def test_negatives_are_the_highest_usable_candidates_and_never_positives() -> None:
    rng = np.random.default_rng(0)
    for _ in range(50):
        labels = np.append(rng.permutation(30)[:12], [-1, -1]).astype(np.int32)
        hits, usable = rng.random(14) < 0.3, rng.random(30) < 0.8
        right, wrong = np.empty(14, np.int64), np.empty(14, np.int64)
        number, found, others = parted(labels, hits, usable, right, wrong)
        assert number == 12
        assert right[:found].tolist() == np.flatnonzero(hits[:12]).tolist()
        assert wrong[:others].tolist() == [place for place in range(12) if not hits[place] and usable[labels[place]]]
        scores = rng.normal(size=14)
        wanted = min(3, others)
        expected = sorted(wrong[:others].tolist(), key=lambda place: -scores[place])[:wanted]
        hardest(wrong[:others], wanted, scores)
        assert wrong[:wanted].tolist() == expected


def test_no_training_leaves_the_ranking_exactly_as_it_was(tiny: Corpus) -> None:
    for learner in ("centroid", "knn", "bm25"):
        plain = Recipe.parse(learner).fit(tiny.train, tiny.valid).predict(tiny.test.rows, k=10)
        same = Recipe.parse(f"{learner} + ranknet(epochs=0)").fit(tiny.train, tiny.valid).predict(tiny.test.rows, k=10)
        assert np.array_equal(plain.indices, same.indices)
        assert np.array_equal(plain.scores, same.scores)


@dataclass
class Given:
    """Held-out predictions handed in by a test."""

    predictions: Predictions
    train: Dataset

    @property
    def labels(self) -> LabelSet:
        return self.train.labels

    def valid(self) -> tuple[Predictions, Dataset]:
        return self.predictions.top(0), self.train.take([])

    def folds(self, number: int, most: int | None = None, seed: int = 0) -> tuple[Predictions, Dataset]:
        return self.predictions, self.train


def two_right(rows: int = 60) -> Given:
    """Labels: 0 common, 1 rare, 2 wrong wherever it is a candidate, 3 never a candidate, 4 has one training row."""
    wanted = [[0, 1] if row % 3 == 0 else [0] for row in range(rows)]
    wanted[-3:] = [[0, 2], [0, 2], [0, 3, 4]]
    starts = np.cumsum([0] + [len(row) for row in wanted])
    targets = sparse.csr_array((np.ones(starts[-1], np.float32), np.concatenate(wanted), starts), (rows, 5))
    labels = LabelSet(ids=tuple("abcde")).counted(targets)
    train = Dataset(labels=labels, targets=targets, ids=tuple(map(str, range(rows))), texts=("",) * rows)
    indices = np.array([[0, 2, 1, 4] if 1 in row else [0, 2, 4, -1] for row in wanted], np.int32)
    indices[-3:] = [0, -1, -1, -1]
    scores = np.where(indices >= 0, np.array([0.5, 0.3, 0.25, 0.2], np.float32), 0).astype(np.float32)
    return Given(Predictions(labels, indices, scores), train)


@pytest.mark.parametrize("shared", [True, False])
def test_the_rarer_of_two_right_labels_rises_and_the_wrong_one_sinks(shared: bool) -> None:
    given = two_right()
    fitted = replace(RankNet(shared=shared, epochs=30).fit_reranker(given), step=1.0)
    found = fitted.rerank(given.predictions, NOTHING)
    assert given.predictions.indices[0, 0] == 0
    assert found.indices[0].tolist()[:2] == [1, 0]
    scores = dict(zip(found.indices[0].tolist(), found.scores[0].tolist(), strict=True))
    assert scores[2] < scores[0]


def test_only_candidates_are_touched_and_a_label_that_cannot_be_right_never_sinks() -> None:
    given = two_right()
    fitted = RankNet(shared=False).fit_reranker(given)
    start = RankNet(shared=False, epochs=0).fit_reranker(given)
    moved = (fitted.blocks.out != 0).any(axis=(0, 2))
    assert moved.tolist() == [True, True, True, False, False]
    assert np.array_equal(fitted.blocks.into[:, 3], start.blocks.into[:, 3])


def test_shared_weights_carry_what_is_learned_to_labels_without_examples() -> None:
    given = two_right()
    unseen = Predictions(given.labels, np.array([[0, 3]], np.int32), np.array([[0.5, 0.5]], np.float32))
    fitted = RankNet(margin_weight=0).fit_reranker(given)
    assert np.allclose(fitted.blocks.rarity, np.log(inverse_propensity(given.labels)))
    assert not fitted.blocks.out[:, 3].any()
    raised = fitted.rerank(unseen, NOTHING)
    assert raised.indices[0].tolist() == [3, 0]  # rare labels rose in training, so this one rises too
    assert raised.scores[0, 0] > 0.5
    alone = RankNet(margin_weight=0, shared=False).fit_reranker(given).rerank(unseen, NOTHING)
    assert alone.scores[0][alone.indices[0] == 3] == 0.5


def test_the_same_seed_gives_the_same_weights_on_any_number_of_threads(
    tiny: Corpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    states, answers = [], []
    for threads, seed in (("1", 0), ("3", 0), ("1", 1)):
        monkeypatch.setenv("LONGTAIL_THREADS", threads)
        model = Recipe.parse(f"centroid + ranknet(seed={seed}, blocks=2)").fit(tiny.train, tiny.valid)
        states.append(model.rerankers[0].state())
        answers.append(model.predict(tiny.test.rows, k=10))
    for name, weights in states[0].tensors.items():
        assert np.array_equal(weights, states[1].tensors[name]), name
    assert np.array_equal(answers[0].scores, answers[1].scores)
    assert not np.array_equal(states[0].tensors["into"], states[2].tensors["into"])


def test_the_matrix_form_takes_the_steps_of_a_slow_reference() -> None:
    """Two passes of F = W y + y with row-wise Adagrad, the gradient from differences of the slow loss."""
    rng = np.random.default_rng(2)
    indices = np.stack([rng.permutation(7)[:5] for _ in range(12)]).astype(np.int32)
    indices[3, 3:] = -1
    inputs = np.where(indices >= 0, rng.random(indices.shape), 0).astype(np.float32)
    hits = (rng.random(indices.shape) < 0.4) & (indices >= 0)
    counts = np.array([40, 3, 9, 1, 20, 2, 5], np.float32)
    rows = Candidates(indices, inputs, hits, np.ones(7, bool), counts)
    orders = [rng.permutation(12) for _ in range(2)]
    found = np.zeros((7, 7), np.float32)
    losses = list(matrix_descend(found, Loss(np.float32(0.3), np.float32(0.7), 9), rows, 0.1, orders))

    weights, squares, expected = np.zeros((7, 7)), np.full(7, 0.1), []
    for order in orders:
        total = 0.0
        for row in order:
            there = indices[row] >= 0
            labels, y, right = indices[row][there], inputs[row][there].astype(np.float64), hits[row][there]
            places = [np.flatnonzero(one).tolist() for one in (right, ~right)]

            settings = (counts[labels].astype(np.float64), *places, 0.3, 0.7)
            scores = weights[np.ix_(labels, labels)] @ y + y
            if not right.any():
                continue
            total += slow_loss(scores, *settings)
            steps = np.eye(len(labels)) * 1e-6
            ends = [[slow_loss(scores + sign * step, *settings) for sign in (1, -1)] for step in steps]
            gradient = np.array([(above - below) / 2e-6 for above, below in ends])
            squares[labels] += gradient**2 * (y**2).mean()
            weights[np.ix_(labels, labels)] -= 0.1 * np.outer(gradient / np.sqrt(squares[labels]), y)
        expected.append(total / len(order))
    assert losses == pytest.approx(expected, rel=1e-4)
    assert found == pytest.approx(weights, abs=1e-4)
    added_ = matrix_added(found, indices, inputs)
    for row in range(12):
        there = indices[row] >= 0
        labels = indices[row][there]
        assert added_[row][there] == pytest.approx(weights[np.ix_(labels, labels)] @ inputs[row][there], abs=1e-4)
        assert not added_[row][~there].any()


def test_random_negatives_are_drawn_evenly_and_anew_in_each_pass() -> None:
    counts, scores, loss = np.zeros(6), np.arange(6.0), Loss(np.float32(0), np.float32(1), 2, seed=5)
    for epoch in range(500):
        for row in range(4):
            places = np.arange(6)
            choose(places, 2, scores, loss.of_epoch(epoch).seed, row)
            assert sorted(places.tolist()) == list(range(6))
            counts[places[:2]] += 1
    assert counts / counts.sum() == pytest.approx(np.full(6, 1 / 6), abs=0.02)
    hard = np.arange(6)
    choose(hard, 2, scores, loss._replace(seed=-1).of_epoch(3).seed, 0)
    assert hard[:2].tolist() == [5, 4]


@pytest.mark.parametrize("preset", ["paper", "matrix"])
def test_the_papers_forms_raise_the_rarer_of_two_right_labels_by_raw_scores(preset: str) -> None:
    given = two_right()
    method = Recipe.parse(f"knn + ranknet:{preset}(epochs=30, margin=0.1, learning_rate=0.02, negatives=3)").tail[0]
    fitted = method.fit_reranker(given)  # type: ignore[attr-defined]
    assert (fitted.step, fitted.strength, fitted.raw) == (1.0, 0.0, True)
    assert (fitted.matrix is None) == (preset == "paper")
    kept = given.predictions
    change = fitted._added(kept)
    found = fitted.rerank(kept, NOTHING)
    first = found.indices[0].tolist()
    assert first.index(1) < first.index(0) < first.index(2)
    for row in (0, 1):
        filled = kept.indices[row] >= 0
        order = np.argsort(-(kept.scores + change)[row][filled], kind="stable")
        assert found.indices[row][filled].tolist() == kept.indices[row][filled][order].tolist()
        assert found.scores[row][filled] == pytest.approx(np.exp((kept.scores + change)[row][filled][order]), rel=1e-4)
    again = check(RankNetBlocks, fitted.state(), 5).rerank(kept, NOTHING)
    assert np.array_equal(again.scores, found.scores) and np.array_equal(again.indices, found.indices)


def test_scores_stay_above_zero_and_in_order_however_far_labels_move() -> None:
    labels = LabelSet(ids=tuple("abc"))
    ones = np.ones((1, 3, 1), np.float32)
    pulls = np.array([-300, 0, 100], np.float32)[None, :, None]
    far = RankNetBlocks(Blocks(ones * 0, pulls, np.zeros((1, 1), np.float32), np.zeros(3, np.float32)), 0.0, 100)
    before = Predictions(labels, np.array([[0, 1, 2, -1]], np.int32), np.array([[0.9, 0.5, 1e-44, 0]], np.float32))
    found = far.rerank(before, NOTHING)
    assert found.indices.tolist() == [[1, 2, 0, -1]]
    assert (found.scores[0, :3] > 0).all() and np.isfinite(found.scores).all()
    assert (np.diff(found.scores) <= 0).all()
    assert replace(far, candidates=2).rerank(before, NOTHING).indices.tolist() == [[1, 0]]


def test_the_valid_split_says_how_much_of_the_network_and_of_propensity_to_take() -> None:
    given = two_right()
    fitted = RankNet().fit_reranker(given)
    assert (fitted.step, fitted.strength) == (DEFAULT_STEP, 0.0)  # there was no valid row to ask
    valid = given.predictions, given.train
    found = fitted.balanced(*valid)

    def worth(step: float, strength: float) -> float:
        measures = evaluate(
            replace(fitted, step=step, strength=strength).rerank(given.predictions, NOTHING), given.train
        )
        return sum(measures[f"{name}@{k}"] for name in ("P", "PSP") for k in (1, 3, 5))

    values = {place: worth(*place) for place in product(STEPS, STRENGTHS)}
    assert max(values.values()) > min(values.values())  # there is something to choose
    assert values[found.step, found.strength] == pytest.approx(max(values.values()))


@pytest.mark.parametrize(("right", "raised"), [(0.9, False), (0.6, True)])
def test_precision_and_propensity_scored_precision_decide_together(right: float, raised: bool) -> None:
    """A rare label may come first where that gains more PSP than it costs P. PSP alone would always put it first."""
    rows = 100
    wanted = np.where(np.arange(rows) < right * rows, 0, 1)
    targets = sparse.csr_array((np.ones(rows, np.float32), wanted, np.arange(rows + 1)), (rows, 2))
    labels = LabelSet(ids=("common", "rare"), counts=np.array([5000, 0]), train_rows=10_000)
    data = Dataset(labels=labels, targets=targets, ids=tuple(map(str, range(rows))), texts=("",) * rows)
    inverse = inverse_propensity(labels)
    assert (1 - right) * inverse[1] > right * inverse[0]
    nothing = np.zeros((1, 2, 1), np.float32)
    net = RankNetBlocks(Blocks(nothing, nothing, nothing[0, :1], np.log(inverse).astype(np.float32)), 0.0, 2)
    scores = np.tile(np.array([0.5, 0.2], np.float32), (rows, 1))
    predictions = Predictions(labels, np.tile(np.array([0, 1], np.int32), (rows, 1)), scores)
    first = net.balanced(predictions, data).rerank(predictions, NOTHING).indices[:, 0]
    assert (first == int(raised)).all()


def test_without_the_network_it_is_rerank(tiny: Corpus) -> None:
    plain = Recipe.parse("knn").fit(tiny.train, tiny.valid).predict(tiny.test.rows, k=100)
    fitted = Recipe.parse("knn + ranknet").fit(tiny.train, tiny.valid).rerankers[0]
    assert isinstance(fitted, RankNetBlocks)
    for strength in (0.5, 1.0):
        found = replace(fitted, step=0.0, strength=strength).rerank(plain, NOTHING)
        simple = Recipe.parse(f"knn + rerank(strength={strength})").fit(tiny.train, tiny.valid)
        assert np.allclose(found.scores[:, :10], simple.predict(tiny.test.rows, k=10).scores, rtol=1e-5)


def test_a_part_can_be_held_fixed_while_the_other_is_chosen() -> None:
    given = two_right()
    fitted = RankNet().fit_reranker(given)
    valid = given.predictions, given.train
    assert fitted.balanced(*valid, steps=(0.0,)).step == 0
    assert fitted.balanced(*valid, strengths=(0.0,)).strength == 0


def test_what_valid_chose_is_logged(tiny: Corpus) -> None:
    notes = Lines()
    with listening(notes):
        fitted = Recipe.parse("knn + ranknet").fit(tiny.train, tiny.valid).rerankers[0]
    assert isinstance(fitted, RankNetBlocks)
    (line,) = [one for one in notes.lines if one.startswith("ranknet: chosen")]
    assert f"chosen {fitted.step:g} of the network" in line and line.endswith(f"the power {fitted.strength:g}")


def test_the_plain_form_is_left_as_trained(tiny: Corpus) -> None:
    model = Recipe.parse("knn + ranknet(shared=false)").fit(tiny.train, tiny.valid)
    plain = model.rerankers[0].state()
    assert (plain.settings["step"], plain.settings["strength"]) == (1.0, 0.0)
    assert not plain.tensors["rarity"].any()


@pytest.mark.parametrize("name", ["bottleneck", "blocks", "negatives", "folds", "candidates", "margin", "epochs"])
def test_settings_out_of_range_are_refused_with_their_name(name: str) -> None:
    with pytest.raises(RecipeError, match=f"'{name}' of ranknet is at least"):
        Recipe.parse(f"centroid + ranknet({name}=-1)")
    with pytest.raises(RecipeError, match="at most 100"):
        Recipe.parse("centroid + ranknet(candidates=101)")


def test_weights_that_do_not_fit_are_refused() -> None:
    state = RankNet(epochs=0).fit_reranker(two_right()).state()
    assert isinstance(check(RankNetBlocks, state, 5), RankNetBlocks)
    for name, weights in (("out", np.zeros((1, 4, 64), np.float32)), ("rarity", np.full(5, np.nan, np.float32))):
        with pytest.raises(Misfit, match=f"array '{name}'"):
            check(RankNetBlocks, State(state.settings, {**state.tensors, name: weights}), 5)
