"""Relevance judgements (qrels): TREC's four columns, or the three of BEIR with a header."""

from __future__ import annotations

import math
from pathlib import Path

from longtail.data.files import lines, shown
from longtail.errors import DataError, counted

Judgements = dict[str, dict[str, float]]  # relevance of passages, by query


def read_judgements(path: Path) -> tuple[Judgements, int]:
    """Reads relevant pairs; a relevance of 0 or less is not relevant.

    Args:
        path: lines `query 0 passage relevance`, or `query-id <tab> corpus-id <tab> score` after a header.

    Returns:
        Passages and their relevance by query, and how many lines are not relevant.

    Raises:
        DataError: a line is wrong, or none is relevant.
    """
    found: Judgements = {}
    others = 0
    for number, line in lines(path):
        fields = line.split("\t") if "\t" in line else line.split()
        fields = [field.strip() for field in fields]
        if not any(fields) or (number == 1 and fields[0] in ("query-id", "query_id", "qid")):
            continue
        if len(fields) not in (3, 4) or not fields[0] or not fields[-2]:
            raise DataError(
                f"{counted(len(fields), 'column')} instead of 4 (query, 0, passage, relevance) or 3", path, number
            )
        try:
            relevance = float(fields[-1])
        except ValueError:
            relevance = math.nan
        if not math.isfinite(relevance):
            raise DataError(f"the relevance is {shown(fields[-1])}, not a number", path, number)
        if relevance > 0:
            known = found.setdefault(fields[0], {})
            known[fields[-2]] = max(relevance, known.get(fields[-2], 0.0))
        else:
            others += 1
    if not found:
        raise DataError("has no relevant pair; check that it is a qrels file", path)
    return found, others
