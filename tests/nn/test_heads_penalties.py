"""Penalties on classifier rows against float64 autograd and against slow, obvious statistics."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from scipy import sparse  # noqa: E402

from longtail.data import Corpus, Dataset, LabelSet  # noqa: E402
from longtail.errors import RecipeError  # noqa: E402
from longtail.nn.onevsall.head import HeadSettings, OneVsAllHead  # noqa: E402
from longtail.nn.onevsall.penalties import GramPenalty, TiePenalty, gram_gradient  # noqa: E402
from longtail.plan import DataFacts  # noqa: E402
from longtail.recipe import Recipe  # noqa: E402
from longtail.tail.glas import Glas  # noqa: E402

CPU = torch.device("cpu")


def some_data(rows: int = 60, labels: int = 23, seed: int = 0, augmented: int = 0) -> Dataset:
    rng = np.random.default_rng(seed)
    dense = (rng.random((rows, labels)) < 0.15).astype(np.float32)
    dense[:, 4] = 0  # a label without rows
    return Dataset(
        labels=LabelSet(ids=tuple(map(str, range(labels)))),
        targets=sparse.csr_array(dense),
        ids=tuple(map(str, range(rows))),
        texts=("text",) * rows,
        origins=np.r_[np.zeros(rows - augmented, np.int32), np.ones(augmented, np.int32)],
        origin_names=("given", "added") if augmented else ("given",),
    )


def co_occurrence(dense: np.ndarray) -> np.ndarray:
    """½ (P(i | j) + P(j | i)) by counting."""
    labels = dense.shape[1]
    found = np.eye(labels)
    for i in range(labels):
        for j in range(labels):
            both = float(sum(row[i] and row[j] for row in dense))
            if i != j and both:
                found[i, j] = 0.5 * (both / dense[:, i].sum() + both / dense[:, j].sum())
    return found


def test_co_occurrence_is_that_of_the_original_rows() -> None:
    data = some_data(augmented=20)
    found = Glas(threshold=0.0).symmetric_cooccurrence(data, 0, 23).toarray()
    assert np.allclose(found, co_occurrence(data.targets.toarray()[:40]), atol=1e-6)
    part = Glas(threshold=0.0).symmetric_cooccurrence(data, 5, 12).toarray()
    assert np.array_equal(part, found[5:12, 5:12])


@pytest.mark.parametrize("normalised", [False, True])
def test_the_gram_gradient_is_that_of_its_formula(normalised: bool) -> None:
    rng = np.random.default_rng(1)
    rows = torch.tensor(rng.normal(size=(9, 5)), requires_grad=True)
    target = torch.tensor(rng.random((9, 9)))
    target = (target + target.T) / 2
    taken = rows / rows.norm(dim=1, keepdim=True) if normalised else rows
    loss = 3.0 / 9 * ((taken @ taken.T - target) ** 2).sum()
    loss.backward()
    found = gram_gradient(rows.detach().float(), target.float(), 3.0, normalised)
    assert torch.allclose(found.double(), rows.grad, atol=1e-5)
    if normalised:  # it turns rows and keeps their norm
        assert torch.allclose(
            (found.double() * rows.detach()).sum(dim=1), torch.zeros(9, dtype=torch.float64), atol=1e-5
        )


def test_a_step_updates_the_sampled_labels_and_no_others() -> None:
    data = some_data(labels=300, rows=500)
    cooccurrence = Glas(threshold=0.0).symmetric_cooccurrence(data, 0, 300)
    head = OneVsAllHead(300, 16, HeadSettings(precision="fp32"), CPU)
    head.done = 7
    penalty = GramPenalty(cooccurrence, weight=2.0, sample_size=40, normalised=True, seed=3)
    drawn = penalty.draw(np.random.default_rng([3, 7]))
    assert 20 <= len(drawn) <= 40 and (np.diff(drawn) > 0).all()
    target = cooccurrence.toarray()[np.ix_(drawn, drawn)]
    assert np.array_equal(penalty.target(drawn, CPU).numpy(), target)
    before = head.weight.clone()
    penalty.step(head, learning_rate=0.5)
    expected = before.clone()
    expected[drawn] -= 0.5 * gram_gradient(before[drawn], torch.from_numpy(target), 2.0, True)
    assert torch.allclose(head.weight, expected, atol=1e-6)
    others = np.setdiff1d(np.arange(300), drawn)
    assert torch.equal(head.weight[others], before[others])


def test_half_of_the_sample_co_occurs_with_the_other_half() -> None:
    labels = 1000
    pairs = np.arange(labels) ^ 1  # 0 with 1, 2 with 3, ...
    cooccurrence = sparse.csr_array(
        sparse.eye_array(labels) + sparse.coo_array((np.full(labels, 0.9), (range(labels), pairs)))
    )
    drawn = GramPenalty(cooccurrence, 1.0, sample_size=100, normalised=True).draw(np.random.default_rng(0))
    assert np.isin(drawn ^ 1, drawn).mean() > 0.4  # by rng it would be 0.1


def test_labels_that_co_occur_come_near_and_the_others_part() -> None:
    cooccurrence = np.eye(6, dtype=np.float32)
    cooccurrence[0, 1] = cooccurrence[1, 0] = 0.8
    head = OneVsAllHead(6, 16, HeadSettings(precision="fp32"), CPU)
    penalty = GramPenalty(sparse.csr_array(cooccurrence), weight=1.0, sample_size=10, normalised=True)
    norms = head.weight.norm(dim=1)
    for _ in range(3000):
        penalty.step(head, learning_rate=0.002)
    unit = torch.nn.functional.normalize(head.weight, dim=1)
    assert torch.allclose(unit @ unit.T, torch.from_numpy(cooccurrence), atol=0.02)
    assert (head.weight.norm(dim=1) / norms < 1.5).all()  # rounding apart, turning adds a little


@pytest.mark.parametrize("norm", [None, 2.0])
def test_a_tie_covers_a_share_of_the_distance(norm: float | None) -> None:
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(12, 16)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    head = OneVsAllHead(12, 16, HeadSettings(precision="fp32"), CPU)
    before = head.weight.double().numpy()
    TiePenalty(vectors.copy(), weight=0.5, sample_size=100, norm=norm).step(head, learning_rate=0.2)
    goal = vectors * (np.linalg.norm(before, axis=1, keepdims=True) if norm is None else norm)
    assert np.allclose(head.weight.numpy(), before - 0.2 * 0.5 * (before - goal), atol=1e-6)


def test_a_tie_of_a_sample_is_as_strong_in_the_mean() -> None:
    vectors = np.eye(16, dtype=np.float32)[np.arange(400) % 16]
    head = OneVsAllHead(400, 16, HeadSettings(precision="fp32"), CPU)
    head.set_weights(np.zeros((400, 16), np.float32))
    penalty = TiePenalty(vectors.copy(), weight=0.1, sample_size=40, norm=1.0)
    for step in range(200):
        head.done = step
        penalty.step(head, learning_rate=0.1)
    reached = (head.weight.numpy() * vectors).sum(axis=1)
    assert abs(reached.mean() - (1 - 0.99**200)) < 0.03


def test_a_tie_never_goes_past_its_vector() -> None:
    vectors = np.eye(16, dtype=np.float32)
    head = OneVsAllHead(16, 16, HeadSettings(precision="fp32"), CPU)
    TiePenalty(vectors.copy(), weight=100.0, sample_size=100, norm=1.0).step(head, learning_rate=1.0)
    assert torch.allclose(head.weight, torch.eye(16), atol=1e-6)


@pytest.mark.parametrize(
    "recipe", ["glas(weight=0)", "glas(labels_per_step=1)", "l2tie(weight=-1)", "l2tie(target_norm=0)"]
)
def test_settings_that_make_no_sense_are_refused(recipe: str) -> None:
    with pytest.raises(RecipeError, match="above 0"):
        Recipe.parse(f"renee + {recipe}")


def test_only_classifiers_that_are_trained_by_steps_take_penalties() -> None:
    with pytest.raises(RecipeError, match=r"glas needs free_classifiers, which bonsai does not offer; use it on astec"):
        Recipe.parse("bonsai + glas")


def test_a_tie_is_to_the_vectors_of_its_teacher(tiny: Corpus, tmp_path: Path) -> None:
    """So strong that every step puts the classifiers on the teacher's vectors."""
    teacher = Recipe.parse("dpr(encoder='bag', dimension=16, batch_size=64, epochs=1, seed=3)").fit(
        tiny.train, tiny.valid
    )
    folder = teacher.save(tmp_path / "teacher")
    learner = "renee(encoder='bag', dimension=16, batch_size=64, epochs=2, head_learning_rate=1.0)"

    def cosines(method: str) -> np.ndarray:
        scorer = Recipe.parse(f"{learner} + {method}").fit(tiny.train, tiny.valid).scorer
        rows = scorer.weights / np.linalg.norm(scorer.weights, axis=1, keepdims=True)
        return (rows * teacher.scorer.label_vectors).sum(axis=1)

    assert cosines(f"l2tie(weight=1000, teacher='{folder}')").min() > 0.99
    assert cosines("l2tie(weight=1000)").max() < 0.9
    with pytest.raises(RecipeError, match=r"vectors of 16 numbers, and the classifiers have 8"):
        wide = learner.replace("dimension=16", "dimension=8")
        Recipe.parse(f"{wide} + l2tie(teacher='{folder}')").fit(tiny.train, tiny.valid)
    with pytest.raises(RecipeError, match="'parabel' has none"):
        Recipe.parse(f"{learner} + l2tie(teacher='parabel')")
    facts = DataFacts.of(tiny.train)
    alone, taught = (
        Recipe.parse(f"{learner} + l2tie{more}").plan(facts)
        for more in ("", "(teacher=\"dpr(encoder='bag', epochs=200)\")")
    )
    assert taught.train_seconds > alone.train_seconds
