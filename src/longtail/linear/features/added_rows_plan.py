"""What the examples that a tail method adds do to a plan. Every method that adds some says in its plan how many."""

from __future__ import annotations

from longtail.plan import DataFacts, Plan

ENTRY = 24  # bytes of a target while it is joined to the others: as made, as joined, and once more as a copy
WORD = 16  # bytes of a row's word
ROW = 400  # bytes of a row's text, id and starts


def more_rows(
    before: Plan,
    facts: DataFacts,
    rows: float,
    positives: float,
    words_each: float,
    *,
    instead: bool = False,
    seconds: float = 0.0,
    scratch: float = 0.0,
) -> Plan:
    """The plan of a learner after rows were added to its training data.

    Args:
        before: the plan without them.
        facts: sizes of the data without them.
        rows: how many are added.
        positives: how many targets they have.
        words_each: words of an added row.
        instead: they replace the training rows.
        seconds: time to make them.
        scratch: bytes to make them, free again when training begins.

    Returns:
        The plan with them.
    """
    kept = 0 if instead else facts.rows
    growth = (kept + rows) / max(facts.rows, 1)
    added = int(ROW * rows + ENTRY * positives + WORD * rows * words_each)
    return Plan(
        train_bytes=max(before.train_bytes + added, int(scratch) + added),
        model_bytes=before.model_bytes,
        train_seconds=before.train_seconds * growth + seconds,
        predict_seconds=before.predict_seconds,
        steps=(*before.steps, ("added examples", added), *((("their targets", int(scratch)),) if scratch else ())),
    )
