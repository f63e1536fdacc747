"""How good predictions are, and for which labels: precision, propensity-scored, coverage, by frequency."""

from longtail.metrics.evaluate import evaluate
from longtail.metrics.frequency import BANDS, bands, equi_volume_bins, pos80
from longtail.metrics.measures import Bin, Measures
from longtail.metrics.propensity import inverse_propensity
from longtail.metrics.threshold import AtThreshold, at_threshold, best_threshold

__all__ = [
    "BANDS",
    "AtThreshold",
    "Bin",
    "Measures",
    "at_threshold",
    "bands",
    "best_threshold",
    "equi_volume_bins",
    "evaluate",
    "inverse_propensity",
    "pos80",
]
