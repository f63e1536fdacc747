"""Score fusion, learned on held-out rows: how much a label's text, classifier and frequency count."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from longtail.arrays import AnyArray, Bools, Floats
from longtail.linear.solvers.platt_scaling import MIN_HITS, logistic


@dataclass(frozen=True)
class ScoreFusion:
    """Log odds = text x cosine to the label's text + classifier x cosine to its classifier + frequency x ln(1 + n) +
    a constant, with n the label's training rows.

    It is linear in the row's vector, so the two vectors of a label fold into one: the model saves and searches no more
    than one vector per label.
    """

    text: float
    classifier: float = 0.0
    frequency: float = 0.0

    @classmethod
    def fit(cls, texts: Floats, classifiers: Floats | None, log_counts: Floats, hits: Bools) -> ScoreFusion | None:
        """The weights that fit candidates of held-out rows best. Weights of cosines are never negative.

        Args:
            texts: (candidates,) cosines to the labels' texts.
            classifiers: (candidates,) cosines to their classifiers, where there are any.
            log_counts: (candidates,) ln(1 + n).
            hits: (candidates,) whether each is right.

        Returns:
            The weights; None where there are too few hits.
        """
        if hits.sum() < MIN_HITS or hits.all():
            return None
        columns = {"text": texts, "frequency": log_counts}
        if classifiers is not None:
            columns["classifier"] = classifiers
        while True:
            weights = dict(zip(columns, logistic([*columns.values()], hits).tolist(), strict=False))
            negative = [name for name in ("text", "classifier") if weights.get(name, 0.0) < 0]
            if not negative or len(columns) - len(negative) < 2:
                return cls(**({"text": 0.0} | {name: max(weights[name], 0.0) for name in columns}))
            del columns[min(negative, key=weights.__getitem__)]

    @property
    def text_norm(self) -> float:
        """The norm of a fused vector whose classifier equals its text: that of a label without a classifier."""
        return self.text + self.classifier

    def vectors(self, texts: Floats, classifiers: Floats | None) -> Floats:
        """One vector per label in place of two.

        Args:
            texts: (labels, dimension) unit vectors of the labels' texts.
            classifiers: (labels, dimension) unit vectors of their classifiers, where there are any.

        Returns:
            (labels, dimension) float32.
        """
        joined: AnyArray = np.float32(self.text) * texts
        if classifiers is not None:
            joined = joined + np.float32(self.classifier) * classifiers
        return joined.astype(np.float32, copy=False)
