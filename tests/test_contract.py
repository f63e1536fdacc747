"""What every learner and every pair of learner and tail method must do, on data whose right answer is obvious."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from longtail.catalogue import LEARNERS, TAIL_METHODS, learner_class, tail_class
from longtail.data import Corpus, Dataset, LabelSet
from longtail.data.fingerprint import fingerprint
from longtail.errors import DataError
from longtail.model import Model
from longtail.plan import DataFacts
from longtail.predictions import Predictions
from longtail.recipe import Recipe
from longtail.reuse import reusing
from longtail.seams import DATA_NEEDS, OFFERS, Declaration, goes_on, seams_of
from longtail.store import load

INCEPTION = "dimension=64, max_words=4, label_cluster_size=2, batch_size=64, epochs=8, learning_rate=0.02"
SETTINGS = {  # where the defaults are meant for more rows and labels than these
    "knn": "knn(neighbours=5)",
    "parabel": "parabel(max_leaf_labels=3, branches=2)",
    "bonsai": "bonsai(branches=3)",
    "xreg": "xreg(max_leaf_labels=3, branches=2)",
    "taug": "taug(head_share=0.3)",
    "mixup": "mixup(fraction=0.2)",
    "labelmixup": "labelmixup(fraction=0.2)",
    "synonyms": "synonyms(fraction=0.2)",
    "ensemble": "ensemble(tail_model=\"dpr(encoder='bag', dimension=32, batch_size=64, epochs=2)\")",
    "lever": "lever(teacher=\"dpr(encoder='bag', dimension=32, batch_size=64, epochs=2)\", guard=false)",
    "astec": "astec(dimension=64, batch_size=64, epochs=5, learning_rate=0.05)",
    "decaf": "decaf(dimension=64, batch_size=64, epochs=5, learning_rate=0.05)",
    "eclare": "eclare(dimension=64, batch_size=64, epochs=5, learning_rate=0.05)",
    "inceptionxml": f"inceptionxml({INCEPTION})",
    "inceptionxml-lf": f"inceptionxml-lf({INCEPTION})",
    "ance": 'ance(encoder="bag", dimension=64, batch_size=64, epochs=5, shortlist=4)',
    "depsl": 'depsl(encoder="bag", dimension=64, batch_size=64, epochs=5)',
    "dexml": 'dexml(encoder="bag", dimension=64, batch_size=64, epochs=5)',
    "dpr": 'dpr(encoder="bag", dimension=64, batch_size=64, epochs=5)',
    "attentionxml": 'attentionxml(encoder="bag", dimension=64, batch_size=16, epochs=14, hidden=32, dropout=0.1)',
    "cascadexml": 'cascadexml(encoder="bag", dimension=64, batch_size=32, epochs=5, max_leaf_labels=2, branches=2)',
    "elias": 'elias(encoder="bag", dimension=64, batch_size=32, epochs=5, cluster_epochs=3, max_leaf_labels=2, beam=3)',
    "lightxml": 'lightxml(encoder="bag", dimension=64, batch_size=32, epochs=5, max_leaf_labels=2, hidden=64)',
    "xrtransformer": 'xrtransformer(encoder="bag", dimension=64, batch_size=64, epochs=2, max_leaf_labels=2)',
    "mach": 'mach(encoder="bag", dimension=64, batch_size=32, epochs=5, dropout=0.3)',
    "ngame": 'ngame(encoder="bag", dimension=64, batch_size=64, epochs=5, classifier_epochs=5)',
    "renee": 'renee(encoder="bag", dimension=64, batch_size=32, epochs=5, dropout=0.3)',
    "siamesexml": "siamesexml(dimension=64, batch_size=5, epochs=20, classifier_epochs=5)",
    "unidec": 'unidec(encoder="bag", dimension=64, batch_size=64, epochs=5)',
    "fuse": 'fuse("parabel(max_leaf_labels=3, branches=2)", "centroid", trees=20, min_leaf=5, learning_rate=0.1)',
    "memory": "memory(\"dpr(encoder='bag', dimension=64, batch_size=64, epochs=5)\", neighbours=5)",
    "predictions": "predictions(train='TRAIN', valid='VALID', test='TEST')",  # the names of files that the test writes
}
MEMBER_NEEDS = {"memory": "dpr"}  # whose member is the one that needs label texts
KNOWS_ROWS_BY_ID = ("predictions",)  # and cannot read a text


def with_settings(part: str) -> str:
    return SETTINGS.get(part, part)


PAIRS = [
    (learner, method)
    for learner in LEARNERS
    for method in TAIL_METHODS
    if goes_on(tail_class(method), learner_class(learner))
]
RECIPES = {  # by what a test of it is called
    **{learner: with_settings(learner) for learner in LEARNERS},
    **{f"{learner} + {method}": f"{with_settings(learner)} + {with_settings(method)}" for learner, method in PAIRS},
}
SEEDED_BELOW = ("parabel", "renee", "ngame")  # a linear learner, a net of classifiers, and a dual encoder with both
JOINT = ("ranknet", "ancestors")  # what they make of a candidate depends on the other candidates of its row


def is_trained_twice(learner: str, method: str) -> bool:
    """Whether a cell is trained again to show that the same data gives the same model.

    A learner below a tail method is the learner alone on other data: it is trained twice alone and on soft targets. A
    method of whole models is trained twice on learners of each kind. What joins a training, and what follows it, is
    trained twice in every cell.
    """
    seams = set(seams_of(tail_class(method)))
    return method == "gandalf" or learner in SEEDED_BELOW or not seams <= {"augment", "wrap", "teacher"}


TWICE = set(LEARNERS) | {f"{learner} + {method}" for learner, method in PAIRS if is_trained_twice(learner, method)}
SOFT = [name for name in LEARNERS if "soft_targets" in learner_class(name).offers]


@dataclass
class TrainedStages:
    """Learners below re-rankers, teachers, members and folds, which have tests of their own, are trained once. What a
    recipe is tested for is always trained."""

    tested: str = ""  # the stage that is
    kept: dict[tuple[str, str, str], Any] = field(default_factory=dict)

    def model(self, name: str, train: Dataset, valid: Dataset, fit: Callable[[], Model]) -> Model:
        return fit() if name == self.tested else self._kept(name, train, valid, fit)

    def fold(self, name: str, train: Dataset, valid: Dataset, predict: Callable[[], Predictions]) -> Predictions:
        return self._kept(name, train, valid, predict)

    def _kept(self, name: str, train: Dataset, valid: Dataset, make: Callable[[], Any]) -> Any:
        key = name, fingerprint(train), fingerprint(valid)
        if key not in self.kept:
            self.kept[key] = make()
        return self.kept[key]


STAGES = TrainedStages()


def fit(recipe: str, corpus: Corpus) -> Model:
    parsed = Recipe.parse(recipe)
    STAGES.tested = parsed.stages[-1]
    with reusing(STAGES):
        return parsed.fit(corpus.train, corpus.valid)


@pytest.fixture(scope="session")
def with_files(tiny: Corpus, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], str]:
    """Puts the names of files into a recipe that reads the answers of another tool."""
    folder = tmp_path_factory.mktemp("answers")
    model = fit("knn(neighbours=5)", tiny)
    for name, data in (("TRAIN", tiny.train), ("VALID", tiny.valid), ("TEST", tiny.test)):
        answers = zip(data.ids, model.predict(data.rows, k=10), strict=True)
        lines = [
            json.dumps({"id": row, "labels": [{"id": one.id, "score": one.score} for one in labels]})
            for row, labels in answers
        ]
        (folder / f"{name.lower()}.jsonl").write_text("\n".join(lines))

    def filled(recipe: str) -> str:
        for name in ("TRAIN", "VALID", "TEST"):
            recipe = recipe.replace(f"'{name}'", f"'{folder / name.lower()}.jsonl'")
        return recipe

    return filled


def finds_what_the_text_names(model: Model, tiny: Corpus, folder: Path) -> None:
    predictions = model.predict(tiny.test.rows, k=2)
    assert predictions.hits(tiny.test.targets)[:, 0].mean() > 0.9


def saved_and_loaded_predicts_the_same(model: Model, tiny: Corpus, folder: Path) -> None:
    before = model.predict(tiny.test.rows, k=5)
    again = load(model.save(folder / "model"))
    after = again.predict(tiny.test.rows, k=5)
    assert np.array_equal(before.indices, after.indices)
    assert np.array_equal(before.scores, after.scores)
    assert again.recipe == model.recipe
    assert again.labels == model.labels


def the_same_data_gives_the_same_model(model: Model, tiny: Corpus, folder: Path) -> None:
    first, second = model.scorer.state(), fit(model.recipe, tiny).scorer.state()
    assert first.settings == second.settings
    assert first.tensors.keys() == second.tensors.keys()
    assert all(np.array_equal(first.tensors[name], second.tensors[name]) for name in first.tensors)


def ranking_is_in_order_and_does_not_depend_on_the_batch(model: Model, tiny: Corpus, folder: Path) -> None:
    whole = model.predict(tiny.test.rows, k=4)
    for row in range(5):
        alone = model.predict(tiny.test.rows[row : row + 1], k=4)
        assert np.array_equal(alone.indices[0], whole.indices[row])
    scores = np.where(whole.indices >= 0, whole.scores, -1)
    assert (np.diff(scores, axis=1) <= 0).all()
    assert (whole.scores[whole.indices >= 0] > 0).all()
    tied = (np.diff(scores, axis=1) == 0) & (whole.indices[:, 1:] >= 0)
    assert (np.diff(whole.indices, axis=1)[tied] > 0).all()
    shorter = model.predict(tiny.test.rows, k=2)
    assert np.array_equal(shorter.indices, whole.indices[:, :2])


def excluded_labels_leave_before_the_top_k(model: Model, tiny: Corpus, folder: Path) -> None:
    free = model.predict(tiny.test.rows, k=3)
    first = free.indices[:, :1]
    kept = first[:, 0] >= 0
    banned = sparse.csr_array(
        (np.ones(kept.sum(), bool), first[kept, 0], np.concatenate([[0], np.cumsum(kept)])), tiny.test.targets.shape
    )
    predictions = model.predict(tiny.test.rows, k=2, excluded=banned)
    assert not (predictions.indices == first)[kept].any()
    if not any(method in model.recipe for method in JOINT):
        assert np.array_equal(predictions.indices, free.indices[:, 1:])


def odd_rows_and_large_k(model: Model, tiny: Corpus, folder: Path) -> None:
    predictions = model.predict(["", "words nobody has seen", "\x00 \ud800 ☃ apple"], k=50)
    assert predictions.indices.shape == (3, 10)  # there are no more; a row without known words may get the likely ones
    assert predictions.indices[2, 0] == 0
    assert model.predict([], k=3).indices.shape == (0, 3)
    with pytest.raises(DataError, match="at least 1"):
        model.predict(["apple"], k=0)
    with pytest.raises(DataError, match="brackets"):
        model.predict("apple")


def classifier_rows_have_a_norm_where_they_are_offered(model: Model, tiny: Corpus, folder: Path) -> None:
    norms = model.row_norms()
    if "classifier_rows" in learner_class(model.recipe.partition("(")[0]).offers:
        assert norms is not None and norms.shape == (10,) and (norms[np.isfinite(norms)] > 0).all()
    else:
        assert norms is None


CHECKS: tuple[Callable[[Model, Corpus, Path], None], ...] = (
    finds_what_the_text_names,
    saved_and_loaded_predicts_the_same,
    the_same_data_gives_the_same_model,
    ranking_is_in_order_and_does_not_depend_on_the_batch,
    excluded_labels_leave_before_the_top_k,
    odd_rows_and_large_k,
)
LEARNER_CHECKS = (classifier_rows_have_a_norm_where_they_are_offered,)


@pytest.mark.parametrize("name", RECIPES)
def test_a_trained_recipe(
    name: str, tiny: Corpus, tmp_path: Path, subtests: pytest.Subtests, with_files: Callable[[str], str]
) -> None:
    """The recipe is trained once for all checks. Each check is a subtest: one that fails does not hide the others."""
    recipe = with_files(RECIPES[name])
    model = fit(recipe, tiny)
    assert model.recipe == recipe
    for check in CHECKS if Recipe.parse(recipe).tail else (*CHECKS, *LEARNER_CHECKS):
        if check is the_same_data_gives_the_same_model and name not in TWICE:
            continue
        if check is odd_rows_and_large_k and recipe.startswith(KNOWS_ROWS_BY_ID):
            with pytest.raises(DataError, match="by their ids alone"):
                model.predict(["apple"])
            continue
        with subtests.test(check.__name__):
            check(model, tiny, tmp_path)


@pytest.mark.parametrize("learner", LEARNERS)
def test_works_on_features_without_texts(learner: str, numbers: Corpus, with_files: Callable[[str], str]) -> None:
    if "texts" in learner_class(learner).data_needs:
        with pytest.raises(DataError, match=f"{learner} needs documents with texts"):
            fit(learner, numbers)
        return
    model = fit(with_files(with_settings(learner)), numbers)
    predictions = model.predict(numbers.test.rows, k=2)
    assert predictions.hits(numbers.test.targets)[:, 0].mean() > 0.9
    with pytest.raises(DataError, match=r"features|feature files|by their ids"):
        model.predict(["a text"])


@pytest.mark.parametrize("learner", SOFT)
def test_half_a_target_sits_between_none_and_all(learner: str) -> None:
    """Label b has one sure row and shares another with label a; the more of it, the higher b scores there."""
    labels = LabelSet(ids=("a", "b"), texts=("one", "two"))
    recipe = re.sub(r"\bepochs=\d+", "epochs=60", with_settings(learner))  # three rows are one step an epoch

    def score(weight: float) -> float:
        dense = np.array([[1, weight], [0, 1], [1, 0]], dtype=np.float32)
        data = Dataset(
            labels=labels,
            targets=sparse.csr_array(dense),
            ids=("0", "1", "2"),
            texts=("shared words here", "something else entirely", "shared nothing"),
        )
        train = data.over(labels.counted(data.targets))
        model = Recipe.parse(recipe).fit(train, train.take([]))
        predictions = model.predict(["shared words here"], k=2)
        found = dict(zip(predictions.indices[0].tolist(), predictions.scores[0].tolist(), strict=True))
        return found.get(1, 0.0)

    assert score(0.0) < score(0.5) < score(1.0)


@pytest.mark.parametrize("learner", LEARNERS)
def test_missing_label_texts_are_told_before_training(
    learner: str, tiny: Corpus, with_files: Callable[[str], str]
) -> None:
    bare = replace(tiny.labels, texts=("",) * 10)
    train = tiny.train.take(range(len(tiny.train) - 120, len(tiny.train))).over(bare)
    needs = MEMBER_NEEDS.get(learner, learner)
    if "label_texts" in learner_class(needs).data_needs:
        with pytest.raises(DataError, match=f"{needs} needs labels with texts") as caught:
            Recipe.parse(learner if learner == needs else with_settings(learner)).fit(train, tiny.valid.over(bare))
        assert ("(ids_as_text=true)" in str(caught.value)) == hasattr(learner_class(needs), "ids_as_text")
    else:
        Recipe.parse(with_files(with_settings(learner))).fit(train, tiny.valid.over(bare))


@pytest.mark.parametrize("learner", LEARNERS)
def test_plans_grow_with_the_data(learner: str, tiny: Corpus) -> None:
    small = DataFacts.of(tiny.train)
    large = replace(
        small, rows=small.rows * 100, labels=small.labels * 100, positives=small.positives * 100, terms=small.terms * 9
    )
    one, other = Recipe.parse(learner).plan(small), Recipe.parse(learner).plan(large)
    assert 0 < one.train_bytes < other.train_bytes
    assert 0 < one.model_bytes < other.model_bytes
    assert 0 < one.train_seconds < other.train_seconds


def test_declarations_use_known_words() -> None:
    for name in LEARNERS:
        kind = learner_class(name)
        assert kind.offers <= set(OFFERS), name
        assert kind.data_needs <= set(DATA_NEEDS), name
        assert kind.summary and kind.__doc__, name
    for name in TAIL_METHODS:
        kind = tail_class(name)
        assert kind.needs <= set(OFFERS), name
        assert kind.data_needs <= set(DATA_NEEDS), name
        assert seams_of(kind), f"{name} acts on no seam"
        for heading in ("Needs:", "Costs:", "Prefer instead:", "Example:"):
            assert heading in (kind.__doc__ or ""), (name, heading)


def test_every_fitted_part_declares_what_it_stores() -> None:
    """Loading compares a model with it; without it, kernels would trust whoever made the folder."""
    classes = [learner_class(name) for name in LEARNERS] + [tail_class(name) for name in TAIL_METHODS]
    fitted = {getattr(kind, role) for kind in classes for role in ("scorer", "reranker") if hasattr(kind, role)}
    assert len(fitted) >= 16
    for part in fitted:
        assert isinstance(getattr(part, "declared", None), Declaration), f"{part.__name__} declares nothing"
        assert part.declared != Declaration(), f"{part.__name__} declares an empty state"


def test_every_method_file_is_in_the_catalogue() -> None:
    import longtail.learners
    import longtail.tail

    for package, names in ((longtail.learners, LEARNERS), (longtail.tail, TAIL_METHODS)):
        files = {path.stem for path in Path(str(package.__file__)).parent.glob("*.py")} - {"__init__"}
        assert files == {home.split(":")[0].rsplit(".", 1)[1] for home in names.values()}
