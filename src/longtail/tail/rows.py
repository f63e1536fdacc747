"""Label texts as training rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from longtail.data.dataset import Dataset
from longtail.data.label_rows import labels_with_input, own_targets, with_label_rows
from longtail.linear.row_plan import more_rows
from longtail.plan import Facts, Plan


@dataclass(frozen=True)
class LabelRows:
    """Add every label's text as a training row whose only label is itself.

    A label that few rows have gets one that says what it is about, and one that none has gets its only row.

    Paper: the self-annotation of Dahiya et al., SiameseXML (ICML 2021); Z^1 of Kharbanda et al., Gandalf (KDD 2024).
    Needs: label texts, or label features over the columns of the rows; labels without any get no row. Goes on every
    learner.
    Costs: training of rows + labels instead of rows. Predicting costs what it did.
    Prefer instead: `gandalf`, where labels that stand together are alike; this is the control that it has to beat.
    Example: longtail compare wordnet "parabel" "parabel + rows"
    """

    summary: ClassVar[str] = "label texts as training rows, each labelled with itself"
    needs: ClassVar[frozenset[str]] = frozenset()
    data_needs: ClassVar[frozenset[str]] = frozenset({"label_texts"})

    def augment(self, train: Dataset) -> Dataset:
        labels = labels_with_input(train, "rows")
        return with_label_rows(train, labels, own_targets(labels, len(train.labels)), "rows")

    def plan_on(self, before: Plan, facts: Facts) -> Plan:
        return more_rows(before, facts, facts.labels, facts.labels, facts.terms_per_label)
