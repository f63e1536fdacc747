"""Test documents for the page: a fixed mix of those where recipes differ, those with hits on the tail, and others."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from longtail.arrays import Bools, Longs
from longtail.data.corpus import Corpus
from longtail.drawing.words import clean, cut
from longtail.metrics.frequency import BANDS
from longtail.report.findings import PLACES, RARE, Findings
from longtail.report.result import Result

EXAMPLES = 200
TEXT_LENGTH = 400
LABEL_LENGTH = 120
TRUE_LABELS = 30  # shown of one document; the others are only counted
_MIX = (0.3, 0.25, 0.2, 0.25)  # shares: differ on the tail, differ, agree on the tail, others


def choose(differ: Bools, tail: Bools, number: int) -> Longs:
    """Chooses the documents of the mix, evenly spaced over the split and interleaved, so that any prefix is mixed too.

    Args:
        differ: (rows,) the recipes find different true labels.
        tail: (rows,) a recipe finds a rare label.
        number: how many to choose.

    Returns:
        At most `number` rows of the test split.
    """
    kinds = [differ & tail, differ & ~tail, ~differ & tail, ~differ & ~tail]
    chosen: list[tuple[float, int]] = []
    left = np.ones(len(differ), dtype=np.bool_)
    for kind, part in zip(kinds, _MIX, strict=True):
        chosen += _spaced(kind, int(number * part))
    left[[row for _, row in chosen]] = False
    chosen += _spaced(left, number - len(chosen))
    return np.array([row for _, row in sorted(chosen)], dtype=np.int64)


def differing(findings: Findings) -> Bools:
    """Marks the documents for which the recipes find different true labels.

    Args:
        findings: hits of the top 5 of each recipe.

    Returns:
        (rows,) of the test split.
    """
    found = []
    for top, hit in zip(findings.tops, findings.hits, strict=True):
        labels = np.full((len(top), PLACES), -1, dtype=np.int32)  # a recipe may return fewer labels
        labels[:, : top.shape[1]] = np.where(hit, top, -1)
        found.append(np.sort(labels, axis=1))
    differ = np.zeros(len(found[0]), dtype=np.bool_)
    for other in found[1:]:
        differ |= (other != found[0]).any(axis=1)
    return differ


def on_the_tail(findings: Findings) -> Bools:
    """Marks the documents for which a recipe finds a tail label or one never seen in training.

    Args:
        findings: hits of the top 5 of each recipe.

    Returns:
        (rows,) of the test split.
    """
    rare = np.append(findings.rare, False)  # -1, no label, is not rare
    tail = np.zeros(len(findings.hits[0]), dtype=np.bool_)
    for top, hit in zip(findings.tops, findings.hits, strict=True):
        tail |= (hit & rare[top]).any(axis=1)
    return tail


def payload(results: Sequence[Result], corpus: Corpus, findings: Findings, budget: int) -> str:
    """Writes the examples as JSON that is safe inside a script element.

    Args:
        results: a result per recipe.
        corpus: the data that they were measured on.
        findings: hits of the top 5 of each recipe.
        budget: the most bytes that the JSON may take; examples are left out until it fits.

    Returns:
        The JSON.
    """
    differ, tail = differing(findings), on_the_tail(findings)
    rows = choose(differ, tail, EXAMPLES).tolist()
    while True:
        encoded = _encode(_describe(rows, results, corpus, findings, differ, tail))
        if not rows or len(encoded.encode("utf-8")) <= budget:
            return encoded
        rows = rows[: int(len(rows) * 0.85)]


def _describe(
    rows: list[int],
    results: Sequence[Result],
    corpus: Corpus,
    findings: Findings,
    differ: Bools,
    tail: Bools,
) -> dict[str, Any]:
    """The examples as JSON values. Each label is written once and referred to by number, because labels recur."""
    number_of: dict[int, int] = {}

    def reference(label: int) -> int:
        return number_of.setdefault(label, len(number_of))

    test, counts = corpus.test, corpus.labels.counts
    described = []
    for row in rows:
        true = test.targets.indices[test.targets.indptr[row] : test.targets.indptr[row + 1]]
        by_count = true[np.argsort(-counts[true], kind="stable")].tolist()
        shown = by_count if len(by_count) <= TRUE_LABELS else by_count[: TRUE_LABELS - 10] + by_count[-10:]
        text = "" if test.texts is None else test.texts[row]
        described.append(
            {
                "id": clean(cut(test.ids[row], LABEL_LENGTH)),
                "text": clean(cut(text, TEXT_LENGTH)),
                "true": [reference(label) for label in shown],
                "more": len(by_count) - len(shown),
                "differ": int(differ[row]),
                "tail": int(tail[row]),
                "top": [
                    [
                        [reference(label), int(hit)]
                        for label, hit in zip(top[row].tolist(), hits[row].tolist(), strict=True)
                        if label >= 0
                    ]
                    for top, hits in zip(findings.tops, findings.hits, strict=True)
                ],
            }
        )
    return {
        "bands": BANDS,
        "rare": RARE,
        "recipes": [clean(result.recipe) for result in results],
        "labels": [
            [clean(cut(corpus.labels.word(label), LABEL_LENGTH)), int(findings.band[label]), int(counts[label])]
            for label in number_of
        ],
        "rows": described,
    }


def _encode(data: dict[str, Any]) -> str:
    return as_script(json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False))


def as_script(written: str) -> str:
    """Escapes JSON for a script element, which ends at `</` whatever its type.

    Args:
        written: JSON.

    Returns:
        The same JSON without `<`, `>` and `&`.
    """
    return written.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _spaced(kind: Bools, number: int) -> list[tuple[float, int]]:
    """At most `number` rows of a kind, evenly spaced, each with its position among them from 0 to 1."""
    rows = np.flatnonzero(kind)
    number = min(max(number, 0), len(rows))
    picked = rows[(np.arange(number) * len(rows)) // max(number, 1)]
    return [(place / number, row) for place, row in enumerate(picked.tolist())]
