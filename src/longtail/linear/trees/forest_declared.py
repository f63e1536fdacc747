"""What a saved forest of label trees must be before it is searched, because kernels check no index."""

from __future__ import annotations

import numpy as np

from longtail.arrays import AnyArray, Ints, Longs
from longtail.seams import Array, Contents, Declaration, Flag, Misfit, Whole

MAX_DEPTH = 100  # levels of a tree; trees over a billion labels have 30
FREE_PAIRS = 1 << 20  # (row, node) pairs of one row that are never too many


def _check(stored: Contents) -> None:
    """What single ranges cannot say."""
    forest = {name.removeprefix("forest."): array for name, array in stored.tensors.items()}
    if stored.sizes["trees"] == 0:
        raise Misfit("forest.roots", "has no tree")
    for name, what in (("node_chunks", "node without a chunk"), ("chunk_children", "chunk without a child")):
        if (forest[name][1:] == forest[name][:-1]).any():
            raise Misfit(f"forest.{name}", f"has a {what}")
    _check_trees(forest, stored.sizes["labels"], stored.settings["beam"])
    dense, columns = stored.settings["dense_columns"], stored.sizes["columns"]
    if dense > columns:
        raise Misfit("dense_columns", f"are {dense} of {columns} columns", "setting")
    _check_chunks(forest, columns - dense)
    _check_tables(forest, dense)


def _check_trees(forest: dict[str, AnyArray], labels: int, beam: int) -> None:
    """Every node has one parent, every label is once in each tree, and all leaves are equally deep."""
    roots, child, leaf = forest["roots"], forest["child"], forest["node_leaf"] == 1
    nodes, trees = len(leaf), len(roots)
    first_child = forest["chunk_children"][forest["node_chunks"]]
    owner = np.repeat(np.arange(nodes, dtype=np.int32), np.diff(first_child))
    inner = ~leaf[owner]
    below = child[inner]
    if len(below) and (int(below.max()) >= nodes or bool((below <= owner[inner]).any())):
        raise Misfit("forest.child", "has a node that is not behind its parent")  # so the search ends
    ends = child[~inner]
    if len(ends) and not 0 <= int(ends.min()) <= int(ends.max()) < labels:
        raise Misfit("forest.child", f"has a label outside 0 to {labels - 1}")
    if (np.bincount(np.concatenate([roots, below]), minlength=nodes) != 1).any():
        raise Misfit("forest.child", "has a node with two parents or none")
    if len(ends) != trees * labels:
        raise Misfit("forest.child", f"has {len(ends)} labels in the leaves of {trees} trees over {labels} labels")
    level, tree = roots, np.arange(trees)
    for _ in range(MAX_DEPTH):
        if leaf[level].any():
            break
        level, tree = _children(level, tree, first_child, child)
    if not leaf[level].all():
        raise Misfit("forest.node_leaf", f"has leaves at different depths, or deeper than {MAX_DEPTH}")
    widest = int(np.bincount(tree, minlength=trees).max())  # levels never get narrower
    if trees * min(beam, widest) > max(4 * nodes, FREE_PAIRS):
        raise Misfit("forest.roots", f"has {trees} trees, one of {widest} leaves: too uneven for a beam of {beam}")
    held, tree = _children(level, tree, first_child, child)
    seen = np.zeros(trees * labels, dtype=np.bool_)
    seen[tree * labels + held] = True
    if not seen.all():
        raise Misfit("forest.child", "has a tree that lacks a label")


def _children(level: Ints, tree: Longs, first_child: Longs, child: Ints) -> tuple[Ints, Longs]:
    """The children of nodes, and the tree of each."""
    sizes = first_child[level + 1] - first_child[level]
    ends = np.cumsum(sizes)
    places = np.arange(int(ends[-1])) + np.repeat(first_child[level] - ends + sizes, sizes)
    return child[places], np.repeat(tree, sizes)


def _check_chunks(forest: dict[str, AnyArray], sparse_columns: int) -> None:
    """Chunks divide the features among them; features ascend in a chunk, and their weights belong to its children."""
    spans, features, starts = forest["chunk_features"], forest["features"], forest["starts"]
    packed = np.lexsort((spans[:, 1], spans[:, 0]))  # the chunks in the order of their features
    begins, ends = spans[packed, 0], spans[packed, 1]
    if (begins[1:] != ends[:-1]).any() or (ends < begins).any() or begins[0] != 0 or ends[-1] != len(features):
        raise Misfit("forest.chunk_features", "leaves out features, or names them twice")
    falls = 1 + np.flatnonzero(features[1:] <= features[:-1])
    if not np.isin(falls, begins).all():
        raise Misfit("forest.features", "has a chunk whose features do not ascend")
    if len(features) and int(features.max()) >= sparse_columns:
        raise Misfit("forest.features", f"has a dense column, {features.max()}, from {sparse_columns} on")
    children = np.diff(forest["chunk_children"])[packed].astype(np.int32)
    weights = np.diff(starts[np.append(begins, len(features))].astype(np.int64))  # of each chunk
    if (forest["which"] >= np.repeat(children, weights)).any():
        raise Misfit("forest.which", "has a weight of a child that its chunk does not have")


def _check_tables(forest: dict[str, AnyArray], columns: int) -> None:
    """Chunks divide the dense weights among them: each has a table of its children, or none."""
    have = forest["chunk_dense"] >= 0
    begins, sizes = forest["chunk_dense"][have], columns * np.diff(forest["chunk_children"])[have]
    order = np.lexsort((sizes, begins))
    if (begins[order] != np.cumsum(sizes[order]) - sizes[order]).any() or len(forest["dense"]) != sizes.sum():
        raise Misfit("forest.chunk_dense", "leaves out dense weights, or names them twice")


FOREST = Declaration(  # of what `ForestScorer.state` returns, besides the features
    arrays={
        "forest.roots": Array("int32", "trees", least=0, below="nodes"),
        "forest.node_chunks": Array("int64", "nodes + 1", points_to="chunks"),
        "forest.node_leaf": Array("int32", "nodes", least=0, most=1),
        "forest.chunk_children": Array("int64", "chunks + 1", points_to="children"),
        "forest.chunk_features": Array("int64", "chunks, 2", least=0, most="features"),
        "forest.child": Array("int32", "children", least=0),
        "forest.bias": Array("float32", "children"),
        "forest.features": Array("int32", "features", least=0, below="columns"),
        "forest.starts": Array("uint32", "features + 1", points_to="weights"),
        "forest.which": Array("uint8", "weights"),
        "forest.weights": Array("int16", "weights"),
        "forest.scales": Array("float32", "chunks", least=0),
        "forest.chunk_dense": Array("int64", "chunks", least=-1),
        "forest.dense": Array("int16", "dense weights"),
    },
    settings={"labels": Whole(1, size="labels"), "log_loss": Flag(), "beam": Whole(1), "dense_columns": Whole()},
    checks=(_check,),
)
