"""LEVER: the soft data, what the teacher must be, choosing on valid, and that a killed run goes on by stages."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy import sparse

import longtail.nn.distill.soft_labels
from lines import Lines
from longtail.data import Corpus, Dataset, LabelSet
from longtail.errors import DataError, RecipeError
from longtail.linear.solvers.platt_scaling import PlattScaling
from longtail.metrics.calibration import Teaching
from longtail.metrics.propensity import inverse_propensity
from longtail.nn.distill import soft_labels as lesson_module
from longtail.nn.distill.soft_labels import DistillSettings, learn_from
from longtail.nn.dual.dual_scorer import DualEncoderScorer
from longtail.nn.dual.dual_task import DualEncoderTask
from longtail.nn.encoders.build import load_encoder
from longtail.nn.encoders.text_encoder import TextEncoder
from longtail.nn.encoders.tokenizers import TextTokenizer
from longtail.nn.pool.pool_scorer import ProjectedTextEncoder, ProjectionHead
from longtail.nn.training.checkpoint import checkpointing
from longtail.plan import DataFacts
from longtail.progress import collecting, listening
from longtail.recipe import Recipe
from longtail.store import load
from longtail.tail.lever import TAUS, Lever, SoftLabelSettings, Try

TEACHER = "dpr(encoder='bag', dimension=32, batch_size=64, epochs=2)"


def lever(**settings: Any) -> str:
    written = "".join(
        f', {name}="{value}"' if isinstance(value, str) else f", {name}={value}" for name, value in settings.items()
    )
    return f'lever(teacher="{TEACHER}"{written})'


class Space:
    """A teacher whose vectors are known: rows and labels at given places."""

    kind = "space"

    def __init__(self, labels: np.ndarray, rows: dict[str, np.ndarray]) -> None:
        self.label_vectors, self.rows = labels, rows

    def row_vectors(self, rows: Any) -> np.ndarray:
        return np.stack([self.rows[text] for text in rows.texts]).astype(np.float32)

    def top(self, rows: Any, k: int) -> Any: ...
    def state(self) -> Any: ...


class Known:
    """A model with that scorer."""

    recipe = "known"

    def __init__(self, labels: LabelSet, scorer: Space) -> None:
        self.labels, self.scorer = labels, scorer


def angle(degrees: float) -> np.ndarray:
    return np.array([np.cos(np.radians(degrees)), np.sin(np.radians(degrees))], dtype=np.float32)


@pytest.fixture
def circle() -> tuple[Dataset, Known]:
    """Four labels on a circle at 0, 20, 40 and 180 degrees, and rows among them."""
    labels = LabelSet(ids=("a", "b", "c", "far"), texts=("A", "B", "C", "Far"))
    dense = np.array([[1, 0, 0, 0], [1, 1, 0, 0], [1, 0, 0, 0], [0, 0, 1, 0]], dtype=np.float32)
    data = Dataset(labels=labels, targets=sparse.csr_array(dense), ids=tuple("0123"), texts=("r0", "r1", "r2", "r3"))
    rows = {"r0": angle(0), "r1": angle(10), "r2": angle(25), "r3": angle(45)}
    vectors = np.stack([angle(each) for each in (0, 20, 40, 180)])
    return data.over(labels.counted(data.targets)), Known(labels, Space(vectors, rows))


def halfway(degrees: float) -> float:
    return (1 + np.cos(np.radians(degrees))) / 2


def test_soft_data_is_what_the_paper_says(circle: tuple[Dataset, Known]) -> None:
    data, teacher = circle
    learned = learn_from(teacher, data, data.take([]), DistillSettings(3, 3, 0.8, "cosine", "exact"))
    soft = learned.softened(data, tau=3, blend=0.25)
    assert soft.texts == ("r0", "r1", "r2", "r3", "A", "B", "C", "Far")
    assert soft.origin_names[soft.origins[4]] == "lever"
    near, further = 0.75 * halfway(20), 0.75 * halfway(40)  # lambda 0 + (1 - lambda) p
    label_rows = [[1, near, further, 0], [near, 1, near, 0], [further, near, 1, 0], [0, 0, 0, 1]]
    assert np.allclose(soft.targets[4:].toarray(), label_rows, atol=1e-6)
    # a has 3 rows and its text; b has 1 and c has 1, so each lacks one more, the nearest that does not have it;
    # nothing is near enough to the last.
    given = [[1, 0, 0, 0], [1, 1, 0, 0], [1, 0.75 * halfway(5), 0.75 * halfway(15), 0], [0, 0, 1, 0]]
    assert np.allclose(soft.targets[:4].toarray(), given, atol=1e-6)
    assert learned.entries(data, 3) == 6 + 2
    assert soft.labels is data.labels  # counts and propensities stay those of the data


class Recorded:
    """Teacher and learner at once: they keep the rows they are trained on."""

    scorer_class = DualEncoderScorer

    def __init__(self, model: Known) -> None:
        self.model, self.texts = model, []

    def fit(self, train: Dataset, valid: Dataset, parts: Any = None) -> Any:
        self.texts.append(train.texts)
        return self.model


def test_the_teacher_learns_only_from_the_rows_as_given(circle: tuple[Dataset, Known]) -> None:
    """Not from rows that other tail methods added; the student learns from those too."""
    data, model = circle
    added = data.with_rows(targets=sparse.csr_array(np.eye(2, 4, dtype=np.float32)), origin="rows", texts=("A", "B"))
    teacher, learner = Recorded(model), Recorded(model)
    method = Lever(tau=2, min_documents=0, calibration="cosine", search="exact", guard=False)
    method.wrap_with(learner, teacher).fit(added, added.take([]), ())  # type: ignore[arg-type]
    assert teacher.texts == [("r0", "r1", "r2", "r3")]
    assert learner.texts == [("r0", "r1", "r2", "r3", "A", "B", "A", "B", "C", "Far")]


def test_tau_1_and_blend_1_are_plain_label_rows(circle: tuple[Dataset, Known]) -> None:
    data, teacher = circle
    learned = learn_from(teacher, data, data.take([]), DistillSettings(3, 0, 0.0, "cosine", "exact"))
    for tau, blend in ((1, 0.0), (3, 1.0)):
        assert np.array_equal(learned.softened(data, tau, blend).targets[4:].toarray(), np.eye(4))
    assert learned.softened(data, 3, 0.0).targets[4, 1] == pytest.approx(halfway(20))  # as released: p itself


@pytest.mark.parametrize("kind", [TextEncoder, ProjectedTextEncoder])
def test_vectors_that_stay_on_the_device_say_the_same(kind: type[TextEncoder], monkeypatch: pytest.MonkeyPatch) -> None:
    texts = ("red ants", "ants build", "a hill", "big leaves", "by the way", "a long way")
    labels = LabelSet(ids=("a", "b", "c"), texts=("ants", "hill", "way"))
    targets = sparse.csr_array(np.eye(6, 3, dtype=np.float32))
    data = Dataset(labels=labels, targets=targets, ids=tuple("012345"), texts=texts)
    data = data.over(labels.counted(data.targets))
    plain = TextEncoder.of(*load_encoder("bag", texts=texts, seed=1), 8)
    width, rng = plain.vectors(["ants"]).shape[1], np.random.default_rng(0)
    heads = (ProjectionHead(rng.standard_normal((width, width), dtype=np.float32), np.zeros(width, np.float32), True),)
    more = {"heads": heads} if kind is ProjectedTextEncoder else {}
    encoder = kind(plain.settings, plain.weights, plain.definition, plain.max_tokens, **more)
    teacher = Known(labels, DualEncoderScorer(encoder, encoder.vectors(labels.texts), PlattScaling(1.0, 0.0)))
    found = []
    for device in ("cpu", "cpu:0"):  # the second takes the way of a GPU
        monkeypatch.setattr(lesson_module, "_device", lambda device=device: device)
        found.append(learn_from(teacher, data, data.take([]), DistillSettings(3, 4, 0.0, "cosine", "exact")))
    assert (found[0].documents.rows >= 0).sum() == 3 * 2
    np.testing.assert_array_equal(found[0].documents.rows, found[1].documents.rows)
    np.testing.assert_allclose(found[0].documents.cosines, found[1].documents.cosines, atol=1e-6)


def test_relevances_of_rare_labels_grow_by_their_inverse_propensity(circle: tuple[Dataset, Known]) -> None:
    data, teacher = circle

    def soft(power: float) -> np.ndarray:
        wanted = DistillSettings(3, 3, 0.0, "cosine", "exact", propensity=power)
        return learn_from(teacher, data, data.take([]), wanted).softened(data, tau=3, blend=0.25).targets.toarray()

    plain, power = soft(0.0), 0.5
    weights = inverse_propensity(data.labels) ** power
    assert len(set(weights)) > 1 and (weights > 1).all()
    given = plain == 1
    expected = np.where(given, 1, 0.75 * np.minimum(plain / 0.75 * weights, 1))
    assert np.allclose(soft(power), expected, atol=1e-6)
    assert (expected[~given] == 0.75).any() and (expected > plain).any()  # some reach the most there is


def test_given_labels_and_excluded_pairs_are_left_alone(circle: tuple[Dataset, Known]) -> None:
    data, teacher = circle
    banned = sparse.csr_array(([True], ([2], [1])), shape=(4, 4))
    data = replace(data, excluded=banned)
    learned = learn_from(teacher, data, data.take([]), DistillSettings(1, 4, 0.0, "cosine", "exact"))
    soft = learned.softened(data, 1, 0.5).targets[:4].toarray()
    assert (soft[data.targets.toarray() == 1] == 1).all()
    assert soft[2, 1] == 0 and soft[0, 1] > 0 and soft[3, 1] > 0


def test_a_label_that_is_a_row_itself_has_the_labels_of_that_row(circle: tuple[Dataset, Known]) -> None:
    data, teacher = circle
    itself = sparse.csr_array(([True, True, True], ([0, 1, 3], [3, 3, 1])), shape=(4, 4))
    data = replace(data, excluded=itself)  # rows 0 and 1 are the last label, row 3 is b

    def label_rows(twins: bool) -> np.ndarray:
        wanted = DistillSettings(2, 0, 0.8, "cosine", "exact", twins)
        learned = learn_from(teacher, data, data.take([]), wanted)
        return learned.softened(data, tau=2, blend=0.25).targets[4:].toarray()

    near = 0.75 * halfway(20)
    plain = np.array([[1, near, 0, 0], [near, 1, 0, 0], [0, near, 1, 0], [0, 0, 0, 1]])
    assert np.allclose(label_rows(twins=False), plain, atol=1e-6)
    plain[3, :2] = 0.75, 0.375  # both have a, one of two has b
    plain[1, 2] = 0.75
    assert np.allclose(label_rows(twins=True), plain, atol=1e-6)
    # Rows that are kept away for choosing settings lend nothing.
    learned = learn_from(teacher, data, data.take([]), DistillSettings(1, 0, 0.8, "cosine", "exact"), np.array([1, 2]))
    kept = learned.softened(data, tau=1, blend=0.0).targets[4:].toarray()
    assert np.array_equal(kept, [[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0], [1, 1, 0, 1]])


def test_a_teacher_with_other_labels_is_read_by_their_ids(circle: tuple[Dataset, Known]) -> None:
    data, teacher = circle
    plain = learn_from(teacher, data, data.take([]), DistillSettings(3, 0, 0.8, "cosine", "exact")).softened(
        data, 3, 0.5
    )
    order = [3, 1, 0, 2]
    mixed = LabelSet(ids=(*(teacher.labels.ids[row] for row in order), "new"), texts=("",) * 5)
    vectors = np.concatenate([teacher.scorer.label_vectors[order], angle(90)[None]])
    other = Known(mixed, Space(vectors, teacher.scorer.rows))
    again = learn_from(other, data, data.take([]), DistillSettings(3, 0, 0.8, "cosine", "exact")).softened(data, 3, 0.5)
    assert np.allclose(plain.targets.toarray(), again.targets.toarray(), atol=1e-6)


def test_the_blended_target_has_the_gradient_of_the_two_term_loss() -> None:
    """Equation 6: log loss is linear in the target, so one soft target serves for both terms."""
    rng = np.random.default_rng(0)
    scores = torch.tensor(rng.standard_normal(50), requires_grad=True, dtype=torch.float64)
    given = torch.tensor((rng.random(50) < 0.3).astype(float))
    believed, blend = torch.tensor(rng.random(50)), 0.35
    loss = torch.nn.functional.binary_cross_entropy_with_logits
    two = blend * loss(scores, given) + (1 - blend) * loss(scores, believed)
    one = loss(scores, blend * given + (1 - blend) * believed)
    apart, together = (torch.autograd.grad(each, scores)[0] for each in (two, one))
    assert torch.allclose(apart, together, atol=1e-14) and torch.allclose(one, two)


def test_relevances_are_learned_on_valid(tiny: Corpus) -> None:
    with collecting() as told:
        Recipe.parse(f"knn + {lever(calibration='isotonic', min_relevance=0)}").fit(tiny.train, tiny.valid)
    teaching = told[-1]
    assert isinstance(teaching, Teaching) and teaching.used == "isotonic" and teaching.teacher == TEACHER
    errors = {one.name: one.error for one in teaching.calibrations}
    assert errors["logistic"] < errors["cosine"] and errors["isotonic"] < errors["cosine"]
    with collecting() as told:
        Recipe.parse(f"knn + {lever(calibration='isotonic', min_relevance=0.55)}").fit(tiny.train, tiny.valid)
    assert teaching.above == 0 and told[-1].above == 0.55
    pairs = [sum(part.count for part in one.calibrations[0].bins) for one in (teaching, told[-1])]
    assert 0 < pairs[1] < pairs[0]  # far pairs do not count
    assert set(teaching.seconds) == {"teacher", "soft labels", "student"} and teaching.entries == 90
    assert sum(one.labels for one in teaching.frequencies) == 10
    assert sum(one.positives for one in teaching.frequencies) == tiny.valid.targets.nnz
    few = tiny.valid.take(range(3))
    with pytest.raises(DataError, match=r"calibration='logistic' learns .* 6 labels, fewer than 20"):
        Recipe.parse(f"knn + {lever(calibration='logistic')}").fit(tiny.train, few)


def test_relevances_are_learned_where_valid_has_enough_labels(tiny: Corpus) -> None:
    """Otherwise the cosine stands for them, and then only what is near counts."""
    for valid, used, floor in ((tiny.valid, "isotonic", 0.0), (tiny.valid.take(range(3)), "cosine", 0.8),
                               (tiny.train.take([]), "cosine", 0.8)):  # fmt: skip
        with collecting() as told:
            Recipe.parse(f"knn + {lever(guard=False)}").fit(tiny.train, valid)
        teaching = told[-1]
        assert isinstance(teaching, Teaching)
        assert (teaching.used, teaching.chosen["min_relevance"]) == (used, floor)
    with collecting() as told:
        Recipe.parse(f"knn + {lever(min_relevance=0.6)}").fit(tiny.train, tiny.valid)
    assert told[-1].chosen["min_relevance"] == 0.6


def test_learned_relevances_become_the_targets(circle: tuple[Dataset, Known]) -> None:
    """Of three rows at one distance from their label two are right: a document as near as they were gets about that."""
    data, teacher = circle
    held = 30
    dense = np.zeros((held, 4), dtype=np.float32)
    dense[: 2 * held // 3, 0] = 1  # the first label is right for two rows of three, all 20 degrees from it
    rows = {f"v{row}": angle(-20) for row in range(held)}
    teacher.scorer.rows |= rows
    valid = Dataset(labels=data.labels, targets=sparse.csr_array(dense), ids=tuple(rows), texts=tuple(rows))
    learned = learn_from(teacher, data, valid, DistillSettings(2, 0, "auto", "auto", "exact"))
    assert learned.floor == 0 and learned.teaching.used == "isotonic"
    targets = learned.softened(data, 2, 0.0).targets[4:].toarray()
    assert targets[0, 1] == pytest.approx(2 / 3, abs=1e-4) and targets[1, 0] == pytest.approx(2 / 3, abs=1e-4)
    assert targets[3].tolist() == [0, 0, 0, 1]  # nothing as far away was right


@pytest.mark.parametrize("given", [True, False], ids=["valid given", "no valid"])
def test_tau_and_blend_are_chosen_on_valid_with_a_line_for_each_try(given: bool, tiny: Corpus) -> None:
    valid = tiny.valid if given else tiny.train.take([])
    recipe = Recipe.parse(f"dismec + {lever(tau='auto', blend='auto', min_relevance=0.3)}")
    lines = Lines()
    with collecting() as told, listening(lines):
        model = recipe.fit(tiny.train, valid)
    tries = [one for one in told if isinstance(one, Try)]
    assert [one.choice.tau for one in tries[: len(TAUS)]] == list(TAUS)
    assert lines.lines[:-1] == [f"lever: {one}" for one in tries]
    best, chosen = max(tries, key=lambda one: one.value).choice, told[-1].chosen
    assert (chosen["tau"], chosen["blend"]) == (best.tau, best.blend)
    assert lines.lines[-1] == f"lever: chosen {best}"
    assert model.predict(tiny.test.rows, 1).hits(tiny.test.targets).mean() > 0.9
    fixed = Recipe.parse(f"dismec + {lever(tau=best.tau, blend=best.blend, min_relevance=0.3)}").fit(tiny.train, valid)
    if given:  # without valid rows the teacher had to leave some out
        assert np.array_equal(fixed.predict(tiny.test.rows, 5).scores, model.predict(tiny.test.rows, 5).scores)


def test_twins_are_tried_where_pairs_are_excluded_and_everything_from_label_rows_on(tiny: Corpus) -> None:
    wrong = tiny.train.targets.toarray()[:, ::-1] * (tiny.train.targets.toarray() == 0)
    for data, number in ((tiny.train, 0), (replace(tiny.train, excluded=sparse.csr_array(wrong > 0)), 2)):
        with collecting() as told:
            Recipe.parse(f"knn + {lever(tau=2, guard=False)}").fit(data, tiny.valid)
        tries = [one for one in told if isinstance(one, Try)]
        assert [one.choice.excluded_is_self for one in tries] == [False, True][:number]
    with collecting() as told:
        Recipe.parse(f'knn + lever:auto(teacher="{TEACHER}")').fit(data, tiny.valid)
    first, *others = [one for one in told if isinstance(one, Try)]
    assert str(first.choice) == "tau=1, min_documents=0, excluded_is_self=false, blend=0"
    assert {one.choice.min_documents for one in others} == {0, 15}
    assert told[-1].chosen["tau"] in TAUS


@pytest.mark.parametrize("given", [True, False], ids=["valid given", "no valid"])
def test_soft_labels_that_are_mostly_wrong_give_way_to_plain_label_rows(given: bool, tiny: Corpus) -> None:
    valid = tiny.valid if given else tiny.train.take([])
    # Every document gets every label, with a target above a half.
    wrong = {"tau": 100, "min_documents": 200, "calibration": "cosine", "min_relevance": 0}
    with collecting() as told:
        guarded = Recipe.parse(f"centroid + {lever(**wrong)}").fit(tiny.train, valid)
    soft, plain = [one for one in told if isinstance(one, Try)]
    assert (soft.choice.tau, soft.choice.min_documents) == (100, 200)
    assert (plain.choice.tau, plain.choice.min_documents, plain.choice.excluded_is_self) == (1, 0, False)
    assert plain.value > soft.value and told[-1].chosen["tau"] == 1 and told[-1].entries == 0
    if given:  # without valid rows some were held out, which `rows` does not do
        rows, unguarded = (
            Recipe.parse(recipe).fit(tiny.train, valid).predict(tiny.test.rows, 5).scores
            for recipe in ("centroid + rows", f"centroid + {lever(**wrong, guard=False)}")
        )
        found = guarded.predict(tiny.test.rows, 5).scores
        assert np.array_equal(found, rows) and not np.array_equal(found, unguarded)


def test_soft_labels_that_help_on_valid_are_kept(tiny: Corpus) -> None:
    with collecting() as told:
        Recipe.parse(f"dismec + {lever()}").fit(tiny.train, tiny.valid)
    soft, plain = [one for one in told if isinstance(one, Try)]
    assert soft.value >= plain.value and told[-1].chosen["tau"] == 15
    assert Lever().trainings(excluded=True) == 3 and Lever(guard=False).trainings(excluded=False) == 1
    assert Lever(tau=1, min_documents=0).trainings(excluded=False) == 1  # label rows alone already


def test_the_first_of_what_auto_tries_is_plain_label_rows(circle: tuple[Dataset, Known]) -> None:
    data, teacher = circle
    learned = learn_from(teacher, data, data.take([]), DistillSettings(3, 15, 0.0, "cosine", "exact"))
    plain = SoftLabelSettings(1, 0, False, 0.0).softened(learned, data)
    assert np.array_equal(plain.targets[:4].toarray(), data.targets.toarray())
    assert np.array_equal(plain.targets[4:].toarray(), np.eye(4))
    assert learned.entries(data, 1, False, False) == 0


def test_a_tau_beyond_the_labels_is_planned_and_trained_as_all_of_them(tiny: Corpus) -> None:
    facts = DataFacts.of(tiny.train)
    many, all_of_them = (Recipe.parse(f"knn + {lever(tau=tau)}") for tau in (100_000, len(tiny.labels)))
    assert many.plan(facts) == all_of_them.plan(facts)
    assert Recipe.parse(f"knn + {lever(min_documents=10**8)}").plan(facts).train_bytes < 2**31
    answers = [one.fit(tiny.train, tiny.valid).predict(tiny.test.rows, 5).scores for one in (many, all_of_them)]
    assert np.array_equal(*answers)


def test_a_saved_teacher_serves_many_students(tiny: Corpus, tmp_path: Path) -> None:
    saved = Recipe.parse(TEACHER).fit(tiny.train, tiny.valid).save(tmp_path / "teacher")
    for learner in ("knn", "dismec"):
        once = Recipe.parse(f'{learner} + lever(teacher="{saved}")').fit(tiny.train, tiny.valid)
        anew = Recipe.parse(f"{learner} + {lever()}").fit(tiny.train, tiny.valid)
        assert np.allclose(once.predict(tiny.test.rows, 5).scores, anew.predict(tiny.test.rows, 5).scores)
    more = replace(tiny.labels, ids=(*tiny.labels.ids[:-1], "other"))
    other = replace(tiny.train, labels=more)
    with pytest.raises(DataError, match=r"does not know 1 of 10 labels, such as 'other'"):
        Recipe.parse(f'knn + lever(teacher="{saved}")').fit(other, other)


def test_documents_are_cut_into_tokens_once(tiny: Corpus, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[tuple[int, int]] = []
    plain = TextTokenizer.encode

    def encode(self: TextTokenizer, texts: Any, longest: int) -> list[list[int]]:
        read.append((len(texts), longest))
        return plain(self, texts, longest)

    monkeypatch.setattr(TextTokenizer, "encode", encode)
    Recipe.parse(f"dismec + {lever()}").fit(tiny.train, tiny.valid)
    assert read.count((len(tiny.train), 64)) == 1  # for the teacher's training, and not again for what it teaches


def test_the_model_is_the_learners_own(tiny: Corpus, tmp_path: Path) -> None:
    """Nothing of the teacher is left: the same kind of scorer with arrays of the same shapes, as fast as before."""
    for learner in ("dismec(weight_threshold=0)", "dpr(encoder='bag', dimension=32, batch_size=64, epochs=2)"):
        plain = Recipe.parse(learner).fit(tiny.train, tiny.valid)
        student = Recipe.parse(f"{learner} + {lever()}").fit(tiny.train, tiny.valid)
        assert type(student.scorer) is type(plain.scorer)
        before, after = plain.scorer.state(), student.scorer.state()
        assert before.tensors.keys() == after.tensors.keys() and not after.parts
    assert {key: each.shape for key, each in before.tensors.items()} == {
        key: each.shape for key, each in after.tensors.items()
    }
    assert load(student.save(tmp_path / "model")).predict(["apple"], 1).indices[0, 0] == 0


def test_soft_labels_help_a_label_without_rows() -> None:
    """A label that no row has is found by its text, and by its neighbour's text through the teacher."""
    labels = LabelSet(ids=("cat", "kitten", "car"), texts=("cat", "young cat", "car"))
    texts = ["cat sits", "cat runs", "the cat", "car drives", "a car", "old car"] * 4
    dense = np.array([[1, 0, 0]] * 3 + [[0, 0, 1]] * 3, dtype=np.float32).repeat(4, axis=0).reshape(6, 4, 3)
    targets = sparse.csr_array(dense.transpose(1, 0, 2).reshape(24, 3))
    data = Dataset(labels=labels, targets=targets, ids=tuple(map(str, range(24))), texts=texts)
    train = data.over(labels.counted(targets))
    plain = Recipe.parse("dismec").fit(train, train.take([]))
    assert plain.predict(["young cat"], 3).indices[0, 2] == 1
    found = (
        Recipe.parse(f"dismec + {lever(tau=2, min_relevance=0)}").fit(train, train.take([])).predict(["young cat"], 3)
    )
    assert found.indices[0, 0] == 1


def test_wrong_teachers_are_told_before_data_is_read(tiny: Corpus) -> None:
    with pytest.raises(RecipeError, match=r"teacher of lever is no recipe and no model folder: .*'nonsense'"):
        Recipe.parse("knn + lever(teacher='nonsense')")
    with pytest.raises(RecipeError, match=r"one space, and 'parabel' does not; .* dpr or ngame"):
        Recipe.parse("knn + lever(teacher='parabel')")
    for wrong in ({"tau": 0}, {"min_documents": -1}, {"min_relevance": 1.1}, {"blend": -0.1}):
        with pytest.raises(RecipeError, match=next(iter(wrong))):
            Lever(**wrong)  # type: ignore[arg-type]
    with pytest.raises(RecipeError, match="auto"):
        Recipe.parse("knn + lever(tau='many')")
    bare = replace(tiny.labels, texts=("", *tiny.labels.texts[1:]))
    with pytest.raises(DataError, match=r"dpr reads .*'L0'"):
        Recipe.parse(f"knn + {lever()}").check(tiny.train.over(bare))


def test_a_killed_run_goes_on_at_its_stage(tiny: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = Recipe.parse(
        f"dpr(encoder='bag', dimension=16, batch_size=64, epochs=2) + {lever(min_documents=90, min_relevance=0)}"
    )
    whole = recipe.fit(tiny.train, tiny.valid).predict(tiny.test.rows, 5)

    true = DualEncoderTask.backward

    class Killed(Exception):
        pass

    def stop(*_: Any) -> Any:
        raise Killed

    with monkeypatch.context() as patch, checkpointing(tmp_path / "kept"), pytest.raises(Killed):
        patch.setattr(
            "longtail.nn.distill.soft_labels.SoftLabels.softened", stop
        )  # soft labels are found, the student has not started
        recipe.fit(tiny.train, tiny.valid)
    stages = sorted(path.name for path in (tmp_path / "kept").iterdir() if (path / "checkpoint.safetensors").exists())
    assert [name.split("-", 1)[1] for name in stages] == ["encoder", "soft-labels"]
    with monkeypatch.context() as patch, checkpointing(tmp_path / "kept"):
        patch.setattr(longtail.nn.distill.soft_labels, "other_labels", stop)  # neither is done again
        patch.setattr(
            DualEncoderTask, "backward", lambda *step: stop() if step[0].encoder.dimension == 32 else true(*step)
        )
        again = recipe.fit(tiny.train, tiny.valid).predict(tiny.test.rows, 5)
    assert np.array_equal(whole.indices, again.indices) and np.array_equal(whole.scores, again.scores)


def test_the_plan_has_the_teacher_in_it(tiny: Corpus) -> None:
    facts = DataFacts.of(tiny.train)
    plain, teacher = Recipe.parse("parabel").plan(facts), Recipe.parse(TEACHER).plan(facts)
    once = Recipe.parse(f"parabel + {lever()}").plan(facts)
    assert once.train_bytes >= max(plain.train_bytes, teacher.train_bytes)
    assert once.train_seconds > plain.train_seconds + teacher.train_seconds
    assert once.predict_seconds == pytest.approx(plain.predict_seconds, rel=0.5)
    searched = Recipe.parse(f"parabel + {lever(tau='auto', blend='auto')}").plan(facts)
    assert searched.train_seconds > once.train_seconds
