"""A taxonomy as a data set: nodes are rows, their ancestors up to a depth are their labels.

This is how LF-WikiHierarchy-1M was made from Wikipedia's categories (LEVER, appendix B.3.2). The front
ends `wordnet_files`, `edges` and `wikipedia` each read a `Hierarchy`; `build` turns it into a `Corpus`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import sparse

from longtail.arrays import AnyArray, Bools, Ints, Longs, Matrix
from longtail.data.corpus import Corpus, held_out, make_corpus
from longtail.data.dataset import Dataset
from longtail.data.labels import LabelSet, Propensity
from longtail.errors import DataError
from longtail.progress import stage

DEPTH = 3
TEST_SHARE = 0.2
ROWS_AT_ONCE = 32_768  # documents whose ancestors are found in one sparse product: bounds its memory


@dataclass(frozen=True, eq=False, kw_only=True)
class Hierarchy:
    """Nodes and child -> parent edges. Edges may repeat, loop and form cycles; `build` sees to that."""

    name: str
    ids: Sequence[str]
    names: Sequence[str]  # what a node is called: its text as a label
    texts: Sequence[str]  # what is said about a node: its text as a row
    child: Ints  # (edges,) node
    parent: Ints  # (edges,) node
    notes: tuple[str, ...] = ()
    rows: Bools | None = None  # (nodes,) nodes that may be documents; none: all
    same: tuple[Ints, Ints] | None = None  # (pairs,) twice: nodes that mean another one, which is no label of theirs

    def __post_init__(self) -> None:
        nodes = len(self.ids)
        if self.rows is not None and len(self.rows) != nodes:
            raise DataError(f"{self.name}: {nodes} nodes, and {len(self.rows)} of them are said to be rows or not")
        if len(self.names) != nodes or len(self.texts) != nodes:
            raise DataError(
                f"{self.name}: {nodes} node ids, {len(self.names)} names and {len(self.texts)} texts do not match"
            )
        if not all(self.ids):
            raise DataError(f"{self.name}: node {list(self.ids).index('')} has an empty id; every node needs one")
        if len(set(self.ids)) != nodes:
            seen: set[str] = set()
            twice = next(node for node in self.ids if node in seen or seen.add(node))  # type: ignore[func-returns-value]
            raise DataError(f"{self.name}: node id {twice!r} stands twice; node ids must be unique")
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
    """Documents are the nodes with a parent, labels the nodes with a child; a document's labels are its
    ancestors at most `depth` steps up.

    A node is never its own label, nor is one that it means, also where a cycle leads back to it: where it stands
    on both sides the pair is excluded. Labels that only test rows have stay. `valid_share=0` leaves valid empty, for a
    folder whose readers hold out their own.
    """
    if depth < 1:
        raise DataError(f"the depth of a hierarchy is at least 1, got {depth}")
    if not 0 <= valid_share < 1:
        raise DataError(f"the share of valid rows lies in [0, 1), got {valid_share}")
    parents, notes = _parents(hierarchy)
    documents = np.flatnonzero(
        np.diff(parents.indptr) if hierarchy.rows is None else (np.diff(parents.indptr) > 0) & hierarchy.rows
    )
    if len(documents) < 2:
        raise DataError(f"{hierarchy.name}: only {len(documents)} nodes have a parent; check the edges")
    is_label = np.zeros(len(hierarchy), dtype=np.bool_)
    is_label[parents.indices] = True  # a parent is the label of its child, so parents are all the labels
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
            f"{len(ids)} documents and {len(labels)} labels; ancestors up to depth {depth}; "
            f"{test_share:.0%} of the documents are test, by a hash of their id with seed {seed}",
        ),
    )


def _parents(hierarchy: Hierarchy) -> tuple[Matrix, list[str]]:
    """Which node has which parents (nodes, nodes), each once and none its own; and what was dropped."""
    nodes = len(hierarchy)
    notes = []
    loops: Bools = hierarchy.child == hierarchy.parent
    child, parent = hierarchy.child[~loops], hierarchy.parent[~loops]
    if loops.any():
        notes.append(f"{int(loops.sum())} edges from a node to itself were dropped")
    parents = sparse.csr_array(
        (np.ones(len(child), dtype=np.bool_), (child, parent)), shape=(nodes, nodes), dtype=np.bool_
    )
    parents.sum_duplicates()
    if parents.nnz < len(child):
        notes.append(f"{len(child) - parents.nnz} edges that stood twice were dropped")
    cycles, inside = _cycles(parents)
    if cycles:
        notes.append(f"{inside} nodes lie on cycles (groups of nodes that reach each other: {cycles})")
    return parents, notes


def _cycles(parents: Matrix) -> tuple[int, int]:
    """Groups of nodes that reach each other, and the nodes in them."""
    from scipy.sparse.csgraph import connected_components

    number, group = connected_components(parents, directed=True, connection="strong")
    sizes = np.bincount(group, minlength=number)
    return int((sizes > 1).sum()), int(sizes[sizes > 1].sum())


def _ancestors(parents: Matrix, documents: Longs, label_nodes: Longs, depth: int) -> Matrix:
    """Targets of 1 (documents, labels) for every ancestor up to the depth, the document itself left out."""
    label_of = np.full(parents.shape[0], -1, dtype=np.int32)
    label_of[label_nodes] = np.arange(len(label_nodes), dtype=np.int32)
    counts: list[AnyArray] = [np.zeros(1, dtype=np.int64)]
    columns: list[AnyArray] = [np.zeros(0, dtype=np.int32)]
    with stage("finding ancestors", total=len(documents)) as advance:
        for start in range(0, len(documents), ROWS_AT_ONCE):
            chunk = documents[start : start + ROWS_AT_ONCE]
            direct = parents[chunk]
            reached = direct
            for _ in range(depth - 1):
                further = direct + reached @ parents  # bool: `+` is or, nothing can overflow
                if further.nnz == reached.nnz:  # sets only grow, so nothing new means never again
                    break
                reached = further
            reached.sort_indices()
            row_of_entry = np.repeat(np.arange(len(chunk)), np.diff(reached.indptr))
            other = reached.indices != chunk[row_of_entry]
            counts.append(np.bincount(row_of_entry[other], minlength=len(chunk)))
            columns.append(label_of[reached.indices[other]])
            advance(len(chunk))
    indices = np.concatenate(columns)
    indptr = np.cumsum(np.concatenate(counts))
    small = np.int32 if len(indices) < 2**31 else np.int64
    return sparse.csr_array(
        (np.ones(len(indices), dtype=np.float32), indices.astype(small, copy=False), indptr.astype(small)),
        shape=(len(documents), len(label_nodes)),
    )


def _self_pairs(documents: Longs, is_label: Bools) -> Matrix:
    """The pair (document, itself) of every document that is also a label (documents, labels)."""
    row = np.flatnonzero(is_label[documents])
    label_of = np.cumsum(is_label) - 1
    column = label_of[documents[row]]
    shape = (len(documents), int(is_label.sum()))
    return sparse.csr_array((np.ones(len(row), dtype=np.bool_), (row, column)), shape=shape)
