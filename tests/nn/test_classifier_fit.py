"""Classifiers on a dual encoder: hard negatives in their pools, and encoder and classifiers together."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from longtail.data import Corpus
from longtail.errors import RecipeError
from longtail.learners.ngame import Ngame
from longtail.metrics import evaluate
from longtail.model import Model
from longtail.nn.dual import classifier_fit
from longtail.nn.dual.auxiliary_vectors import SharedVectors
from longtail.nn.dual.classifier_task import ClassifierTask
from longtail.nn.training.checkpoint import checkpointing
from longtail.plan import DataFacts
from longtail.progress import listening
from longtail.recipe import Recipe

NGAME = Ngame(encoder="bag", dimension=64, batch_size=64, epochs=5, classifier_epochs=3)


class Stop(Exception):
    pass


class Killer:
    """Stops training of encoder and classifiers after so many steps."""

    def __init__(self, steps: int) -> None:
        self.left, self.here = steps, False

    def start(self, name: str, total: int | None) -> int:
        self.here = name.startswith("training encoder and classifiers")
        return 0

    def advance(self, handle: int, amount: int) -> None:
        self.left -= self.here
        if self.left == 0:
            raise Stop

    def finish(self, handle: int) -> None: ...


def model(learner: Ngame, corpus: Corpus, parts: tuple[Any, ...] = ()) -> Model:
    return Model(learner.name, corpus.labels, learner.fit(corpus.train, corpus.valid, parts))


def test_labels_near_a_document_join_its_pool(tiny: Corpus, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are the wrong labels whose documents' mean is nearest, and a batch's pool holds them beside its labels."""
    tasks: list[ClassifierTask] = []

    def made(**fields: Any) -> ClassifierTask:
        tasks.append(ClassifierTask(**fields))
        return tasks[-1]

    monkeypatch.setattr(classifier_fit, "ClassifierTask", made)
    model(replace(NGAME, classifier_shortlist=2), tiny)
    (task,) = tasks
    near, targets = task.negatives, tiny.train.targets.tocsr()
    assert near is not None and near.shape == (len(tiny.train), 2)
    weights = np.asarray(targets.T @ task.documents)
    means = weights / np.maximum(np.linalg.norm(weights, axis=1, keepdims=True), 1e-12)
    scores = np.where(targets.toarray() > 0, -np.inf, task.documents @ means.T)
    nearest = np.take_along_axis(scores, near, axis=1)
    assert (near >= 0).all() and np.allclose(nearest, -np.sort(-scores, axis=1)[:, :2], atol=1e-5)
    batch = next(task.batches(0, 0))
    own = set(targets[batch.rows].indices.tolist())
    assert set(batch.pool.tolist()) == own | set(near[batch.rows].ravel().tolist())


def test_free_vectors_make_a_classifier_of_a_text() -> None:
    import torch

    rng = np.random.default_rng(0)
    texts, classifiers = (rng.normal(size=(5, 4)).astype(np.float32) for _ in range(2))
    classifiers /= np.linalg.norm(classifiers, axis=1, keepdims=True)
    tower = SharedVectors.free(classifiers - texts)
    found = tower.vectors(torch.arange(5), torch.from_numpy(texts))
    assert np.allclose(found.detach().numpy(), classifiers, atol=1e-6)


def test_encoder_and_classifiers_train_on_together(tiny: Corpus, monkeypatch: pytest.MonkeyPatch) -> None:
    kept: dict[str, np.ndarray] = {}
    whole = classifier_fit.learn_together

    def watched(fit: Any, loss: Any, classifiers: np.ndarray, *rest: Any, **more: Any) -> np.ndarray:
        kept["before"], kept["texts before"] = classifiers, fit.text_vectors()
        kept["after"] = whole(fit, loss, classifiers, *rest, **more)
        kept["texts after"] = fit.text_vectors()
        assert fit.tower is None  # the model has no label tower for it
        return kept["after"]

    monkeypatch.setattr(classifier_fit, "learn_together", watched)
    fitted = model(replace(NGAME, joint_epochs=3, joint_learning_rate=1e-2), tiny)
    for name in ("", "texts "):
        before, after = kept[name + "before"], kept[name + "after"]
        moved = 1 - np.einsum("ld,ld->l", before, after)
        assert np.allclose(np.linalg.norm(after, axis=1), 1, atol=1e-5) and moved.max() > 1e-3
    assert evaluate(fitted.predict(tiny.test.rows, 5), tiny.test)["P@1"] > 0.9


def test_a_killed_joint_training_resumes_where_it_was(tiny: Corpus, tmp_path: Path) -> None:
    learner = replace(NGAME, joint_epochs=3, dropout=0.1)
    whole = model(learner, tiny).scorer.state()
    with pytest.raises(Stop), checkpointing(tmp_path, every_seconds=0), listening(Killer(7)):
        model(learner, tiny)
    with checkpointing(tmp_path):
        again = model(learner, tiny).scorer.state()
    assert all(np.array_equal(again.tensors[name], whole.tensors[name]) for name in whole.tensors)


@pytest.mark.parametrize(
    ("recipe", "message"),
    [
        ("ngame(classifier_shortlist=-1)", "'classifier_shortlist' of ngame is at least 0"),
        ("ngame(joint_epochs=2, classifiers=false)", "'joint_epochs' of ngame is of classifiers"),
        ("ngame(joint_epochs=2, search_dimension=8)", "leave out search_dimension or joint_epochs"),
        ("ngame(joint_epochs=2, joint_learning_rate=0.0)", "'joint_learning_rate' of ngame is above 0"),
    ],
)
def test_settings_that_cannot_be_are_refused(recipe: str, message: str) -> None:
    with pytest.raises(RecipeError, match=message):
        Recipe.parse(recipe)


def test_a_plan_counts_the_joint_epochs(tiny: Corpus) -> None:
    facts = DataFacts.of(tiny.train)
    plain, joint = (replace(NGAME, joint_epochs=number).plan(facts) for number in (0, 5))
    assert joint.train_seconds > plain.train_seconds and joint.train_bytes >= plain.train_bytes
