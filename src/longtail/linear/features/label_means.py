"""How near examples are to the mean of a label's examples: PfastreXML's scorer for the tail."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numba import njit
from scipy import sparse

from longtail.arrays import AnyArray, Doubles, Floats, Ints, Matrix
from longtail.linear.csr_arrays import CsrArrays, csr_arrays
from longtail.linear.features.sparse_features import matrix_from, matrix_state
from longtail.seams import csr
from longtail.threads import over_rows

MEANS = csr("means", "labels", "columns", ascending=True)  # of what `LabelMeans.state` returns


@dataclass(frozen=True, eq=False)
class LabelMeans:
    """The mean vector of each label's training examples. A label without examples has the mean 0."""

    means: Matrix  # csr (labels, features)

    @classmethod
    def learn(cls, vectors: Matrix, targets: Matrix) -> LabelMeans:
        """The means of training examples.

        Args:
            vectors: csr (rows, features).
            targets: csr (rows, labels); a soft target is the weight of its row in the mean.

        Returns:
            The means.
        """
        weight = np.bincount(targets.indices, targets.data, minlength=targets.shape[1])  # (labels,)
        sums = (targets.T @ vectors).tocsr()
        sums.sort_indices()
        shares = (sums.data / np.repeat(np.maximum(weight, 1e-30), np.diff(sums.indptr))).astype(np.float32)
        return cls(sparse.csr_array((shares, sums.indices, sums.indptr), shape=sums.shape))

    def blend(self, vectors: Matrix, indices: Ints, scores: Floats, share: float, gamma: float) -> Floats:
        """score^(1 - share) x nearness^share of each candidate, with nearness 1 / (1 + exp(gamma x distance)).

        Args:
            vectors: csr (rows, features), unit-norm.
            indices: labels of the candidates (rows, places), -1 where there is none.
            scores: their scores (rows, places).
            share: the part of the nearness, from 0 to 1.
            gamma: how fast nearness falls with the squared distance.

        Returns:
            Blended scores (rows, places); 0 where there is no candidate.
        """
        kept = indices >= 0
        log_nearness = -np.logaddexp(0, gamma * self.distances(vectors, indices))
        logs = (1 - share) * np.log(np.where(kept, np.maximum(scores, np.float32(1e-37)), 1)) + share * log_nearness
        blended: Floats = np.where(kept, np.maximum(np.exp(logs), 1e-37), 0).astype(np.float32)
        return blended

    def distances(self, vectors: Matrix, indices: Ints) -> Doubles:
        """|mean|^2 + 1 - 2 mean.x of each candidate: the squared distance of a unit-norm vector x to the mean.

        Args:
            vectors: csr (rows, features).
            indices: labels of the candidates (rows, places), -1 where there is none.

        Returns:
            (rows, places); 1 where there is no candidate.
        """
        found = np.empty(indices.shape)
        rows = csr_arrays(vectors)

        def work(begin: int, end: int) -> None:
            _distances(begin, end, rows, vectors.shape[1], self._arrays, self.squares, indices, found)

        over_rows(work, len(indices))
        return found

    @cached_property
    def _arrays(self) -> CsrArrays:
        return csr_arrays(self.means)

    @cached_property
    def squares(self) -> Doubles:
        """|mean|^2 of each label."""
        rows = np.repeat(np.arange(self.means.shape[0]), np.diff(self.means.indptr))
        squares: AnyArray = self.means.data.astype(np.float64) ** 2
        return np.bincount(rows, squares, minlength=self.means.shape[0]).astype(np.float64)

    def state(self) -> dict[str, AnyArray]:
        """The means as tensors."""
        return matrix_state("means", self.means)

    @classmethod
    def restore(cls, tensors: dict[str, AnyArray]) -> LabelMeans:
        """The means from the tensors of `state`."""
        return cls(matrix_from("means", tensors))


@njit(nogil=True, cache=True)
def _distances(begin, end, rows, features, means, squares, indices, found):  # type: ignore[no-untyped-def]
    # Safe: MEANS holds the pointers and columns of the means inside them and one row a label; `Predictions` holds the
    # candidates among the labels, `Features` the columns of the rows.
    row_starts, row_columns, row_values = rows
    starts, columns, values = means
    dense = np.zeros(features, dtype=np.float32)
    for row in range(begin, end):
        first, last = row_starts[row], row_starts[row + 1]
        for entry in range(first, last):
            dense[row_columns[entry]] = row_values[entry]
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
            else:  # the mean of a common label has most words: search the few words of the row in it
                mean = columns[low:high]
                for entry in range(first, last):
                    spot = np.searchsorted(mean, row_columns[entry])
                    if spot < len(mean) and mean[spot] == row_columns[entry]:
                        product += np.float64(values[low + spot]) * np.float64(row_values[entry])
            found[row, place] = squares[label] + 1.0 - 2.0 * product
        for entry in range(first, last):
            dense[row_columns[entry]] = 0
