"""What an evaluation returns: numbers in percent, and where by label frequency they come from."""

from __future__ import annotations

from dataclasses import dataclass, field

from longtail.data.labels import Propensity


@dataclass(frozen=True)
class Bin:
    """Labels of similar training frequency and their part of precision."""

    name: str  # "1" (most frequent) ... "5", or "zero-shot"
    low: int  # least training count in the bin
    high: int  # largest training count in the bin
    labels: int  # labels in the bin
    positives: int  # true (row, label) pairs of the test split in the bin
    contribution: float  # points of P@k that hits on these labels bring; the bins add up to P@k
    recall: float  # share of the bin's positives found in the top k, in percent
    coverage: float  # share of the bin's labels with a test positive that are hit at least once, in percent


@dataclass(frozen=True)
class Measures:
    """Measures of one set of predictions, in percent, keyed "P@1", "PSP@5", "C@3", "macroF1@5" ..."""

    values: dict[str, float]
    bins: tuple[Bin, ...]
    bins_at: int  # the k of the bins
    propensity: Propensity  # the A and B behind PSP and PSnDCG
    rows: int
    notes: tuple[str, ...] = field(default=())

    def __getitem__(self, name: str) -> float:
        return self.values[name]
