"""What a teacher's vectors say: which labels and documents are near, how relevant that makes them, and how far to
believe it. Loads torch only to ask."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from longtail.arrays import Bools, Floats, Ints, Longs, Matrix
from longtail.data.dataset import Dataset
from longtail.data.label_rows import labels_with_input, with_label_rows
from longtail.metrics.calibration import Calibration, Teaching, error_bins, score_bins
from longtail.metrics.propensity import inverse_propensity
from longtail.nn.blend import LEAST_HITS
from longtail.nn.checkpoint import Checkpoint, next_place
from longtail.nn.relevance import ESTIMATORS, Asked, Estimator, Halfway, Relevance, estimate, settled
from longtail.nn.settings import Search
from longtail.predictions import CANDIDATES, Predictions
from longtail.progress import stage
from longtail.seams import HasRowsThere, HasVectors, Taught
from longtail.search.device import refuse_too_many
from longtail.search.soft import (
    Near,
    document_targets,
    index_of,
    label_targets,
    new_documents,
    other_labels,
    twin_targets,
)

JUDGED = 2000  # held-out rows that relevances are learned from
NEAR_ENOUGH = 0.8  # least similarity where it stands for the relevance: it is far too sure of what is not near


@dataclass(frozen=True)
class Wanted:
    """What is asked of a teacher."""

    tau: int  # labels of a label's row, itself counted
    documents: int  # rows that a label has at least, its own text counted
    floor: float | Literal["auto"]  # least similarity, (1 + cosine) / 2; auto: none where relevances are learned
    estimator: Asked
    search: Search
    twins: bool = True  # rows that must not have a label are about it, and lend its row their labels
    propensity: float = 0.0  # the power of a label's inverse propensity that its chances grow by

    def least(self, estimator: Estimator) -> float:
        """The least similarity, where relevances come about like this."""
        if self.floor == "auto":
            return NEAR_ENOUGH if estimator == "cosine" else 0.0
        return self.floor


@dataclass(frozen=True, eq=False)
class Lesson:
    """Neighbours and relevances, from which soft targets are cut."""

    labels: Near  # others of each label
    documents: Near  # of labels with few rows
    twins: Matrix  # (labels, labels) what rows that are about a label say of its text
    floor: float
    relevance: Relevance
    teaching: Teaching
    weights: Floats | None = None  # (labels,) what chances of a label are multiplied by

    def softened(self, train: Dataset, tau: int, blend: float) -> Dataset:
        """The rows with soft labels, and behind them the texts of the labels as rows."""
        with stage("joining soft labels"):
            rows = self._label_rows(tau, blend)
            if self.documents.rows.shape[1]:
                entries = document_targets(self.documents, len(train), self.floor, self.chances, 1 - blend)
                train = train.with_entries(entries)
            told = labels_with_input(train, "lever")
            return with_label_rows(train, told, rows[told], origin="lever")

    def chances(self, cosines: Floats, labels: Ints) -> Floats:
        """How likely pairs are right. Held-out rows lack rare labels as training rows do, so say too little of them."""
        found = self.relevance.of(cosines)
        return found if self.weights is None else np.minimum(found * self.weights[labels], np.float32(1))

    def entries(self, train: Dataset, tau: int) -> int:
        """Soft targets that this tau adds."""
        documents = document_targets(self.documents, len(train), self.floor, self.chances, 1.0)
        return int(self._label_rows(tau, 0.0).nnz - len(train.labels) + documents.nnz)

    def _label_rows(self, tau: int, blend: float) -> Matrix:
        """Targets of the labels' texts: the label, those near it, and what rows that are about it have."""
        rows = label_targets(self.labels, tau, self.floor, self.chances, 1 - blend)
        return rows.maximum(self.twins * np.float32(1 - blend))


def learn_from(
    taught: Taught, train: Dataset, valid: Dataset, wanted: Wanted, seen: Longs | slice = slice(None)
) -> Lesson:
    """Ask the teacher once for all that soft targets up to these numbers need. Rows of train that are not among `seen`
    lend no labels."""
    scorer = taught.scorer
    assert isinstance(scorer, HasVectors)
    vectors = scorer.label_vectors
    if taught.labels.ids != train.labels.ids:  # a saved teacher may know more labels, or have them in another order
        vectors = vectors[taught.labels.rows(train.labels.ids)]
    near, topped = _neighbours(taught.recipe, scorer, vectors, train, wanted)
    excluded = train.excluded if wanted.twins else None
    twins = twin_targets(train.targets[seen], None if excluded is None else excluded[seen])
    weights = None
    if wanted.propensity:
        weights = (inverse_propensity(train.labels) ** wanted.propensity).astype(np.float32)
    if valid.targets.nnz == 0:
        estimator = settled(wanted.estimator, 0)
        told = Teaching(taught.recipe, estimator)
        return Lesson(near, topped, twins, wanted.least(estimator), Halfway(), told, weights)
    rows = valid.take(np.unique(np.linspace(0, len(valid) - 1, min(len(valid), JUDGED)).astype(np.int64)))
    places = min(CANDIDATES, len(vectors))
    index = index_of(vectors, len(rows), "exact", _device(), "fp32")
    found = Predictions(rows.labels, *index.top(scorer.row_vectors(rows.rows), places)).without(rows.excluded)
    with stage("learning relevances"):
        pairs = _pairs(found, rows, slice(None))
        estimator = settled(wanted.estimator, int(pairs[1].sum()))
        relevance, floor = estimate(estimator, *pairs), wanted.least(estimator)
        teaching = Teaching(
            teacher=taught.recipe,
            used=estimator,
            calibrations=_calibrations(found, rows),
            errors=error_bins(_believed(found, relevance, floor), rows),
        )
    return Lesson(near, topped, twins, floor, relevance, teaching, weights)


def _neighbours(teacher: str, scorer: HasVectors, vectors: Floats, train: Dataset, wanted: Wanted) -> tuple[Near, Near]:
    """Of labels among labels and documents. In a `keeping` block they are kept, and found again by the next run."""
    import torch

    place = next_place("soft-labels")
    if place is None:
        return _found(scorer, vectors, train, wanted)
    identity = {"teacher": teacher, "tau": wanted.tau, "documents": wanted.documents, "search": wanted.search,
                "data": _digest(train), "epochs": 1}  # fmt: skip
    kept = place.read(identity)
    if kept is not None:
        labels, cosines, documents, nearness = (
            kept.tensors[name].numpy() for name in ("labels", "cosines", "documents", "nearness")
        )
        return Near(labels, cosines), Near(documents, nearness)
    near, topped = _found(scorer, vectors, train, wanted)
    arrays = {"labels": near.rows, "cosines": near.cosines, "documents": topped.rows, "nearness": topped.cosines}
    tensors = {name: torch.from_numpy(np.ascontiguousarray(array)) for name, array in arrays.items()}
    place.write(Checkpoint({"epoch": 1, "step": 0, "stopped": True}, tensors), identity)
    return near, topped


def _found(scorer: HasVectors, vectors: Floats, train: Dataset, wanted: Wanted) -> tuple[Near, Near]:
    device = _device()
    near = topped = Near(np.zeros((len(vectors), 0), np.int32), np.zeros((len(vectors), 0), np.float32))
    if wanted.tau > 1:
        near = other_labels(index_of(vectors, len(vectors), wanted.search, device), vectors, wanted.tau - 1)
    if wanted.documents > 1:
        rows: Any
        if device != "cpu" and wanted.search != "approximate" and isinstance(scorer, HasRowsThere):
            refuse_too_many(len(train), vectors.shape[1], 6, device)
            rows = scorer.rows_there(train.rows)  # a host may need longer to take them down than a GPU to make them
        else:
            rows = scorer.row_vectors(train.rows)
        index = index_of(rows, len(vectors), wanted.search, device)
        topped = new_documents(index, vectors, train.targets, train.excluded, wanted.documents)
    return near, topped


def _digest(train: Dataset) -> str:
    digest = hashlib.blake2b(digest_size=16)
    for name in (*train.ids, *train.labels.ids):
        digest.update(name.encode("utf-8", "surrogatepass") + b"\n")
    for array in (train.targets.indptr, train.targets.indices):
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()


def _device() -> str:
    from longtail.nn.precision import best_device

    return best_device().type


def _pairs(found: Predictions, rows: Dataset, part: slice) -> tuple[Floats, Bools]:
    """Cosines of the candidates of some rows, and which of them are right: (candidates,)."""
    there = found.indices[part] >= 0
    return found.scores[part][there], found.hits(rows.targets)[part][there]


def _calibrations(found: Predictions, rows: Dataset) -> tuple[Calibration, ...]:
    """Each way to make chances of cosines, learned on every other row and looked at on the rest."""
    cosines, hits = _pairs(found, rows, slice(0, None, 2))
    others, right = _pairs(found, rows, slice(1, None, 2))
    if hits.sum() < LEAST_HITS or len(others) == 0:
        return ()
    return tuple(Calibration(name, score_bins(estimate(name, cosines, hits).of(others), right)) for name in ESTIMATORS)


def _believed(found: Predictions, relevance: Relevance, floor: float) -> Predictions:
    """What a student would be told of these rows: nothing below the floor."""
    kept = (found.indices >= 0) & (found.scores >= np.float32(2 * floor - 1))
    return Predictions(
        found.labels,
        np.where(kept, found.indices, np.int32(-1)),
        np.where(kept, relevance.of(found.scores), np.float32(0)),
    )
