"""Soft labels from a teacher's vectors: the nearest labels and documents of each label, how relevant they are, and how
well calibrated that is. Loads torch only to search.

Soft labels are cut from neighbours that were found once and are in the checkpoint. So several numbers of neighbours and
blends can be tried, and a run that was killed does not search again.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from longtail.arrays import Bools, Floats, Ints, Longs, Matrix
from longtail.data.dataset import Dataset
from longtail.data.label_rows import labels_with_input, with_label_rows
from longtail.data.subsample import evenly_spaced
from longtail.linear.solvers.platt_scaling import MIN_HITS
from longtail.metrics.calibration import Calibration, Teaching, frequency_bins, score_bins
from longtail.metrics.propensity import inverse_propensity
from longtail.nn.distill.relevance import (
    ESTIMATORS,
    Asked,
    Estimator,
    LinearMap,
    Relevance,
    estimate,
    resolve_estimator,
)
from longtail.nn.dual.dual_settings import Search
from longtail.nn.training.checkpoint import Checkpoint, next_checkpoint_dir
from longtail.predictions import CANDIDATES, Predictions
from longtail.progress import stage
from longtail.seams import EncodesToDevice, HasVectors, TeacherModel
from longtail.search.device import refuse_too_many
from longtail.search.soft import (
    Neighbours,
    document_targets,
    index_of,
    label_targets,
    new_documents,
    other_labels,
    twin_targets,
)

CALIBRATION_ROWS = 2000  # held-out rows that relevances are learned from
MIN_SIMILARITY = 0.8  # lowest similarity of a soft label where similarity is the relevance: it overrates far pairs


@dataclass(frozen=True)
class DistillSettings:
    """Which soft labels to make from a teacher."""

    tau: int  # labels of a label's row, including itself
    min_documents: int  # rows that each label gets at least, including its own text
    min_relevance: float | Literal["auto"]  # lowest similarity (1 + cosine) / 2; auto: 0 where relevances are learned
    calibration: Asked
    search: Search
    excluded_is_self: bool = True  # rows with an excluded label are about that label, whose row gets their labels
    propensity: float = 0.0  # relevances are multiplied by this power of the label's inverse propensity

    def floor(self, estimator: Estimator) -> float:
        """The lowest similarity of a soft label.

        Args:
            estimator: of the relevances.

        Returns:
            A similarity in [0, 1].
        """
        if self.min_relevance == "auto":
            return MIN_SIMILARITY if estimator == "cosine" else 0.0
        return self.min_relevance


@dataclass(frozen=True, eq=False)
class SoftLabels:
    """Neighbours and relevances that soft targets are made from."""

    labels: Neighbours  # nearest other labels of each label
    documents: Neighbours  # nearest documents of labels with few rows
    twins: Matrix  # (labels, labels) soft targets of label texts, from rows that are about the label
    floor: float  # lowest similarity
    relevance: Relevance
    teaching: Teaching
    weights: Floats | None = None  # (labels,) factors of the relevances

    def softened(self, train: Dataset, tau: int, blend: float, documents: bool = True, twins: bool = True) -> Dataset:
        """The training rows with soft labels, followed by the label texts as rows.

        Args:
            train: the rows.
            tau: labels of a label's row, including itself.
            blend: weight of given targets; soft targets are multiplied by 1 - blend.
            documents: whether labels with few rows are added to the documents nearest to them.
            twins: whether label rows get the labels of rows that are about the label.

        Returns:
            The longer data set.
        """
        with stage("joining soft labels"):
            targets = self._label_rows(tau, blend, twins)
            if documents and self.documents.rows.shape[1]:
                entries = document_targets(self.documents, len(train), self.floor, self.probabilities, 1 - blend)
                train = train.with_entries(entries)
            readable = labels_with_input(train, "lever")
            return with_label_rows(train, readable, targets[readable], origin="lever")

    def probabilities(self, cosines: Floats, labels: Ints) -> Floats:
        """The relevances of pairs. Held-out rows miss rare labels as training rows do, so relevances learned from them
        are too low for rare labels; the weights make up for that.

        Args:
            cosines: (pairs,).
            labels: (pairs,) the label of each pair.

        Returns:
            (pairs,) probabilities.
        """
        found = self.relevance.of(cosines)
        return found if self.weights is None else np.minimum(found * self.weights[labels], np.float32(1))

    def entries(self, train: Dataset, tau: int, documents: bool = True, twins: bool = True) -> int:
        """How many soft targets are added.

        Args:
            train: the rows.
            tau: labels of a label's row, including itself.
            documents: as in `softened`.
            twins: as in `softened`.

        Returns:
            The number of entries on label rows and documents.
        """
        number = int(self._label_rows(tau, 0.0, twins).nnz - len(train.labels))
        if not documents:
            return number
        return number + int(document_targets(self.documents, len(train), self.floor, self.probabilities, 1.0).nnz)

    def _label_rows(self, tau: int, blend: float, twins: bool) -> Matrix:
        """csr (labels, labels): targets of the label texts: the label, its nearest labels, and its twins' labels."""
        rows = label_targets(self.labels, tau, self.floor, self.probabilities, 1 - blend)
        return rows.maximum(self.twins * np.float32(1 - blend)) if twins else rows


def learn_from(
    teacher: TeacherModel, train: Dataset, valid: Dataset, settings: DistillSettings, seen: Longs | slice = slice(None)
) -> SoftLabels:
    """Search the teacher's vectors once, for soft targets of any tau and blend up to the settings.

    Args:
        teacher: a trained model with vectors of rows and labels.
        train: the training rows.
        valid: held-out rows that relevances are learned from; may be empty.
        settings: which soft labels to make.
        seen: the training rows whose labels may become soft labels of excluded pairs.

    Returns:
        The neighbours with their relevances.

    Raises:
        DataError: relevances cannot be learned from so few held-out labels.
    """
    scorer = teacher.scorer
    assert isinstance(scorer, HasVectors)
    vectors = scorer.label_vectors
    if teacher.labels.ids != train.labels.ids:  # a saved teacher may have more labels, or in another order
        vectors = vectors[teacher.labels.rows(train.labels.ids)]
    near, documents = _neighbours(teacher.recipe, scorer, vectors, train, settings)
    excluded = train.excluded if settings.excluded_is_self else None
    twins = twin_targets(train.targets[seen], None if excluded is None else excluded[seen])
    weights = None
    if settings.propensity:
        weights = (inverse_propensity(train.labels) ** settings.propensity).astype(np.float32)
    if valid.targets.nnz == 0:
        estimator = resolve_estimator(settings.calibration, 0)
        teaching = Teaching(teacher.recipe, estimator)
        return SoftLabels(near, documents, twins, settings.floor(estimator), LinearMap(), teaching, weights)
    rows = valid.take(evenly_spaced(len(valid), CALIBRATION_ROWS))
    index = index_of(vectors, len(rows), "exact", _device(), "fp32")
    candidates = index.top(scorer.row_vectors(rows.rows), min(CANDIDATES, len(vectors)))
    found = Predictions(rows.labels, *candidates).without(rows.excluded)
    with stage("learning relevances"):
        pairs = _pairs(found, rows, slice(None))
        estimator = resolve_estimator(settings.calibration, int(pairs[1].sum()))
        relevance, floor = estimate(estimator, *pairs), settings.floor(estimator)
        above = settings.floor("cosine")
        calibrations = _calibrations(found, rows, above)
        teaching = Teaching(
            teacher=teacher.recipe,
            used=estimator,
            calibrations=calibrations,
            above=above,
            frequencies=frequency_bins(_relevant(found, relevance, floor), rows),
        )
    return SoftLabels(near, documents, twins, floor, relevance, teaching, weights)


def _neighbours(
    teacher: str, scorer: HasVectors, vectors: Floats, train: Dataset, settings: DistillSettings
) -> tuple[Neighbours, Neighbours]:
    """The nearest labels and documents of each label. Inside `checkpointing` they are kept for the next run."""
    import torch

    place = next_checkpoint_dir("soft-labels")
    if place is None:
        return _search(scorer, vectors, train, settings)
    identity = {"teacher": teacher, "tau": settings.tau, "documents": settings.min_documents,
                "search": settings.search, "data": _digest(train), "epochs": 1}  # fmt: skip
    kept = place.read(identity)
    if kept is not None:
        labels, cosines, documents, nearness = (
            kept.tensors[name].numpy() for name in ("labels", "cosines", "documents", "nearness")
        )
        return Neighbours(labels, cosines), Neighbours(documents, nearness)
    near, nearest = _search(scorer, vectors, train, settings)
    arrays = {"labels": near.rows, "cosines": near.cosines, "documents": nearest.rows, "nearness": nearest.cosines}
    tensors = {name: torch.from_numpy(np.ascontiguousarray(array)) for name, array in arrays.items()}
    place.write(Checkpoint({"epoch": 1, "step": 0, "stopped": True}, tensors), identity)
    return near, nearest


def _search(
    scorer: HasVectors, vectors: Floats, train: Dataset, settings: DistillSettings
) -> tuple[Neighbours, Neighbours]:
    device = _device()
    near = documents = Neighbours(np.zeros((len(vectors), 0), np.int32), np.zeros((len(vectors), 0), np.float32))
    if settings.tau > 1:
        near = other_labels(index_of(vectors, len(vectors), settings.search, device), vectors, settings.tau - 1)
    if settings.min_documents > 1:
        rows: Any
        if device != "cpu" and settings.search != "approximate" and isinstance(scorer, EncodesToDevice):
            refuse_too_many(len(train), vectors.shape[1], 6, device)
            rows = scorer.encode_to_device(train.rows)  # copying to the host may take longer than encoding
        else:
            rows = scorer.row_vectors(train.rows)
        index = index_of(rows, len(vectors), settings.search, device)
        documents = new_documents(index, vectors, train.targets, train.excluded, settings.min_documents)
    return near, documents


def _digest(train: Dataset) -> str:
    digest = hashlib.blake2b(digest_size=16)
    for name in (*train.ids, *train.labels.ids):
        digest.update(name.encode("utf-8", "surrogatepass") + b"\n")
    for array in (train.targets.indptr, train.targets.indices):
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()


def _device() -> str:
    from longtail.nn.training.precision import best_device

    return best_device().type


def _pairs(found: Predictions, rows: Dataset, part: slice) -> tuple[Floats, Bools]:
    """(candidates,) cosines of the candidates of some rows, and (candidates,) which of them are right."""
    real = found.indices[part] >= 0
    return found.scores[part][real], found.hits(rows.targets)[part][real]


def _calibrations(found: Predictions, rows: Dataset, above: float) -> tuple[Calibration, ...]:
    """How well calibrated each estimator is: fitted to every other row, measured on the rest.

    Only pairs above a similarity count, the same ones for all estimators: nearly all pairs of a hundred nearest labels
    are wrong, and every estimator learns easily that the far ones are.
    """
    cosines, hits = _pairs(found, rows, slice(0, None, 2))
    others, right = _pairs(found, rows, slice(1, None, 2))
    near = others >= np.float32(2 * above - 1)
    if hits.sum() < MIN_HITS or not near.any():
        return ()
    others, right = others[near], right[near]
    return tuple(Calibration(name, score_bins(estimate(name, cosines, hits).of(others), right)) for name in ESTIMATORS)


def _relevant(found: Predictions, relevance: Relevance, floor: float) -> Predictions:
    """The soft labels that a student would get for these rows: none below the floor."""
    kept = (found.indices >= 0) & (found.scores >= np.float32(2 * floor - 1))
    return Predictions(
        found.labels,
        np.where(kept, found.indices, np.int32(-1)),
        np.where(kept, relevance.of(found.scores), np.float32(0)),
    )
