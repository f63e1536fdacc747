"""What rows that a tail method adds do to a plan."""

from __future__ import annotations

from longtail.plan import Facts, Plan

ENTRY = 24  # bytes of a target while it is joined to the others: as made, as joined, and once more as a copy
WORD = 16  # bytes of a row's word
ROW = 400  # bytes of a row's text, id and starts


def more_rows(
    before: Plan,
    facts: Facts,
    rows: float,
    positives: float,
    words_each: float,
    *,
    instead: bool = False,
    seconds: float = 0.0,
    scratch: float = 0.0,
) -> Plan:
    """The plan with so many more rows, or that many `instead` of those given. Making them takes `seconds`, and
    `scratch` bytes that are free again when training begins."""
    kept = 0 if instead else facts.rows
    growth = (kept + rows) / max(facts.rows, 1)
    added = int(ROW * rows + ENTRY * positives + WORD * rows * words_each)
    return Plan(
        train_bytes=max(before.train_bytes + added, int(scratch) + added),
        model_bytes=before.model_bytes,
        train_seconds=before.train_seconds * growth + seconds,
        predict_seconds=before.predict_seconds,
        steps=(*before.steps, ("rows added", added), *((("their targets", int(scratch)),) if scratch else ())),
    )
