"""A hierarchy from two-column text files.

    edges.tsv    child<TAB>parent
    names.tsv    id<TAB>name[<TAB>text]        optional: without it a node's name is its id

Blank lines and lines that begin with # are skipped; either file may be compressed (.gz, .xz).
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from longtail.data.files import lines, shown
from longtail.data.hierarchy import Hierarchy
from longtail.data.opening import reading
from longtail.errors import DataError, did_you_mean


def read_edges(edges_path: str | Path, names_path: str | Path | None = None, *, name: str | None = None) -> Hierarchy:
    """Reads a hierarchy from two-column text files.

    Args:
        edges_path: the file of edges.
        names_path: the file of names, which must have every node of the edges; None takes ids as names.
        name: of the data set; default: that of the edges file.

    Returns:
        The hierarchy. The text of a node is its name, followed by its text where it has one.

    Raises:
        DataError: a line is damaged, an id occurs twice, or a node has no name.
    """
    with reading(edges_path):
        return _read(Path(edges_path), names_path, name)


def _read(edges_path: Path, names_path: str | Path | None, name: str | None) -> Hierarchy:
    node_of: dict[str, int] = {}
    names: list[str] = []
    texts: list[str] = []
    if names_path is not None:
        for line, fields in _fields(Path(names_path), "id<TAB>name[<TAB>text]", 3):
            node, *words = fields
            if node in node_of:
                raise DataError(f"the id {shown(node)} occurs twice; remove one", names_path, line)
            node_of[node] = len(node_of)
            names.append(words[0])
            texts.append(": ".join(word for word in words if word))
    closed = names_path is not None
    ends = array("i")
    for line, fields in _fields(edges_path, "child<TAB>parent", 2):
        for node in fields:
            if node not in node_of:
                if closed:
                    near = did_you_mean(node, node_of) if len(node_of) < 50_000 else ""
                    raise DataError(
                        f"the node {shown(node)} is not in {names_path}{near}; add its name", edges_path, line
                    )
                node_of[node] = len(node_of)
            ends.append(node_of[node])
    if not ends:
        raise DataError("has no edges; each line must be child<TAB>parent", edges_path)
    both = np.asarray(ends, dtype=np.int32).reshape(-1, 2)
    ids = list(node_of)
    return Hierarchy(
        name=name or edges_path.name.partition(".")[0],
        ids=ids,
        names=names or ids,
        texts=texts or ids,
        child=both[:, 0],
        parent=both[:, 1],
    )


def _fields(path: Path, form: str, max_fields: int) -> Iterator[tuple[int, list[str]]]:
    """The fields of each line that is not blank or a comment: at least two, the first two not empty."""
    for number, line in lines(path):
        if line.startswith("#") or not line.strip():
            continue
        fields = [field.strip() for field in line.split("\t")]
        if not 2 <= len(fields) <= max_fields or not fields[0] or not fields[1]:
            raise DataError(f"expected {form}, got {line[:60]!r}", path, number)
        yield number, fields
