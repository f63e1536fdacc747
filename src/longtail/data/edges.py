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

from longtail.data.files import lines
from longtail.data.hierarchy import Hierarchy
from longtail.errors import DataError, did_you_mean


def read_edges(edges_path: str | Path, names_path: str | Path | None = None, *, name: str | None = None) -> Hierarchy:
    """Nodes and child -> parent edges. A node's row text is its name, and the text where there is one.

    With a names file every node of the edges must stand in it; the corpus is called `name`, or after the
    edges file.
    """
    edges_path = Path(edges_path)
    node_of: dict[str, int] = {}
    names: list[str] = []
    texts: list[str] = []
    if names_path is not None:
        for line, fields in _fields(Path(names_path), "id<TAB>name[<TAB>text]", 3):
            node, *words = fields
            if node in node_of:
                raise DataError(f"the id {node!r} stands twice; ids must be unique", names_path, line)
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
                    raise DataError(f"the node {node!r} is not in {names_path}{near}; add its name", edges_path, line)
                node_of[node] = len(node_of)
            ends.append(node_of[node])
    if not ends:
        raise DataError("holds no edges; each line is child<TAB>parent", edges_path)
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


def _fields(path: Path, form: str, most: int) -> Iterator[tuple[int, list[str]]]:
    """The fields of each line that says something: at least two, the first two not empty."""
    for number, line in lines(path):
        if line.startswith("#") or not line.strip():
            continue
        fields = [field.strip() for field in line.split("\t")]
        if not 2 <= len(fields) <= most or not fields[0] or not fields[1]:
            raise DataError(f"expected {form}, got {line[:60]!r}", path, number)
        yield number, fields
