"""What one recipe finds that another does not: labels won and lost between any two, each with a document."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import permutations
from typing import Any

import numpy as np

from longtail.arrays import Longs
from longtail.data.corpus import Corpus
from longtail.drawing.markup import Safe, tag
from longtail.drawing.words import clean, cut
from longtail.metrics.frequency import BANDS
from longtail.report.example_documents import as_script
from longtail.report.findings import Findings
from longtail.report.result import Result
from longtail.report.sections import section

ENTRIES = 800  # labels of all pairs together; the page must stay small
MOST, FEWEST = 12, 2  # labels of one pair
TEXT_LENGTH, LABEL_LENGTH = 140, 80
SAVE = "Save the data of won-and-lost"  # the script fills the link, too


def versus_section(results: Sequence[Result], corpus: Corpus, findings: Findings) -> Safe | None:
    """The section: two lists to choose from, which the page's script fills from JSON.

    Args:
        results: a result per recipe.
        corpus: the data that they were measured on.
        findings: hits of the top 5 of each recipe.

    Returns:
        The section; None with one recipe.
    """
    if len(results) < 2 or not findings.wanted.any():
        return None
    options = [[tag("option", one.recipe, value=number) for number, one in enumerate(results)] for _ in range(2)]
    written = json.dumps(describe(results, corpus, findings), ensure_ascii=False, separators=(",", ":"))
    return section(
        "versus",
        "What one finds that the other does not",
        tag(
            "p",
            "Labels that are right in the top 5 of at least one test document with one recipe, and never with the "
            "other. The labels with the most hits are listed, each with a document. ",
            tag("a", "CSV", id="versus-csv", download="won-and-lost.csv", class_="csv", aria_label=SAVE),
            class_="lead",
        ),
        tag(
            "form",
            tag("label", tag("span", "First recipe"), tag("select", *options[0], id="versus-first")),
            tag("label", tag("span", "Second recipe"), tag("select", *options[1], id="versus-second")),
            id="versus-controls",
        ),
        tag("div", id="versus-lists", class_="pair even", aria_live="polite"),
        tag("script", Safe(as_script(written)), type="application/json", id="versus-data"),
        tag("noscript", tag("p", "This section needs JavaScript.")),
    )


def describe(results: Sequence[Result], corpus: Corpus, findings: Findings) -> dict[str, Any]:
    """The labels won by each recipe against each other one.

    Args:
        results: a result per recipe.
        corpus: the data that they were measured on.
        findings: hits of the top 5 of each recipe.

    Returns:
        `pairs["0-1"]` has, for what recipe 0 finds and 1 does not, the number of labels by band and a list of
        [label, hits, document]; labels and documents are numbers of the lists beside.
    """
    recipes = range(len(results))
    each = max(FEWEST, min(MOST, ENTRIES // max(len(recipes) * (len(recipes) - 1), 1)))
    hits, example = zip(*(_hits(findings, number) for number in recipes), strict=True)
    labels: dict[int, int] = {}
    rows: dict[int, int] = {}
    pairs = {}
    for one, other in permutations(recipes, 2):
        won = findings.found[one] & ~findings.found[other]
        members = np.flatnonzero(won)
        order = np.lexsort((corpus.labels.counts[members], -hits[one][members]))
        pairs[f"{one}-{other}"] = {
            "bands": findings.per_band(won).tolist(),
            "labels": [
                [
                    labels.setdefault(label, len(labels)),
                    int(hits[one][label]),
                    rows.setdefault(int(example[one][label]), len(rows)),
                ]
                for label in members[order][:each].tolist()
            ],
        }
    test = corpus.test
    return {
        "bands": list(BANDS),
        "labels": [
            [clean(cut(corpus.labels.word(label), LABEL_LENGTH)), int(findings.band[label])] for label in labels
        ],
        "rows": [
            [
                clean(cut(test.ids[row], LABEL_LENGTH)),
                clean(cut("" if test.texts is None else test.texts[row], TEXT_LENGTH)),
            ]
            for row in rows
        ],
        "pairs": pairs,
    }


def _hits(findings: Findings, number: int) -> tuple[Longs, Longs]:
    """(labels,) hits of each label, and the first document with one."""
    top, hit = findings.tops[number], findings.hits[number]
    labels = len(findings.band)
    row_of = np.broadcast_to(np.arange(len(top))[:, None], top.shape)[hit]
    first = np.full(labels, -1, dtype=np.int64)
    first[top[hit][::-1]] = row_of[::-1]  # the last one written is the first document
    return np.bincount(top[hit], minlength=labels).astype(np.int64), first
