"""The result of an evaluation: measures in percent, and the part of each frequency bin."""

from __future__ import annotations

from collections.abc import Iterator, KeysView
from dataclasses import dataclass, field

from longtail.data.labels import Propensity


@dataclass(frozen=True)
class Bin:
    """Labels of similar training frequency and their part of precision."""

    name: str  # "1" (most frequent) ... "5", or "zero-shot"
    low: int  # smallest training count in the bin
    high: int  # largest training count in the bin
    labels: int  # labels in the bin
    positives: int  # true (row, label) pairs of the test split in the bin
    contribution: float  # points of P@k from hits on these labels; the bins add up to P@k
    recall: float  # share of the bin's positives found in the top k, in percent
    coverage: float  # share of the bin's labels with a test positive that are hit at least once, in percent


@dataclass(frozen=True)
class Measures:
    """Measures of one set of predictions, in percent, keyed "P@1", "PSP@5", "C@3", "macroF1@5" ...

    `measures["P@1"]` is one of them, `dict(measures)` all of them.
    """

    values: dict[str, float]
    bins: tuple[Bin, ...]
    bins_at: int  # the k of the bins
    propensity: Propensity  # the A and B behind PSP and PSnDCG
    rows: int
    notes: tuple[str, ...] = field(default=())

    def __getitem__(self, name: str) -> float:
        return self.values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.values)

    def __len__(self) -> int:
        return len(self.values)

    def keys(self) -> KeysView[str]:
        """List the names of the measures, for `dict(measures)`.

        Returns:
            The names.
        """
        return self.values.keys()
