"""Which of the ranked labels are predicted: those with at least a score, and at most so many.

A cutoff is chosen on valid, by words such as "f1" or "precision=0.9,labels=3", and stored in the model.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from longtail.errors import DataError

MANY = 100  # labels a document, where only the score decides


@dataclass(frozen=True)
class Cutoff:
    """A threshold, and the most labels of a document.

    Raises:
        DataError: the threshold is not finite, or no label may be predicted.
    """

    threshold: float
    most: int | None = None
    chosen: str = ""  # how: see `CutoffChoice`

    def __post_init__(self) -> None:
        if not math.isfinite(self.threshold) or (self.most is not None and self.most < 1):
            raise DataError(
                f"a cutoff has a finite threshold and at least one label, got {self.threshold}, {self.most}"
            )

    @property
    def k(self) -> int:
        """The most labels to ask for."""
        return self.most or MANY

    def as_json(self) -> dict[str, Any]:
        """The cutoff as JSON values."""
        most = {} if self.most is None else {"most": self.most}
        return {"threshold": self.threshold, **most, "chosen": self.chosen}

    @classmethod
    def of_json(cls, given: Mapping[str, Any]) -> Cutoff:
        """Reads a cutoff.

        Args:
            given: what `as_json` wrote.

        Returns:
            The cutoff.

        Raises:
            DataError: it is something else.
        """
        threshold, most, chosen = given.get("threshold"), given.get("most"), given.get("chosen", "")
        right = type(threshold) in (int, float) and (most is None or type(most) is int) and isinstance(chosen, str)
        if not right or not set(given) <= {"threshold", "most", "chosen"}:
            raise DataError("a cutoff has threshold, most and chosen, and no other values")
        return cls(float(threshold), most, chosen)  # type: ignore[arg-type]


@dataclass(frozen=True)
class CutoffChoice:
    """How a cutoff is chosen: the best F1, or the lowest threshold with a precision; perhaps at most so many labels.

    Raises:
        DataError: the precision is not above 0 to 1, or no label may be predicted.
    """

    precision: float | None = None  # none: the best F1
    most: int | None = None

    def __post_init__(self) -> None:
        if self.precision is not None and not 0 < self.precision <= 1:
            raise DataError(f"a precision is above 0 and at most 1, such as precision=0.9, got {self.precision:g}")
        if self.most is not None and not 1 <= self.most <= MANY:
            raise DataError(f"at most 1 to {MANY} labels of a document are chosen, such as labels=3, got {self.most}")

    def __str__(self) -> str:
        measure = "f1" if self.precision is None else f"precision={self.precision:g}"
        return measure if self.most is None else f"{measure},labels={self.most}"

    @classmethod
    def parse(cls, written: str) -> CutoffChoice:
        """Reads a choice.

        Args:
            written: "f1", "precision=0.9" or "labels=3", or two of them with a comma between.

        Returns:
            The choice.

        Raises:
            DataError: it is something else.
        """
        wrong = DataError(
            f"--choose-threshold takes f1, precision=0.9, labels=3, or two of them such as f1,labels=3, got {written!r}"
        )
        found: dict[str, str] = {}
        for word in written.split(","):
            name, _, value = (part.strip() for part in word.partition("="))
            if name not in ("f1", "precision", "labels") or name in found or (name == "f1") == bool(value):
                raise wrong
            found[name] = value
        if {"f1", "precision"} <= set(found):
            raise wrong
        try:
            precision = float(found["precision"]) if "precision" in found else None
            return cls(precision, int(found["labels"]) if "labels" in found else None)
        except ValueError:
            raise wrong from None
