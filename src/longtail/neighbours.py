"""The neighbours of a label: its links in the graphs that tail methods train on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from longtail.data.dataset import Dataset
from longtail.data.labels import LabelSet
from longtail.errors import DataError, did_you_mean

Graph = Literal["cooccurrence", "walk", "symmetric", "bow"]
GRAPHS: tuple[str, ...] = get_args(Graph)
MAX_COMPARED = 20_000  # names that are compared letter by letter, which is slow


@dataclass(frozen=True)
class Neighbour:
    """A label that another one is linked to."""

    label: int
    weight: float  # the soft target that it has in the row of the other's text
    together: int  # training rows with both, of those that the graph counts


def neighbours(
    data: Dataset, label: int, k: int = 10, graph: Graph = "cooccurrence", threshold: float = 0.0
) -> list[Neighbour]:
    """Find the strongest links of a label: the soft targets of `gandalf`, or of `bow`, with this graph and threshold.

    Args:
        data: training rows.
        label: the row of the label.
        k: links at most, at least 1.
        graph: how labels are linked; "bow" by their texts, the others by the rows that have them.
        threshold: weights up to it are dropped.

    Returns:
        Up to k neighbours, strongest first, ties by label row.

    Raises:
        DataError: k, graph or threshold is out of range, or the label has no text for the graph "bow".
    """
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

        with_input = labels_with_input(data, "the graph bow")
        place = np.flatnonzero(with_input == label)
        if len(place) == 0:
            raise DataError(f"label {data.labels.ids[label]!r} has no text to compare; use another graph")
        linked = Bow(threshold=threshold, neighbours=k).soft_targets(data, with_input)[place]
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
    """Restrict data to the rows whose labels a graph links.

    Args:
        data: training rows.
        graph: see `neighbours`.

    Returns:
        The rows that count; all of them for "bow", which does not read rows.
    """
    if graph == "bow":
        return data
    from longtail.tail.gandalf import Gandalf

    rows = Gandalf(graph=graph).linking(data.targets)
    return data if len(rows) == len(data) else data.take(rows)


def find_label(labels: LabelSet, asked: str) -> int:
    """Find a label by its id, or else by its text, whatever its case and blanks.

    Args:
        labels: the label set.
        asked: an id or a text.

    Returns:
        The row of the label.

    Raises:
        DataError: no label has it, or several labels have this text.
    """
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
    """A hint: the closest name, else the shortest that contains the text. Where there are many labels, only names that
    share a word with it are compared."""
    names = {_plain(name): name for name in (*labels.ids, *labels.texts) if name.strip()}
    if len(names) > MAX_COMPARED:
        words = set(wanted.split())
        names = {plain: name for plain, name in names.items() if words & set(plain.split())}
    hint = did_you_mean(wanted, list(names)[:MAX_COMPARED])
    close = next((name for plain, name in names.items() if hint.endswith(f"'{plain}'?")), None)
    close = close or min((name for plain, name in names.items() if wanted and wanted in plain), key=len, default=None)
    if close is not None:
        return f"; did you mean {close!r}?"
    return "; `longtail check` shows what the data holds"
