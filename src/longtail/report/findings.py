"""What predictions show beyond the measures: which labels are found, and which are never predicted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from longtail.arrays import Bools, Ints, Longs, Matrix
from longtail.data.corpus import Corpus
from longtail.metrics.frequency import BANDS, bands
from longtail.report.result import Result

PLACES = 5
RARE = tuple(number for number, name in enumerate(BANDS) if name in ("tail", "unseen"))


@dataclass(frozen=True, eq=False)
class Findings:
    """For each recipe: hits of the top 5, labels predicted at all, labels found. Computed once for the page."""

    band: Ints  # (labels,) which of BANDS
    wanted: Bools  # (labels,) has a test positive
    tops: tuple[Ints, ...]  # per recipe: (rows, places) the top 5 without excluded pairs, -1 = no label
    hits: tuple[Bools, ...]  # per recipe: (rows, places) which of them are correct
    predicted: tuple[Bools, ...]  # per recipe: (labels,) in the top 5 of at least one document
    found: tuple[Bools, ...]  # per recipe: (labels,) correct in the top 5 of at least one document

    def per_band(self, chosen: Bools) -> Longs:
        """Counts labels by band.

        Args:
            chosen: (labels,) which labels to count.

        Returns:
            (bands,) in the order of BANDS.
        """
        return np.bincount(self.band[chosen], minlength=len(BANDS)).astype(np.int64)

    @property
    def rare(self) -> Bools:
        """(labels,) in the tail, or never seen in training."""
        result: Bools = np.isin(self.band, RARE)
        return result


def find(results: Sequence[Result], corpus: Corpus) -> Findings:
    """Compares the predictions of each recipe with the test split.

    Args:
        results: a result per recipe.
        corpus: the data that they were measured on.

    Returns:
        The findings.
    """
    targets, labels = corpus.test.targets, len(corpus.labels)
    tops = tuple(result.predictions.without(corpus.test.excluded).indices[:, :PLACES] for result in results)
    hits = tuple(hit_places(top, targets) for top in tops)
    return Findings(
        band=bands(corpus.labels),
        wanted=_marked(targets.indices, labels),
        tops=tops,
        hits=hits,
        predicted=tuple(_marked(top[top >= 0], labels) for top in tops),
        found=tuple(_marked(top[hit], labels) for top, hit in zip(tops, hits, strict=True)),
    )


def hit_places(top: Ints, targets: Matrix) -> Bools:
    """Marks the correct predictions.

    Args:
        top: (rows, places) predicted labels, -1 = no label.
        targets: (rows, labels) the true labels, indices sorted within a row.

    Returns:
        (rows, places)
    """
    width = np.int64(max(targets.shape[1], 1))
    row_of = np.repeat(np.arange(targets.shape[0], dtype=np.int64), np.diff(targets.indptr))
    true = row_of * width + targets.indices  # ascending: rows in order, labels in order within a row
    asked = np.arange(len(top), dtype=np.int64)[:, None] * width + top
    if not true.size:
        return np.zeros(top.shape, dtype=np.bool_)
    place = np.minimum(np.searchsorted(true, asked), true.size - 1)
    result: Bools = (true[place] == asked) & (top >= 0)
    return result


def _marked(rows: Ints, number: int) -> Bools:
    marked = np.zeros(number, dtype=np.bool_)
    marked[rows] = True
    return marked
