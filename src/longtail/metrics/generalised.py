"""Labels with and without training rows, measured apart: generalised zero-shot learning."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from longtail.data.dataset import Dataset
from longtail.metrics.evaluate import evaluate
from longtail.metrics.measures import Measures
from longtail.predictions import Predictions


def with_unseen(measures: Measures, predictions: Predictions, data: Dataset, ks: Sequence[int]) -> Measures:
    """Adds S@k, U@k and H@k, for data some of whose labels were held out.

    S@k: of a row's true labels with training rows, those in its top k, over the most that could be there; the mean over
    rows that have such labels. U@k: the same of labels without training rows. Both kinds stand in one ranking, so that
    a method which never ranks an unseen label has U = 0. H@k: the harmonic mean of both.

    Args:
        measures: of the predictions.
        predictions: of the rows of `data`, in the same order.
        data: the rows with their targets.
        ks: each k at which to measure.

    Returns:
        The measures with the new ones, in percent.
    """
    unseen = data.labels.counts == 0
    hits = predictions.without(data.excluded).hits(data.targets)
    indices = predictions.without(data.excluded).indices
    rows = np.repeat(np.arange(len(data)), np.diff(data.targets.indptr))
    values = dict(measures.values)
    for k in ks:
        shares = {}
        for name, kind in (("S", ~unseen), ("U", unseen)):
            true = np.bincount(rows[kind[data.targets.indices]], minlength=len(data))
            found = (hits[:, :k] & kind[indices[:, :k]]).sum(axis=1)
            asked = true > 0
            shares[name] = float((found[asked] / np.minimum(true[asked], k)).mean()) if asked.any() else 0.0
        both = shares["S"] + shares["U"]
        shares["H"] = 2 * shares["S"] * shares["U"] / both if both else 0.0
        values |= {f"{name}@{k}": 100.0 * share for name, share in shares.items()}
    return replace(measures, values=values)


def evaluate_split(predictions: Predictions, data: Dataset, ks: Sequence[int], held_out_labels: int) -> Measures:
    """Compute the measures of a split, with those of held-out labels where the data set has any.

    Args:
        predictions: of the rows of `data`, in the same order.
        data: the rows with their targets.
        ks: each k at which to measure.
        held_out_labels: labels that the data set holds out of training.

    Returns:
        The measures.
    """
    measures = evaluate(predictions, data, ks=tuple(ks))
    return with_unseen(measures, predictions, data, ks) if held_out_labels else measures
