"""The sentence at the top of the report: the trade-off that a person would choose, and what the others buy for what."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from longtail.drawing import words
from longtail.drawing.markup import Safe, escape, join, tag
from longtail.metrics.frequency import BANDS
from longtail.metrics.significance import SAME
from longtail.report.findings import Findings
from longtail.report.result import Result

HEAD, TAILS = "P@1", ("PSP@5", "C@5", "PSP@1")  # precision, and the first of the others that was measured
RANKED = ("P@1", "P@5", "PSP@1", "PSP@5", "C@5")  # measures of the mean rank
LEAST = 0.5  # no one chooses a recipe with less than this share of the best P@1 or PSP@5
OTHERS = 3  # recipes of the front that are named beside the first


def headline(results: Sequence[Result], findings: Findings) -> Safe:
    """One to four sentences: the recipe to choose, how much of the tail it finds, and what others have instead.

    Args:
        results: a result per recipe.
        findings: the labels that each finds.

    Returns:
        The sentences.
    """
    if not findings.wanted.any():
        return escape("The test split has no true labels, so nothing could be measured.")
    tail = next((name for name in TAILS if all(name in one.measures.values for one in results)), None)
    measured = all(HEAD in one.measures.values for one in results)
    if len(results) == 1 or tail is None or not measured:
        chosen = int(np.argmax([_found(findings, number)[0] for number in range(len(results))]))
        return join([_name(results[chosen]), f" finds {_of_tail(findings, chosen)} at least once.", *_first(results)])
    front = pareto_front([(one.measures[HEAD], one.measures[tail]) for one in results])
    ranks = mean_ranks(results)
    best = min(front, key=lambda number: (ranks[number], -results[number].measures[tail], number))
    parts: list[str | Safe] = [_name(results[best])]
    if len(front) == 1:
        parts.append(
            f" is best at both: {HEAD} {_figure(results[best], HEAD)} and {tail} {_figure(results[best], tail)}"
        )
    else:
        parts.append(
            f" is the trade-off to choose: {HEAD} {_figure(results[best], HEAD)} and {tail} "
            f"{_figure(results[best], tail)}"
        )
    parts.append(f". It finds {_of_tail(findings, best)} at least once.")
    others = sorted((number for number in front if number != best), key=lambda number: ranks[number])
    for number in others[:OTHERS]:
        parts += [" ", _name(results[number]), f" {_bargain(results, number, best, tail)}."]
    if not others:
        rival = min((number for number in range(len(results)) if number != best), key=lambda number: ranks[number])
        parts += [" Next is ", _name(results[rival]), f" with {HEAD} {_figure(results[rival], HEAD)} and {tail} "]
        parts.append(f"{_figure(results[rival], tail)}.")
    return join(parts)


def pareto_front(points: Sequence[tuple[float, float]]) -> list[int]:
    """The points that no other beats at both, without those that give up more than half of one for the other.

    Args:
        points: (precision, tail) of each recipe.

    Returns:
        Their numbers, in order. At least one.
    """
    best = [max((one[axis] for one in points if math.isfinite(one[axis])), default=0.0) for axis in (0, 1)]

    def beaten(number: int) -> bool:
        x, y = points[number]
        return any(
            (a >= x and b >= y and (a > x or b > y)) or ((a, b) == (x, y) and other < number)
            for other, (a, b) in enumerate(points)
        )

    front = [number for number in range(len(points)) if not beaten(number)]
    worth = [one for one in front if all(points[one][axis] >= LEAST * best[axis] for axis in (0, 1))]
    return worth or front


def mean_ranks(results: Sequence[Result]) -> list[float]:
    """The mean place of each recipe over several measures; 1 is best, and equal values share a place.

    Args:
        results: a result per recipe.

    Returns:
        A mean rank per recipe.
    """
    places = []
    for name in RANKED:
        values = [one.measures.values.get(name, math.nan) for one in results]
        if all(map(math.isfinite, values)):
            places.append([1 + sum(other > value for other in values) for value in values])
    return np.mean(places, axis=0).tolist() if places else [1.0] * len(results)


def _bargain(results: Sequence[Result], number: int, best: int, tail: str) -> str:
    """What a recipe of the front gains and loses against the one named first."""
    mine, other = results[number].measures, results[best].measures
    more, less = (HEAD, tail) if mine[HEAD] > other[HEAD] else (tail, HEAD)
    gain, loss = words.percent(mine[more] - other[more]), words.percent(other[less] - mine[less])
    tested = results[number] if best == 0 else results[best] if number == 0 else None
    unsure = " (no difference shown)"
    hints = ["", ""]
    if tested is not None:
        hints = [
            unsure if name in tested.against_first and tested.against_first[name].verdict == SAME else ""
            for name in (more, less)
        ]
    return f"has {gain} points more {more}{hints[0]} for {loss} points less {less}{hints[1]}"


def _of_tail(findings: Findings, number: int) -> str:
    found, total, kind = _found(findings, number)
    return f"{words.count(found)} of {words.count(total)} {kind} ({words.share(found, total)})"


def _found(findings: Findings, number: int) -> tuple[int, int, str]:
    """How many tail labels a recipe finds, of how many, and what to call them."""
    wanted = findings.wanted & findings.rare
    unseen = findings.band == BANDS.index("unseen")
    kind = "tail and unseen labels" if (wanted & unseen).any() else "tail labels"
    if not wanted.any():
        wanted, kind = findings.wanted, "labels"
    return int((findings.found[number] & wanted).sum()), int(wanted.sum()), kind


def _first(results: Sequence[Result]) -> list[str]:
    """The P@1 of a recipe that is alone."""
    alone = len(results) == 1 and HEAD in results[0].measures.values
    return [f" Its P@1 is {_figure(results[0], HEAD)}."] if alone else []


def _figure(result: Result, name: str) -> str:
    return words.percent(result.measures.values[name])


def _name(result: Result) -> Safe:
    return tag("strong", tag("bdi", result.recipe))
