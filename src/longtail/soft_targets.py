"""How often the soft targets of `gandalf` are right, by their size: counted on documents that are a label themselves.

A soft target says that the text of label j also has label i. Where a document is the label j (its text is that of the
label, or the pair is excluded because they are the same thing), its own labels tell whether that is so.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from longtail.arrays import Bools, Floats, Longs, Matrix
from longtail.data.dataset import Dataset
from longtail.data.subsample import evenly_spaced

EDGES = (0.1, 0.2, 0.4, 0.6, 0.8, 1.0)  # of the bins; a soft target of 1 is in the last
COUNTED = 50_000  # documents that are labels, at most
FEW = 50  # soft targets that say nothing yet


@dataclass(frozen=True)
class SoftTargetBin:
    """Soft targets of similar size."""

    low: float
    high: float
    count: int  # pairs of a document that is a label, and a soft target of that label
    right: float  # share of them that the document has

    def __str__(self) -> str:
        return f"{self.low:g} to {self.high:g}: {self.right:.2f} of {self.count:,}"


def right_by_size(train: Dataset, *others: Dataset) -> tuple[SoftTargetBin, ...]:
    """Count how often soft targets are right on documents that are a label.

    Args:
        train: the documents that labels are linked by.
        others: further documents to count on, such as valid.

    Returns:
        The bins that hold a soft target; none where too few documents are labels to tell.
    """
    from longtail.tail.gandalf import Gandalf

    found = [(data, *labels_as_documents(data)) for data in (train, *others)]
    if not any(len(rows) for _, rows, _ in found):
        return ()
    graph = Gandalf(threshold=EDGES[0]).soft_targets(train.targets)
    parts = [_judged(data.targets, rows, labels, graph) for data, rows, labels in found if len(rows)]
    weights, right = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    if len(weights) < FEW:
        return ()
    place = np.clip(np.searchsorted(EDGES, weights, side="right") - 1, 0, len(EDGES) - 2)
    counts = np.bincount(place, minlength=len(EDGES) - 1)
    hits = np.bincount(place, weights=right, minlength=len(EDGES) - 1)
    return tuple(
        SoftTargetBin(EDGES[number], EDGES[number + 1], int(counts[number]), float(hits[number] / counts[number]))
        for number in np.flatnonzero(counts).tolist()
    )


def labels_as_documents(data: Dataset) -> tuple[Longs, Longs]:
    """Find documents that are a label: by an excluded pair, or by the same text. Up to COUNTED, evenly spaced.

    Args:
        data: documents.

    Returns:
        (pairs,) documents and (pairs,) the label that each is.
    """
    pairs: set[tuple[int, int]] = set()
    if data.excluded is not None:
        pairs.update(zip(*(part.tolist() for part in data.excluded.nonzero()), strict=True))
    if data.texts is not None:
        of_text: dict[str, int] = {}
        for label, text in enumerate(data.labels.texts):
            if plain := " ".join(text.lower().split()):
                of_text[plain] = -1 if plain in of_text else label  # a text of two labels names neither
        for row, text in enumerate(data.texts):
            label = of_text.get(" ".join(text.lower().split()), -1)
            if label >= 0:
                pairs.add((row, label))
    ordered = np.array(sorted(pairs), dtype=np.int64).reshape(-1, 2)
    kept = ordered[evenly_spaced(len(ordered), COUNTED)]
    return kept[:, 0], kept[:, 1]


def _judged(targets: Matrix, rows: Longs, labels: Longs, graph: Matrix) -> tuple[Floats, Bools]:
    """(soft targets,) their sizes, and whether the document has them; not those of a label for itself."""
    soft = sparse.csr_array(graph[labels])
    pair = np.repeat(np.arange(len(rows)), np.diff(soft.indptr))
    other = soft.indices != labels[pair]
    pair, linked, weights = pair[other], soft.indices[other].astype(np.int64), soft.data[other]
    width = targets.shape[1]
    own = np.repeat(np.arange(targets.shape[0]), np.diff(targets.indptr)) * width + targets.indices
    return weights, np.isin(rows[pair] * width + linked, own)
