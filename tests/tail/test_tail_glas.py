"""GLaS on every learner that trains one vector a label: it turns them, resumes exactly, and is refused elsewhere."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from scipy import sparse  # noqa: E402

from longtail.data import Corpus  # noqa: E402
from longtail.errors import RecipeError  # noqa: E402
from longtail.nn.onevsall.penalties import GramPenalty  # noqa: E402
from longtail.nn.pool.classifier_table import ClassifierTable  # noqa: E402
from longtail.nn.training.row_penalties import RowsUnderAdam  # noqa: E402
from longtail.recipe import Recipe  # noqa: E402
from longtail.tail.glas import Glas  # noqa: E402

LEARNERS = {
    "astec": "astec(dimension=16, epochs=4, loss_over='all')",
    "cascadexml": "cascadexml(encoder='bag', dimension=16, epochs=4, max_leaf_labels=4)",
    "elias": "elias(encoder='bag', dimension=16, cluster_epochs=1, epochs=3)",
    "inceptionxml": "inceptionxml(dimension=64, epochs=2)",
    "lightxml": "lightxml(encoder='bag', dimension=16, epochs=4)",
    "ngame": "ngame(encoder='bag', dimension=16, epochs=1, classifier_epochs=4)",
    "siamesexml": "siamesexml(encoder='bag', dimension=16, epochs=1, classifier_epochs=4)",
    "unidec": "unidec(encoder='bag', dimension=16, epochs=4)",
}


def distance(rows: np.ndarray, cooccurrence: np.ndarray) -> float:
    """How far the cosines of classifiers are from the co-occurrence of their labels."""
    unit = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-9)
    return float(np.square(unit @ unit.T - cooccurrence).mean())


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_steps_bring_products_near_the_co_occurrence(precision: str) -> None:
    rng = np.random.default_rng(0)
    start = rng.normal(size=(12, 6)).astype(np.float32)
    wanted = np.eye(12, dtype=np.float32)
    wanted[0, 1] = wanted[1, 0] = 0.9
    penalty = GramPenalty(sparse.csr_array(wanted), weight=5.0, sample_size=12, normalised=True)
    table = ClassifierTable(start, torch.device("cpu"), precision=precision)  # type: ignore[arg-type]
    plain = RowsUnderAdam(torch.from_numpy(start.copy()), 0)
    for number in range(60):
        plain.done = table.done = number
        penalty.step(plain, 0.1)
        penalty.step(table.penalised(), 0.1)
    for after in (plain.weight.numpy(), table.rows()):
        assert distance(after, wanted) < 0.5 * distance(start, wanted)
        unit = after / np.linalg.norm(after, axis=1, keepdims=True)
        assert unit[0] @ unit[1] > 0.7  # labels that co-occur
    assert np.allclose(np.linalg.norm(plain.weight.numpy(), axis=1), np.linalg.norm(start, axis=1), rtol=0.2)


def test_the_classifiers_of_astec_follow_co_occurrence(tiny: Corpus) -> None:
    cooccurrence = Glas().symmetric_cooccurrence(tiny.train, 0, len(tiny.labels)).toarray()
    recipes = (LEARNERS["astec"], f"{LEARNERS['astec']} + glas(weight=100)")
    scorers = (Recipe.parse(recipe).fit(tiny.train, tiny.valid).scorer for recipe in recipes)
    far = [distance(scorer.weights, cooccurrence) for scorer in scorers]  # type: ignore[attr-defined]
    assert far[1] < 0.8 * far[0]


def test_rows_of_labels_may_stand_in_another_order() -> None:
    """As those of a tree's last level do."""
    rng = np.random.default_rng(0)
    start, order = torch.from_numpy(rng.normal(size=(12, 6)).astype(np.float32)), torch.from_numpy(rng.permutation(12))
    wanted = sparse.csr_array(np.eye(12, dtype=np.float32))
    penalty = GramPenalty(wanted, weight=5.0, sample_size=4, normalised=True)
    plain, moved = RowsUnderAdam(start.clone(), 3), RowsUnderAdam(start[order].clone(), 3, torch.argsort(order))
    for rows in (plain, moved):
        penalty.step(rows, 0.1)
    assert torch.equal(moved.weight, plain.weight[order]) and not torch.equal(plain.weight, start)


def test_the_classifiers_of_a_tree_follow_co_occurrence(tiny: Corpus) -> None:
    cooccurrence = Glas().symmetric_cooccurrence(tiny.train, 0, len(tiny.labels)).toarray()
    recipes = (LEARNERS["cascadexml"], f"{LEARNERS['cascadexml']} + glas(weight=100)")
    far = []
    for scorer in (Recipe.parse(recipe).fit(tiny.train, tiny.valid).scorer for recipe in recipes):
        last = scorer.levels.count - 1  # type: ignore[attr-defined]
        rows = scorer.weights[f"weights.{last}"][scorer.levels.node_of_label[-1]]  # type: ignore[attr-defined]
        far.append(distance(rows, cooccurrence))
    assert far[1] < 0.8 * far[0]


@pytest.mark.parametrize("learner", LEARNERS.values(), ids=LEARNERS)
def test_it_changes_what_is_learned(learner: str, tiny: Corpus) -> None:
    plain = Recipe.parse(learner).fit(tiny.train, tiny.valid).predict(tiny.test.rows, 5)
    drawn = Recipe.parse(f"{learner} + glas(weight=100)").fit(tiny.train, tiny.valid).predict(tiny.test.rows, 5)
    assert not np.array_equal(plain.scores, drawn.scores)
    assert np.isfinite(drawn.scores).all()


@pytest.mark.parametrize("learner", ["ngame", "astec", "cascadexml"])
def test_a_stopped_training_goes_on_to_the_same_bits(learner: str, tiny: Corpus, tmp_path: Path) -> None:
    from longtail.nn.training.checkpoint import checkpointing

    class Stop(Exception):
        pass

    from longtail.nn.training import loop

    recipe = Recipe.parse(f"{LEARNERS[learner]} + glas(weight=100)")
    whole = recipe.fit(tiny.train, tiny.valid).predict(tiny.test.rows, 5)
    told = 0

    def stop(*_: object) -> None:
        nonlocal told
        told += 1
        if told == 3:
            raise Stop

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(loop, "measured", stop)
        with pytest.raises(Stop), checkpointing(tmp_path):
            recipe.fit(tiny.train, tiny.valid)
    with checkpointing(tmp_path):
        again = recipe.fit(tiny.train, tiny.valid).predict(tiny.test.rows, 5)
    assert np.array_equal(whole.indices, again.indices) and np.array_equal(whole.scores, again.scores)


@pytest.mark.parametrize(
    "recipe",
    [
        "ngame(classifiers=false) + glas",
        "siamesexml(classifiers=false) + glas",
        "unidec(predict_by='encoder') + glas",
        "parabel + glas",
        "dpr + glas",
    ],
)
def test_it_is_refused_where_no_classifier_is_trained_by_steps(recipe: str) -> None:
    with pytest.raises(
        RecipeError,
        match=re.escape("use it on astec, cascadexml, elias, inceptionxml, lightxml, ngame, renee, siamesexml, unidec"),
    ):
        Recipe.parse(recipe)
