"""Label texts as training examples."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from longtail.data.dataset import Dataset
from longtail.data.label_rows import labels_with_input, own_targets, with_label_rows
from longtail.linear.features.added_rows_plan import more_rows
from longtail.papers import GANDALF, RENEE, SIAMESEXML, Paper
from longtail.plan import DataFacts, Plan


@dataclass(frozen=True)
class LabelRows:
    """Add every label's text as a training example whose only label is itself.

    A rare label gets an example that says what it is about; for a label that no document has, it is the only one.

    Published form: the self-annotation of SiameseXML; Z^1 of Gandalf.
    Needs: label texts, or label features over the columns of the documents' features; a label without either adds no
    example. Goes on every learner.
    Costs: one more training example for each label. Predicting costs what it did.
    Prefer instead: `gandalf`, where labels that co-occur are alike; this is the control that it has to beat.
    Example: longtail compare wordnet "parabel" "parabel + rows"
    """

    summary: ClassVar[str] = "label texts as training examples, each labelled with itself"
    papers: ClassVar[tuple[Paper, ...]] = (
        RENEE,
        SIAMESEXML,
        GANDALF,
    )
    needs: ClassVar[frozenset[str]] = frozenset()
    data_needs: ClassVar[frozenset[str]] = frozenset({"label_texts"})

    def augment(self, train: Dataset) -> Dataset:
        """See `Augments.augment`."""
        labels = labels_with_input(train, "rows")
        return with_label_rows(train, labels, own_targets(labels, len(train.labels)), "rows")

    def plan_on(self, before: Plan, facts: DataFacts) -> Plan:
        """See `AddsCost.plan_on`."""
        return more_rows(before, facts, facts.labels, facts.labels, facts.terms_per_label)
