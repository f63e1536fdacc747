"""Metrics: how good predictions are, and for which labels.

Start reading at `evaluate.py`, which defines every measure. Files:

- `evaluate.py`: P, R, F1, MRR, nDCG, PSP, PSnDCG, coverage, macro averages, ECE, and the part of each frequency bin
- `measures.py`: the result types `Measures` and `Bin`
- `tally.py`, `kernels.py`: one parallel pass over the predictions, from which all measures are computed (Numba)
- `weighted_top.py`: the best places of predictions under a weight for each label, for the curve of the dial
- `propensity.py`: inverse propensities; `frequency.py`: bins and bands of labels by training count
- `threshold.py`: predicting every label above a score instead of the top k
- `curves.py`, `calibration.py`: bins for calibration curves, and the calibration of a teacher
- `norms.py`: norms of classifier rows by label frequency; `bounds.py`: the generalisation bounds of LEVER

May import `cutoff`, `data`, `predictions`, `threads`, `arrays` and `errors`; importing this package loads no Numba.
"""

from longtail.metrics.evaluate import evaluate
from longtail.metrics.frequency import BANDS, bands, equi_volume_bins, pos80
from longtail.metrics.measures import Bin, Measures
from longtail.metrics.propensity import inverse_propensity
from longtail.metrics.threshold import AtThreshold, at_threshold, best_threshold, choose_cutoff, threshold_of_precision

__all__ = [
    "BANDS",
    "AtThreshold",
    "Bin",
    "Measures",
    "at_threshold",
    "bands",
    "best_threshold",
    "choose_cutoff",
    "equi_volume_bins",
    "evaluate",
    "inverse_propensity",
    "pos80",
    "threshold_of_precision",
]
