"""How near rows stand to the means of labels' rows: PfastreXML's scorer for the tail."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numba import njit
from scipy import sparse

from longtail.arrays import AnyArray, Doubles, Floats, Ints, Matrix
from longtail.linear.text import matrix_from, matrix_state
from longtail.threads import over_rows


@dataclass(frozen=True, eq=False)
class LabelMeans:
    """The mean vector of each label's training rows. A label without rows has the mean 0."""

    means: Matrix  # csr (labels, features)

    @classmethod
    def learn(cls, vectors: Matrix, targets: Matrix) -> LabelMeans:
        """A soft target weighs its row's part in the mean."""
        weight = np.bincount(targets.indices, targets.data, minlength=targets.shape[1])  # (labels,)
        sums = (targets.T @ vectors).tocsr()
        sums.sort_indices()
        shares = (sums.data / np.repeat(np.maximum(weight, 1e-30), np.diff(sums.indptr))).astype(np.float32)
        return cls(sparse.csr_array((shares, sums.indices, sums.indptr), shape=sums.shape))

    def blend(self, vectors: Matrix, indices: Ints, scores: Floats, share: float, gamma: float) -> Floats:
        """score^(1 - share) x nearness^share of each candidate (rows, places); 0 where there is none."""
        kept = indices >= 0
        near = -np.logaddexp(0, gamma * self.distances(vectors, indices))  # ln nearness
        logs = (1 - share) * np.log(np.where(kept, np.maximum(scores, np.float32(1e-37)), 1)) + share * near
        blended: Floats = np.where(kept, np.maximum(np.exp(logs), 1e-37), 0).astype(np.float32)
        return blended

    def distances(self, vectors: Matrix, indices: Ints) -> Doubles:
        """|mean|^2 + 1 - 2 mean.x of each candidate: the squared distance, for rows of length 1."""
        found = np.empty(indices.shape)
        asked = _plain(vectors)

        def work(begin: int, end: int) -> None:
            _distances(begin, end, *asked, vectors.shape[1], *self._held, self._squares, indices, found)

        over_rows(work, len(indices))
        return found

    @cached_property
    def _held(self) -> tuple[AnyArray, AnyArray, AnyArray]:
        return _plain(self.means)

    @cached_property
    def _squares(self) -> Doubles:
        """|mean|^2 of each label."""
        rows = np.repeat(np.arange(self.means.shape[0]), np.diff(self.means.indptr))
        squares: AnyArray = self.means.data.astype(np.float64) ** 2
        return np.bincount(rows, squares, minlength=self.means.shape[0]).astype(np.float64)

    def state(self) -> dict[str, AnyArray]:
        return matrix_state("means", self.means)

    @classmethod
    def restore(cls, tensors: dict[str, AnyArray]) -> LabelMeans:
        return cls(matrix_from("means", tensors))


def _plain(matrix: Matrix) -> tuple[AnyArray, AnyArray, AnyArray]:
    """One set of types for the kernel, read-only as the data is, so that it compiles once."""
    parts = (
        matrix.indptr.astype(np.int64, copy=False).view(),
        matrix.indices.astype(np.int32, copy=False).view(),
        matrix.data.astype(np.float32, copy=False).view(),
    )
    for part in parts:
        part.setflags(write=False)
    return parts


@njit(nogil=True, cache=True)
def _distances(begin, end, x_starts, x_columns, x_values, features, starts, columns, values, squares, indices, found):  # type: ignore[no-untyped-def]
    dense = np.zeros(features, dtype=np.float32)
    for row in range(begin, end):
        first, last = x_starts[row], x_starts[row + 1]
        for entry in range(first, last):
            dense[x_columns[entry]] = x_values[entry]
        for place in range(indices.shape[1]):
            label = indices[row, place]
            if label < 0:
                found[row, place] = 1.0
                continue
            low, high = starts[label], starts[label + 1]
            product = 0.0
            if high - low <= 16 * (last - first):
                for entry in range(low, high):
                    product += np.float64(values[entry]) * np.float64(dense[columns[entry]])
            else:  # a common label has met most words: look the row's few words up in its mean
                mean = columns[low:high]
                for entry in range(first, last):
                    spot = np.searchsorted(mean, x_columns[entry])
                    if spot < len(mean) and mean[spot] == x_columns[entry]:
                        product += np.float64(values[low + spot]) * np.float64(x_values[entry])
            found[row, place] = squares[label] + 1.0 - 2.0 * product
        for entry in range(first, last):
            dense[x_columns[entry]] = 0
