"""What one recipe did on one data set: everything a table, a figure or a machine asks for."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

from longtail.arrays import Floats
from longtail.metrics.calibration import Teaching
from longtail.metrics.measures import Measures
from longtail.metrics.norms import NormBin, norm_bins
from longtail.predictions import Predictions


@dataclass(frozen=True, eq=False)
class Result:
    """A recipe, how well it did on the test split, and what it cost."""

    recipe: str
    measures: Measures
    predictions: Predictions  # of the test split, at least the top 5
    train_seconds: float
    predict_seconds: float
    peak_bytes: int
    model_bytes: int
    row_norms: Floats | None = None  # (labels,) lengths of the classifier rows, where the recipe has them
    teaching: Teaching | None = None  # what its teacher was worth, where it has one
    uncalibrated: Measures | None = None  # of the same model before `calibrate`, where the recipe ends with it

    def as_json(self) -> dict[str, Any]:
        """Plain data for `--json`: measures in percent, null where a measure has no value."""
        return {
            "recipe": self.recipe,
            **{name: _finite(value) for name, value in self.measures.values.items()},
            "train_seconds": float(self.train_seconds),
            "predict_seconds": float(self.predict_seconds),
            "peak_bytes": int(self.peak_bytes),
            "model_bytes": int(self.model_bytes),
            "propensity": {"a": self.measures.propensity.a, "b": self.measures.propensity.b},
            "bins": [{key: _finite(value) for key, value in asdict(bin).items()} for bin in self.measures.bins],
            "uncalibrated": None if self.uncalibrated is None else _errors(self.uncalibrated),
            "teaching": None if self.teaching is None else asdict(self.teaching),
            "row_norms": None if self.row_norms is None else [asdict(one) for one in self.norm_bins()],
        }

    def norm_bins(self) -> tuple[NormBin, ...]:
        """How long the classifier rows are, by label frequency; none where the recipe has no such rows."""
        return () if self.row_norms is None else norm_bins(self.row_norms, self.predictions.labels.counts)


def _errors(measures: Measures) -> dict[str, Any]:
    return {name: _finite(value) for name, value in measures.values.items() if name.startswith("ECE@")}


def _finite(value: Any) -> Any:
    """JSON has no NaN."""
    if isinstance(value, str):
        return value
    number = value.item() if hasattr(value, "item") else value
    return number if math.isfinite(number) else None
