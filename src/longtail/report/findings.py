"""What the predictions show beyond the measures: which labels are found, and which never come up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from longtail.arrays import Bools, Ints, Longs, Matrix
from longtail.data.corpus import Corpus
from longtail.metrics.frequency import BANDS, bands
from longtail.report import words
from longtail.report.markup import Safe, escape, join, tag
from longtail.report.result import Result

PLACES = 5
RARE = tuple(number for number, name in enumerate(BANDS) if name in ("tail", "unseen"))


@dataclass(frozen=True, eq=False)
class Findings:
    """Per recipe: hits of the top 5, labels predicted at all, labels hit. Computed once for the page."""

    band: Ints  # (labels,) which of BANDS
    wanted: Bools  # (labels,) has a test positive
    tops: tuple[Ints, ...]  # a recipe: (rows, places) the top 5 without excluded pairs, -1 = no label
    hits: tuple[Bools, ...]  # a recipe: (rows, places) which of them are true
    predicted: tuple[Bools, ...]  # a recipe: (labels,) in some row's top 5
    found: tuple[Bools, ...]  # a recipe: (labels,) rightly in some row's top 5

    def per_band(self, chosen: Bools) -> Longs:
        """How many of the chosen labels each band holds."""
        return np.bincount(self.band[chosen], minlength=len(BANDS)).astype(np.int64)

    @property
    def rare(self) -> Bools:
        result: Bools = np.isin(self.band, RARE)
        return result


def find(results: Sequence[Result], corpus: Corpus) -> Findings:
    targets, labels = corpus.test.targets, len(corpus.labels)
    tops = tuple(result.predictions.without(corpus.test.excluded).indices[:, :PLACES] for result in results)
    hits = tuple(hit_places(top, targets) for top in tops)
    return Findings(
        band=bands(corpus.labels),
        wanted=_marked(targets.indices, labels),
        tops=tops,
        hits=hits,
        predicted=tuple(_marked(top[top >= 0], labels) for top in tops),
        found=tuple(_marked(top[hit], labels) for top, hit in zip(tops, hits, strict=True)),
    )


def hit_places(top: Ints, targets: Matrix) -> Bools:
    """Which places of each row's top hold a true label."""
    width = np.int64(max(targets.shape[1], 1))
    row_of = np.repeat(np.arange(targets.shape[0], dtype=np.int64), np.diff(targets.indptr))
    true = row_of * width + targets.indices  # ascending: rows in order, labels in order within a row
    asked = np.arange(len(top), dtype=np.int64)[:, None] * width + top
    if not true.size:
        return np.zeros(top.shape, dtype=np.bool_)
    place = np.minimum(np.searchsorted(true, asked), true.size - 1)
    result: Bools = (true[place] == asked) & (top >= 0)
    return result


def takeaway(results: Sequence[Result], findings: Findings) -> Safe:
    """One sentence: who finds most of the tail, and what it costs the head."""
    names = [tag("strong", tag("bdi", result.recipe)) for result in results]
    wanted = findings.wanted & findings.rare
    unseen = findings.band == BANDS.index("unseen")
    kind = "tail and unseen labels" if (wanted & unseen).any() else "tail labels"
    if not wanted.any():
        wanted, kind = findings.wanted, "labels"
    total = int(wanted.sum())
    if not total:
        return escape("The test split has no true labels, so nothing could be measured.")
    found = [int((hit & wanted).sum()) for hit in findings.found]
    first_place = [result.measures.values.get("P@1", float("nan")) for result in results]
    most = int(np.argmax(found))

    def of_total(number: int) -> str:
        return f"{words.count(number)} of {words.count(total)} {kind} ({words.share(number, total)})"

    if len(results) == 1:
        return join(
            [names[0], f" finds {of_total(found[0])} at least once, with a P@1 of {words.percent(first_place[0])}."]
        )
    if max(found) == min(found):
        return join([f"All recipes find the same number of {kind}: {of_total(found[0])}."])
    said: list[str] = [
        names[most],
        f" finds the most {kind} at least once: {words.count(found[most])} of {words.count(total)}"
        f" ({words.share(found[most], total)}), against ",
    ]
    head = int(np.nanargmax(first_place)) if np.isfinite(first_place).any() else most
    if head != most and words.percent(first_place[head]) != words.percent(first_place[most]):
        loss = words.percent(first_place[head] - first_place[most])
        against = [f"{words.count(found[head])} for ", names[head], ", which has the best P@1"]
        return join([*said, *against, f"; the price is {loss} points of P@1."])
    rival = max((number for number in range(len(results)) if number != most), key=lambda one: found[one])
    against = [f"{words.count(found[rival])} for ", names[rival], ", the next best"]
    paid = f", and pays nothing for it: its P@1 of {words.percent(first_place[most])} is the best too."
    return join([*said, *against, paid if np.isfinite(first_place[most]) else "."])


def _marked(rows: Ints, number: int) -> Bools:
    marked = np.zeros(number, dtype=np.bool_)
    marked[rows] = True
    return marked
