"""How good predictions are, and for which labels: precision, propensity-scored, coverage, by frequency."""

from longtail.metrics.evaluate import evaluate
from longtail.metrics.frequency import BANDS, bands, equi_volume_bins, pos80
from longtail.metrics.measures import Bin, Measures
from longtail.metrics.propensity import inverse_propensity

__all__ = ["BANDS", "Bin", "Measures", "bands", "equi_volume_bins", "evaluate", "inverse_propensity", "pos80"]
