"""The result of one recipe on one data set: everything that tables, figures and `--json` need."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

import numpy as np

from longtail.arrays import Floats
from longtail.dial import DialPoint
from longtail.metrics.calibration import Teaching
from longtail.metrics.measures import Bin, Measures
from longtail.metrics.norms import NormBin, norm_bins
from longtail.metrics.significance import Difference, Interval
from longtail.predictions import Predictions

COSTS = ("train_seconds", "predict_seconds", "peak_bytes", "model_bytes")
BIN_FIGURES = ("contribution", "recall", "coverage")
NORM_FIGURES = ("mean", "lowest", "highest")


@dataclass(frozen=True)
class SharedStage:
    """Training time that a recipe did not spend, because another one had trained the same stage."""

    recipe: str  # the one that trained it
    seconds: float


@dataclass(frozen=True, eq=False)
class Result:
    """A recipe, how well it does on the test split, and what it costs. With several seeds, means over them."""

    recipe: str
    measures: Measures
    predictions: Predictions  # of the test split by the first seed, at least the top 5
    train_seconds: float  # NaN for a saved model
    predict_seconds: float
    peak_bytes: int
    model_bytes: int
    row_norms: Floats | None = None  # (labels,) norm of each label's classifier, where the recipe has classifiers
    teaching: Teaching | None = None  # how good its teacher was, where it has one
    uncalibrated: Measures | None = None  # of the same model without `calibrate`, where the recipe ends with it
    dial: tuple[DialPoint, ...] = ()  # measures as the dial turns, where scores are probabilities
    uncalibrated_predictions: Predictions | None = None
    seeds: tuple[int, ...] = (0,)
    runs: tuple[Result, ...] = ()  # one a seed, where there are several
    shared: tuple[SharedStage, ...] = ()  # training time that another recipe of the comparison spent; in train_seconds
    notes: tuple[str, ...] = ()
    intervals: dict[str, Interval] = field(default_factory=dict)  # of measures, over documents or labels
    against_first: dict[str, Difference] = field(default_factory=dict)  # minus the first recipe; empty for the first
    clean: Measures | None = None  # on the documents without a problem, where more than 1% have one

    def deviation(self, name: str) -> float:
        """How much a figure varies over seeds.

        Args:
            name: of a measure, or of a cost such as `train_seconds`.

        Returns:
            The standard deviation over seeds (n - 1); NaN with one seed.
        """
        return deviation([_figure(run, name) for run in self.runs])

    def bin_deviation(self, bin_name: str, figure: str) -> float:
        """How much a figure of a frequency bin varies over seeds.

        Args:
            bin_name: of the bin.
            figure: contribution, recall or coverage.

        Returns:
            The standard deviation over seeds (n - 1); NaN with one seed.
        """
        return deviation(
            [getattr(one, figure) for run in self.runs for one in run.measures.bins if one.name == bin_name]
        )

    def dial_deviation(self, place: int, name: str) -> float:
        """How much a measure varies over seeds at a setting of the dial.

        Args:
            place: of the setting in `dial`.
            name: of the measure.

        Returns:
            The standard deviation over seeds (n - 1); NaN with one seed.
        """
        return deviation([run.dial[place].values[name] for run in self.runs if len(run.dial) == len(self.dial)])

    @property
    def all_predictions(self) -> tuple[Predictions, ...]:
        """Of the test split, by each seed."""
        return tuple(run.predictions for run in self.runs) or (self.predictions,)

    def as_json(self) -> dict[str, Any]:
        """Plain data for `--json`.

        Returns:
            Measures in percent, None where a measure has no value; costs; bins by label frequency.
        """
        names = [*self.measures.values, *COSTS]
        return {
            "recipe": self.recipe,
            **{name: finite(value) for name, value in self.measures.values.items()},
            "train_seconds": finite(float(self.train_seconds)),
            "predict_seconds": finite(float(self.predict_seconds)),
            "peak_bytes": int(self.peak_bytes),
            "model_bytes": int(self.model_bytes),
            "rows": self.measures.rows,
            "seeds": list(self.seeds),
            "deviations": {name: finite(self.deviation(name)) for name in names} if self.runs else None,
            "runs": [
                {"seed": run.seeds[0], **{name: finite(_figure(run, name)) for name in names}}
                for run in (self.runs or (self,))
            ],
            "intervals": {name: [finite(one.low), finite(one.high)] for name, one in self.intervals.items()},
            "against_first": {name: asdict(one) for name, one in self.against_first.items()},
            "shared": [asdict(one) for one in self.shared],
            "notes": [*self.notes, *self.measures.notes],
            "clean": None
            if self.clean is None
            else {"rows": self.clean.rows, **{name: finite(value) for name, value in self.clean.values.items()}},
            "propensity": {"a": self.measures.propensity.a, "b": self.measures.propensity.b},
            "bins": [{key: finite(value) for key, value in asdict(bin).items()} for bin in self.measures.bins],
            "dial": [{"dial": point.dial, **point.values} for point in self.dial],
            "uncalibrated": None if self.uncalibrated is None else _errors(self.uncalibrated),
            "teaching": None if self.teaching is None else asdict(self.teaching),
            "row_norms": None if self.row_norms is None else [asdict(one) for one in self.norm_bins()],
        }

    def norm_bins(self) -> tuple[NormBin, ...]:
        """Norms of classifiers by label frequency.

        Returns:
            Bins, the rarest labels first, with means over the seeds; none where the recipe has no classifiers.
        """
        several = self._norm_bins_of_seeds()
        return tuple(
            replace(same[0], **{name: float(np.mean([getattr(one, name) for one in same])) for name in NORM_FIGURES})
            for same in zip(*several, strict=True)
        )

    def norm_deviations(self) -> tuple[float, ...]:
        """How much the mean norm of each bin of `norm_bins` varies over seeds.

        Returns:
            The standard deviations over seeds (n - 1); NaN with one seed.
        """
        return tuple(deviation([one.mean for one in same]) for same in zip(*self._norm_bins_of_seeds(), strict=True))

    def _norm_bins_of_seeds(self) -> list[tuple[NormBin, ...]]:
        """The bins of each seed, or of the first one where seeds have classifiers for different labels."""
        several = [
            norm_bins(run.row_norms, run.predictions.labels.counts)
            for run in self.runs or (self,)
            if run.row_norms is not None
        ]
        sizes = [[(one.low, one.high, one.labels) for one in bins] for bins in several]
        return several if all(one == sizes[0] for one in sizes) else several[:1]


def deviation(values: Sequence[float]) -> float:
    """How much values vary.

    Args:
        values: one a seed.

    Returns:
        Their standard deviation (n - 1); NaN for fewer than two.
    """
    return float(np.std(values, ddof=1)) if len(values) > 1 else math.nan


def joined(runs: Sequence[Result]) -> Result:
    """Join the results of one recipe with several seeds.

    Args:
        runs: one a seed.

    Returns:
        Means over the seeds; what cannot be averaged, such as predictions, is that of the first.
    """
    first = runs[0]
    if len(runs) == 1:
        return first
    shared: dict[str, float] = {}
    for one in (one for run in runs for one in run.shared):
        shared[one.recipe] = shared.get(one.recipe, 0.0) + one.seconds / len(runs)
    dials = [run.dial for run in runs if len(run.dial) == len(first.dial)]
    before = [run.uncalibrated for run in runs if run.uncalibrated is not None]
    return replace(
        first,
        measures=mean_measures([run.measures for run in runs]),
        uncalibrated=mean_measures(before) if len(before) == len(runs) else None,
        train_seconds=float(np.mean([run.train_seconds for run in runs])),
        predict_seconds=float(np.mean([run.predict_seconds for run in runs])),
        dial=tuple(_mean_point(points) for points in zip(*dials, strict=True)) if len(dials) == len(runs) else (),
        peak_bytes=max(run.peak_bytes for run in runs),
        model_bytes=int(np.mean([run.model_bytes for run in runs])),
        seeds=tuple(run.seeds[0] for run in runs),
        runs=tuple(runs),
        shared=tuple(SharedStage(recipe, seconds) for recipe, seconds in shared.items()),
        notes=tuple(dict.fromkeys(note for run in runs for note in run.notes)),
    )


def mean_measures(several: Sequence[Measures]) -> Measures:
    """Average measures, and the figures of bins.

    Args:
        several: of the same documents.

    Returns:
        Their means; notes of all.
    """
    first = several[0]
    # With one seed scores may lie in [0, 1] by chance and have an ECE, with another not.
    names = [name for name in first.values if all(name in one.values for one in several)]
    values = {name: float(np.mean([one.values[name] for one in several])) for name in names}
    bins = []
    for number, one in enumerate(first.bins):
        means = {name: float(np.mean([other.bins[number].__dict__[name] for other in several])) for name in BIN_FIGURES}
        bins.append(Bin(**{**{part.name: getattr(one, part.name) for part in fields(Bin)}, **means}))
    notes = tuple(dict.fromkeys(note for one in several for note in one.notes))
    return replace(first, values=values, bins=tuple(bins), notes=notes)


def _mean_point(points: Sequence[DialPoint]) -> DialPoint:
    names = points[0].values
    return replace(points[0], values={name: float(np.mean([one.values[name] for one in points])) for name in names})


def _figure(run: Result, name: str) -> float:
    return float(getattr(run, name)) if name in COSTS else run.measures.values.get(name, math.nan)


def _errors(measures: Measures) -> dict[str, Any]:
    return {name: finite(value) for name, value in measures.values.items() if name.startswith("ECE@")}


def finite(value: Any) -> Any:
    """A value for JSON, which has no NaN.

    Args:
        value: text, a number, or a number of NumPy.

    Returns:
        The same; None for a number that is not finite.
    """
    if value is None or isinstance(value, str):
        return value
    number = value.item() if hasattr(value, "item") else value
    return number if math.isfinite(number) else None
