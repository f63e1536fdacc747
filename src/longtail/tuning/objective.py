"""What a search maximises: a sum of measures with weights, read and never evaluated as code.

P@1 + PSP@5
0.3 * P@1 + 0.7 * PSP@5 - 0.1 * ECE@5
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from longtail.errors import DataError, did_you_mean

MEASURES = ("P", "nDCG", "PSP", "PSnDCG", "R", "RP", "F1", "MRR", "C", "macroP", "macroR", "macroF1", "ECE")
LARGEST_K = 100
_MEASURE = r"(?P<measure>[A-Za-z]\w*)\s*@\s*(?P<k>\d+)"
_WEIGHT = r"(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
_TERM = re.compile(
    rf"\s*(?P<sign>[+-])?\s*(?:(?P<before>{_WEIGHT})\s*\*\s*)?{_MEASURE}(?:\s*\*\s*(?P<after>{_WEIGHT}))?\s*"
)


@dataclass(frozen=True)
class Objective:
    """A weighted sum of measures, in percent."""

    text: str  # as typed
    weights: tuple[tuple[str, float], ...]  # measure, weight

    @classmethod
    def parse(cls, text: str) -> Objective:
        """Read an objective.

        Args:
            text: measures, each with a number before or behind it and `*` between, joined by + and -.

        Returns:
            The objective.

        Raises:
            DataError: the text is no such sum, or a measure is unknown.
        """
        weights: dict[str, float] = {}
        place = 0
        while place < len(text) or not weights:
            term = _TERM.match(text, place)
            if term is None or (weights and not term["sign"]):
                raise DataError(
                    f"objective {text!r}, character {place + 1}: expected a measure; write a sum such as "
                    "'P@1 + PSP@5' or '0.3 * P@1 + 0.7 * PSP@5'"
                )
            name, k = term["measure"], int(term["k"])
            if name not in MEASURES:
                near = did_you_mean(name, MEASURES) or did_you_mean(name.lower(), map(str.lower, MEASURES))
                raise DataError(f"objective {text!r}: unknown measure {name!r}{near} (measures: {', '.join(MEASURES)})")
            if not 1 <= k <= LARGEST_K:
                raise DataError(f"objective {text!r}: k of {name}@{k} must be 1 to {LARGEST_K}")
            if term["before"] and term["after"]:
                raise DataError(f"objective {text!r}: {name}@{k} has two weights; give one")
            weight = float(term["before"] or term["after"] or 1) * (-1 if term["sign"] == "-" else 1)
            weights[f"{name}@{k}"] = weights.get(f"{name}@{k}", 0.0) + weight
            place = term.end()
        return cls(" ".join(text.split()), tuple(weights.items()))

    @cached_property
    def ks(self) -> tuple[int, ...]:
        """Each k at which a measure is needed."""
        return tuple(sorted({int(name.partition("@")[2]) for name, _ in self.weights}))

    def of(self, measures: Mapping[str, float]) -> float:
        """The value of the objective.

        Args:
            measures: in percent, by name.

        Returns:
            The weighted sum.

        Raises:
            DataError: a measure is missing.
        """
        for name, _ in self.weights:
            if name not in measures:
                why = "; the scores are no probabilities: add + calibrate to the recipe" if "ECE" in name else ""
                raise DataError(f"{name} was not measured{why}")
        return sum(weight * measures[name] for name, weight in self.weights)

    def near(self, measures: Mapping[str, float]) -> float | None:
        """The value that the measures of a learner's own validation allow: another k stands in for a missing one.

        Args:
            measures: in percent, by name; a learner validates at few k.

        Returns:
            The weighted sum; None where a measure has no stand-in.
        """
        total = 0.0
        for name, weight in self.weights:
            same = [found for found in measures if found.partition("@")[0] == name.partition("@")[0] and "@" in found]
            found = name if name in measures else next(iter(same), None)
            if found is None:
                return None
            total += weight * measures[found]
        return total
