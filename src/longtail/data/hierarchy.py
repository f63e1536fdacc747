"""A taxonomy as a data set: nodes are documents, and their ancestors up to a depth are their labels.

LF-WikiHierarchy-1M was made like this from Wikipedia's categories (LEVER, appendix B.3.2). `wordnet_files`, `edges` and
`wikipedia` each read a `Hierarchy`; `build` turns it into a `Corpus`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import sparse

from longtail.arrays import AnyArray, Bools, Ints, Longs, Matrix
from longtail.data.corpus import Corpus, held_out, make_corpus
from longtail.data.dataset import Dataset
from longtail.data.labels import LabelSet, Propensity
from longtail.data.opening import check_room
from longtail.errors import DataError, counted
from longtail.progress import stage

DEPTH = 3
TEST_SHARE = 0.2
ROWS_AT_ONCE = 32_768  # documents of one sparse product; limits its memory
ENTRIES_AT_ONCE = 1 << 25  # ancestors of these documents, at most


@dataclass(frozen=True, eq=False, kw_only=True)
class Hierarchy:
    """Nodes and child -> parent edges. Edges may repeat, loop and form cycles; `build` handles that.

    Raises:
        DataError: parts do not match, or an id is empty or occurs twice.
    """

    name: str
    ids: Sequence[str]
    names: Sequence[str]  # the name of each node: its text as a label
    texts: Sequence[str]  # the text of each node as a document
    child: Ints  # (edges,) node
    parent: Ints  # (edges,) node
    notes: tuple[str, ...] = ()
    rows: Bools | None = None  # (nodes,) nodes that may be documents; None: all
    same: tuple[Ints, Ints] | None = None  # (pairs,) each: a node, and one that it means and never has as a label

    def __post_init__(self) -> None:
        nodes = len(self.ids)
        if self.rows is not None and len(self.rows) != nodes:
            raise DataError(f"{self.name}: `rows` has {len(self.rows)} entries for {nodes} nodes; give one per node")
        if len(self.names) != nodes or len(self.texts) != nodes:
            raise DataError(
                f"{self.name}: {nodes} node ids, {len(self.names)} names and {len(self.texts)} texts do not match"
            )
        if not all(self.ids):
            raise DataError(f"{self.name}: node {list(self.ids).index('')} has an empty id; every node needs one")
        if len(set(self.ids)) != nodes:
            seen: set[str] = set()
            twice = next(node for node in self.ids if node in seen or seen.add(node))  # type: ignore[func-returns-value]
            raise DataError(f"{self.name}: node id {twice!r} occurs twice; node ids must be unique")
        for side in ("child", "parent"):
            ends = np.asarray(getattr(self, side))
            if ends.size and not (ends.min() >= 0 and ends.max() < nodes):
                raise DataError(f"{self.name}: the {side} nodes of the edges must lie in 0..{nodes - 1}")
            object.__setattr__(self, side, ends.astype(np.int32))
        if self.child.ndim != 1 or self.child.shape != self.parent.shape:
            raise DataError(f"{self.name}: the edges have {self.child.shape} children but {self.parent.shape} parents")

    def __len__(self) -> int:
        return len(self.ids)


def build(
    hierarchy: Hierarchy,
    *,
    depth: int = DEPTH,
    test_share: float = TEST_SHARE,
    valid_share: float = 0.05,
    seed: int = 0,
    propensity: Propensity = Propensity(),  # noqa: B008  (frozen)
) -> Corpus:
    """Makes a data set: documents are the nodes with a parent, labels the nodes with a child.

    The labels of a document are its ancestors at most `depth` steps up. A node is never its own label, nor is a node
    that it means, even where a cycle leads back to it; these pairs are excluded. Labels that only the test split has
    are kept.

    Args:
        hierarchy: nodes and edges.
        depth: how many steps up ancestors are labels.
        test_share: of the documents that become test.
        valid_share: of the others that become valid; 0 leaves valid empty, for readers that hold out their own.
        seed: of the splits.
        propensity: the constants of the data set.

    Returns:
        The data set.

    Raises:
        DataError: a setting is out of range, or fewer than two nodes have a parent.
    """
    if depth < 1:
        raise DataError(f"the depth must be at least 1, got {depth}")
    if not 0 <= valid_share < 1:
        raise DataError(f"the share of valid examples must be at least 0 and below 1, got {valid_share}")
    parents, notes = _parents(hierarchy)
    documents = np.flatnonzero(
        np.diff(parents.indptr) if hierarchy.rows is None else (np.diff(parents.indptr) > 0) & hierarchy.rows
    )
    if len(documents) < 2:
        raise DataError(
            f"{hierarchy.name}: only {counted(len(documents), 'node has', 'nodes have')} a parent; check the edges"
        )
    is_label = np.zeros(len(hierarchy), dtype=np.bool_)
    is_label[parents.indices] = True
    label_nodes = np.flatnonzero(is_label)

    ids = tuple([hierarchy.ids[node] for node in documents.tolist()])
    labels = LabelSet(
        ids=tuple([hierarchy.ids[node] for node in label_nodes.tolist()]),
        texts=tuple([hierarchy.names[node] for node in label_nodes.tolist()]),
        propensity=propensity,
    )
    targets, excluded = _ancestors(parents, documents, label_nodes, depth), _self_pairs(documents, is_label)
    if hierarchy.same is not None:
        meant = sparse.csr_array((np.ones(len(hierarchy.same[0]), np.bool_), hierarchy.same), shape=parents.shape)
        excluded = excluded + meant[documents][:, label_nodes]
        targets = targets - targets.multiply(excluded)
        targets.eliminate_zeros()
    rows = Dataset(
        labels=labels,
        ids=ids,
        texts=tuple([hierarchy.texts[node] for node in documents.tolist()]),
        targets=targets,
        excluded=excluded,
    )
    test = held_out(ids, test_share, seed + 1)
    train_rows = rows.take(np.flatnonzero(~test))
    return make_corpus(
        name=hierarchy.name,
        train=train_rows,
        valid=None if valid_share else train_rows.take([]),
        test=rows.take(np.flatnonzero(test)),
        valid_share=valid_share,
        seed=seed,
        notes=(
            *hierarchy.notes,
            *notes,
            f"{counted(len(ids), 'document')} and {counted(len(labels), 'label')}; ancestors up to depth {depth}; "
            f"{test_share:.0%} of the documents are test, by a hash of their id with seed {seed}",
        ),
    )


def _parents(hierarchy: Hierarchy) -> tuple[Matrix, list[str]]:
    """(nodes, nodes) the parents of each node, without loops and duplicates; and notes on what was dropped."""
    nodes = len(hierarchy)
    notes = []
    loops: Bools = hierarchy.child == hierarchy.parent
    child, parent = hierarchy.child[~loops], hierarchy.parent[~loops]
    if loops.any():
        notes.append(
            f"{counted(int(loops.sum()), 'edge from a node to itself was', 'edges from a node to itself were')} dropped"
        )
    parents = sparse.csr_array(
        (np.ones(len(child), dtype=np.bool_), (child, parent)), shape=(nodes, nodes), dtype=np.bool_
    )
    parents.sum_duplicates()
    if parents.nnz < len(child):
        notes.append(f"{counted(len(child) - parents.nnz, 'duplicate edge was', 'duplicate edges were')} dropped")
    cycles, inside = _cycles(parents)
    if cycles:
        notes.append(f"{inside} nodes lie on cycles (groups of nodes that reach each other: {cycles})")
    return parents, notes


def _cycles(parents: Matrix) -> tuple[int, int]:
    """How many groups of nodes reach each other, and how many nodes are in them."""
    from scipy.sparse.csgraph import connected_components

    number, group = connected_components(parents, directed=True, connection="strong")
    sizes = np.bincount(group, minlength=number)
    return int((sizes > 1).sum()), int(sizes[sizes > 1].sum())


def _ancestors(parents: Matrix, documents: Longs, label_nodes: Longs, depth: int) -> Matrix:
    """(documents, labels) 1 for every ancestor up to the depth, without the document itself."""
    label_of = np.full(parents.shape[0], -1, dtype=np.int32)
    label_of[label_nodes] = np.arange(len(label_nodes), dtype=np.int32)
    counts: list[AnyArray] = [np.zeros(1, dtype=np.int64)]
    columns: list[AnyArray] = [np.zeros(0, dtype=np.int32)]
    entries = 0
    with stage("finding ancestors", total=len(documents)) as advance:
        for chunk in _parts(parents, documents, min(depth, len(label_nodes)), len(label_nodes)):
            direct = parents[chunk]
            reached = direct
            for _ in range(depth - 1):
                further = direct + reached @ parents  # bool: `+` means "or", so nothing overflows
                if further.nnz == reached.nnz:  # sets only grow, so no further step adds anything
                    break
                reached = further
            reached.sort_indices()
            row_of_entry = np.repeat(np.arange(len(chunk)), np.diff(reached.indptr))
            other = reached.indices != chunk[row_of_entry]
            counts.append(np.bincount(row_of_entry[other], minlength=len(chunk)))
            columns.append(label_of[reached.indices[other]])
            entries += len(columns[-1])
            check_room(12 * entries, None, f"a label for each ancestor up to depth {depth}, {entries:,} so far,")
            advance(len(chunk))
    indices = np.concatenate(columns)
    indptr = np.cumsum(np.concatenate(counts))
    small = np.int32 if len(indices) < 2**31 else np.int64
    return sparse.csr_array(
        (np.ones(len(indices), dtype=np.float32), indices.astype(small, copy=False), indptr.astype(small)),
        shape=(len(documents), len(label_nodes)),
    )


def _parts(parents: Matrix, documents: Longs, depth: int, labels: int) -> Iterator[Longs]:
    """The documents in parts whose ancestors take limited memory: where all lead through one node, they have many."""
    degree = np.diff(parents.indptr).astype(np.float64)
    walks = degree
    for _ in range(depth - 1):
        if walks.max(initial=0) >= labels:
            break
        walks = degree + parents.astype(np.float64) @ walks
    most = np.cumsum(np.minimum(walks, labels)[documents])
    start = 0
    while start < len(documents):
        before = most[start - 1] if start else 0.0
        end = int(np.searchsorted(most, before + ENTRIES_AT_ONCE, side="right"))
        end = max(min(end, start + ROWS_AT_ONCE), start + 1)
        yield documents[start:end]
        start = end


def _self_pairs(documents: Longs, is_label: Bools) -> Matrix:
    """(documents, labels) the pair of each document and itself, where it is also a label."""
    row = np.flatnonzero(is_label[documents])
    label_of = np.cumsum(is_label) - 1
    column = label_of[documents[row]]
    shape = (len(documents), int(is_label.sum()))
    return sparse.csr_array((np.ones(len(row), dtype=np.bool_), (row, column)), shape=shape)
