"""What stands beside a label: its links in the graphs that tail methods train on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from longtail.data.dataset import Dataset
from longtail.data.labels import LabelSet
from longtail.errors import DataError, did_you_mean

Graph = Literal["cooccurrence", "walk", "symmetric", "bow"]
GRAPHS: tuple[str, ...] = get_args(Graph)
SEARCHED = 20_000  # names looked through for one that is close; comparing letters is slow


@dataclass(frozen=True)
class Neighbour:
    """A label that another one is linked to."""

    label: int
    weight: float  # the soft target that it gets from the other's text
    together: int  # training rows with both, of those that link


def neighbours(
    data: Dataset, label: int, k: int = 10, graph: Graph = "cooccurrence", threshold: float = 0.0
) -> list[Neighbour]:
    """The k strongest links of a label, strongest first, ties by label row; with the same graph and threshold, the
    soft targets of `gandalf`, or of `bow`."""
    if k < 1:
        raise DataError(f"k counts labels and is at least 1, got {k}")
    if graph not in GRAPHS:
        raise DataError(f"no graph {graph!r}{did_you_mean(graph, GRAPHS)} (graphs: {', '.join(GRAPHS)})")
    if not 0 <= threshold < 1:
        raise DataError(f"a threshold lies from 0 to below 1, got {threshold:g}")
    data = linking(data, graph)
    rows = data.targets[:, [label]].nonzero()[0]
    together = np.bincount(data.targets[rows].indices, minlength=len(data.labels))
    if graph == "bow":
        from longtail.data.label_rows import labels_with_input
        from longtail.tail.bow import Bow

        able = labels_with_input(data, "the graph bow")
        place = np.flatnonzero(able == label)
        if len(place) == 0:
            raise DataError(f"label {data.labels.ids[label]!r} has no text to compare; use another graph")
        linked = Bow(threshold=threshold, nearest=k).soft_targets(data, able)[place]
    else:
        from longtail.tail.gandalf import Gandalf

        linked = Gandalf(graph=graph, threshold=threshold).soft_targets(data.targets)[[label]]
    found = [
        Neighbour(int(other), float(weight), int(together[other]))
        for other, weight in zip(linked.indices, linked.data, strict=True)
        if other != label
    ]
    return sorted(found, key=lambda one: (-one.weight, one.label))[:k]


def linking(data: Dataset, graph: Graph) -> Dataset:
    """The rows whose labels a graph links; the words of `bow` need none."""
    if graph == "bow":
        return data
    from longtail.tail.gandalf import Gandalf

    rows = Gandalf(graph=graph).linking(data.targets)
    return data if len(rows) == len(data) else data.take(rows)


def find_label(labels: LabelSet, asked: str) -> int:
    """The label with this id, or else with this text, whatever its case and blanks."""
    if asked in labels.row_of:
        return labels.row_of[asked]
    wanted = _plain(asked)
    same = [row for row, text in enumerate(labels.texts) if _plain(text) == wanted] if wanted else []
    if len(same) > 1:
        ids = ", ".join(repr(labels.ids[row]) for row in same[:5])
        raise DataError(f"{len(same)} labels have the text {asked!r}; give one of their ids: {ids}")
    if not same:
        raise DataError(f"no label has the id or the text {asked!r}{_close(labels, wanted)}")
    return same[0]


def _plain(text: str) -> str:
    return " ".join(text.lower().split())


def _close(labels: LabelSet, wanted: str) -> str:
    """The nearest name, else the shortest that holds what was asked. Where there are many labels, only those are
    compared that share a word with it."""
    names = {_plain(name): name for name in (*labels.ids, *labels.texts) if name.strip()}
    if len(names) > SEARCHED:
        words = set(wanted.split())
        names = {plain: name for plain, name in names.items() if words & set(plain.split())}
    hint = did_you_mean(wanted, list(names)[:SEARCHED])
    close = next((name for plain, name in names.items() if hint.endswith(f"'{plain}'?")), None)
    close = close or min((name for plain, name in names.items() if wanted and wanted in plain), key=len, default=None)
    if close is not None:
        return f"; did you mean {close!r}?"
    return "; `longtail check` tells what the data holds"
