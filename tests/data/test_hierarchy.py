"""Ancestors as labels: toy graphs worked by hand, then against a plain search."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from longtail.data import hierarchy as module
from longtail.data.corpus import Corpus
from longtail.data.hierarchy import Hierarchy, build
from longtail.data.labels import Propensity
from longtail.errors import DataError
from longtail.progress import listening


def graph(*edges: str, nodes: str = "") -> Hierarchy:
    """A hierarchy of one-letter nodes from edges like "ab" (a's parent is b)."""
    ids = sorted(set("".join(edges) + nodes))
    place = {node: number for number, node in enumerate(ids)}
    return Hierarchy(
        name="toy",
        ids=ids,
        names=[f"name of {node}" for node in ids],
        texts=[f"text of {node}" for node in ids],
        child=np.array([place[edge[0]] for edge in edges], dtype=np.int32),
        parent=np.array([place[edge[1]] for edge in edges], dtype=np.int32),
    )


def pairs(corpus: Corpus, what: str = "targets") -> dict[str, str]:
    """Row id to its label ids in one sorted word, over all splits."""
    found = {}
    for split in (corpus.train, corpus.valid, corpus.test):
        matrix = getattr(split, what)
        for row, name in enumerate(split.ids):
            columns = [] if matrix is None else matrix.indices[matrix.indptr[row] : matrix.indptr[row + 1]]
            found[name] = "".join(sorted(corpus.labels.ids[column] for column in columns))
    return found


DIAMOND = ("db", "dc", "ba", "ca")


def test_a_diamond_reaches_its_top_once() -> None:
    corpus = build(graph(*DIAMOND))
    assert pairs(corpus) == {"b": "a", "c": "a", "d": "abc"}
    assert corpus.labels.ids == ("a", "b", "c")
    for split in (corpus.train, corpus.valid, corpus.test):
        assert np.all(split.targets.data == 1)


def test_depth_one_keeps_only_parents() -> None:
    assert pairs(build(graph(*DIAMOND), depth=1)) == {"b": "a", "c": "a", "d": "bc"}


@pytest.mark.parametrize(("depth", "of_f"), [(1, "e"), (2, "de"), (3, "cde"), (4, "bcde"), (5, "abcde"), (99, "abcde")])
def test_depth_cuts_a_chain(depth: int, of_f: str) -> None:
    found = pairs(build(graph("fe", "ed", "dc", "cb", "ba"), depth=depth))
    assert found["f"] == of_f
    assert found["b"] == "a"


def test_a_document_that_is_a_label_excludes_itself() -> None:
    corpus = build(graph(*DIAMOND))
    assert pairs(corpus, "excluded") == {"b": "b", "c": "c", "d": ""}


@pytest.mark.parametrize(("depth", "of_a"), [(1, "b"), (2, "bc"), (3, "bc"), (7, "bc")])
def test_a_cycle_never_makes_a_node_its_own_label(depth: int, of_a: str) -> None:
    corpus = build(graph("ab", "bc", "ca"), depth=depth)
    assert pairs(corpus)["a"] == of_a
    assert pairs(corpus, "excluded") == {"a": "a", "b": "b", "c": "c"}
    assert "3 nodes lie on cycles (groups of nodes that reach each other: 1)" in corpus.notes


def test_loops_and_repeats_are_dropped_and_noted() -> None:
    corpus = build(graph("ab", "ab", "ab", "cb", "bb", "dd", "db"))
    assert pairs(corpus) == {"a": "b", "c": "b", "d": "b"}
    assert corpus.labels.ids == ("b",)
    assert "2 edges from a node to itself were dropped" in corpus.notes
    assert "2 duplicate edges were dropped" in corpus.notes
    assert not any("cycle" in note for note in corpus.notes)


def test_a_clean_graph_has_no_notes_on_edges() -> None:
    notes = build(graph(*DIAMOND)).notes
    assert not any("dropped" in note or "cycle" in note for note in notes)


def test_nodes_without_edges_are_neither_rows_nor_labels() -> None:
    corpus = build(graph("ab", "cb", nodes="xyz"))
    assert set(pairs(corpus)) == {"a", "c"}
    assert corpus.labels.ids == ("b",)


def test_rows_have_the_text_and_labels_the_name() -> None:
    corpus = build(graph(*DIAMOND))
    assert corpus.labels.texts == ("name of a", "name of b", "name of c")
    split = next(split for split in (corpus.train, corpus.valid, corpus.test) if "d" in split.ids)
    assert split.texts is not None
    assert split.texts[split.ids.index("d")] == "text of d"


def star(children: int, prefix: str = "n") -> Hierarchy:
    """Children in pairs: each pair has a parent of its own."""
    parents = children // 2
    ids = [f"{prefix}{node}" for node in range(children + parents)]
    child = np.arange(children)
    return Hierarchy(name="star", ids=ids, names=ids, texts=ids, child=child, parent=children + child // 2)


def test_a_fifth_is_test_by_id() -> None:
    corpus = build(star(4000))
    assert 0.17 < len(corpus.test) / 4000 < 0.23
    other = build(star(4000), seed=1)
    assert set(other.test.ids) != set(corpus.test.ids)
    again = build(star(4000))
    assert again.test.ids == corpus.test.ids
    assert again.train.ids == corpus.train.ids


def test_a_row_keeps_its_side_when_others_come() -> None:
    before, after = build(star(600)), build(star(1000))
    children = {f"n{node}" for node in range(600)}
    assert set(before.test.ids) == set(after.test.ids) & children


def test_labels_that_only_test_has_stay() -> None:
    corpus = build(star(4000))
    assert len(corpus.labels) == 2000
    unseen = np.flatnonzero(corpus.labels.counts == 0)
    assert 30 < len(unseen) < 150  # a fifth of a fifth of 2000
    assert set(unseen) <= set(corpus.test.targets.indices)
    assert corpus.labels.train_rows == len(corpus.train) + len(corpus.valid)


def test_valid_may_be_left_to_the_reader() -> None:
    whole, held = build(star(1000), valid_share=0), build(star(1000))
    assert len(whole.valid) == 0
    assert set(whole.train.ids) == set(held.train.ids) | set(held.valid.ids)
    assert whole.test.ids == held.test.ids
    assert len(held.valid) > 0


def test_propensity_is_carried() -> None:
    assert build(star(10), propensity=Propensity(0.6, 2.6)).propensity == Propensity(0.6, 2.6)


def test_progress_is_reported() -> None:
    class Ears:
        heard = 0

        def start(self, name: str, total: int | None) -> int:
            self.name, self.total = name, total
            return 0

        def advance(self, handle: int, amount: int) -> None:
            self.heard += amount

        def finish(self, handle: int) -> None: ...

    ears = Ears()
    with listening(ears):
        build(star(100))
    assert (ears.name, ears.total, ears.heard) == ("finding ancestors", 100, 100)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"depth": 0}, "at least 1, got 0"),
        ({"test_share": 1.0}, "between 0 and 1, got 1.0"),
        ({"valid_share": -0.1}, r"at least 0 and below 1, got -0.1"),
    ],
)
def test_wrong_settings(change: dict[str, float], words: str) -> None:
    with pytest.raises(DataError, match=words):
        build(graph(*DIAMOND), **change)  # type: ignore[arg-type]


def test_too_few_documents() -> None:
    with pytest.raises(DataError, match="only 1 node has a parent"):
        build(graph("ab", "bb"))
    with pytest.raises(DataError, match="only 0 nodes have a parent"):
        build(graph(nodes="abc"))


def test_wrong_hierarchies() -> None:
    ids = ["a", "b"]
    ends = np.array([0], dtype=np.int32)
    good = {"name": "toy", "ids": ids, "names": ids, "texts": ids, "child": ends, "parent": ends + 1}
    Hierarchy(**good)
    for change, words in (
        ({"ids": ["a", "a"]}, "node id 'a' occurs twice"),
        ({"ids": ["a", ""]}, "node 1 has an empty id"),
        ({"names": ["a"]}, "2 node ids, 1 names and 2 texts"),
        ({"parent": ends + 2}, r"parent nodes of the edges must lie in 0..1"),
        ({"child": ends - 1}, r"child nodes of the edges must lie in 0..1"),
        ({"child": np.array([0, 1])}, "children but"),
    ):
        with pytest.raises(DataError, match=words):
            Hierarchy(**{**good, **change})


def slow_ancestors(edges: list[tuple[int, int]], node: int, depth: int) -> set[int]:
    found: set[int] = set()
    frontier = {node}
    for _ in range(depth):
        frontier = {parent for child, parent in edges if child in frontier}
        found |= frontier
    return found - {node}


node = st.integers(0, 11)


@given(
    edges=st.lists(st.tuples(node, node), max_size=40), depth=st.integers(1, 5), at_once=st.sampled_from([1, 3, 100])
)
def test_like_a_plain_search(edges: list[tuple[int, int]], depth: int, at_once: int) -> None:
    ids = [f"{number:02}" for number in range(12)]
    ends = np.array(edges, dtype=np.int32).reshape(-1, 2)
    toy = Hierarchy(name="toy", ids=ids, names=ids, texts=ids, child=ends[:, 0], parent=ends[:, 1])
    expected = {ids[node]: slow_ancestors(edges, node, depth) for node in range(12)}
    expected = {name: labels for name, labels in expected.items() if labels}
    if len(expected) < 2:
        with pytest.raises(DataError):
            build(toy, depth=depth)
        return
    before = module.ROWS_AT_ONCE
    module.ROWS_AT_ONCE = at_once  # so that a document lies at the edge of a chunk
    try:
        corpus = build(toy, depth=depth)
    finally:
        module.ROWS_AT_ONCE = before
    assert pairs(corpus) == {name: "".join(ids[label] for label in sorted(labels)) for name, labels in expected.items()}
    everything = set().union(*expected.values())
    assert set(corpus.labels.ids) == {ids[label] for label in everything}
    assert pairs(corpus, "excluded") == {name: name if int(name) in everything else "" for name in expected}


def test_many_paths_do_not_overflow() -> None:
    """300 middle nodes lead to the top: 300 paths, which a byte counter would forget as 300 mod 256."""
    for middle in (256, 300):
        ids = ["bottom", "top", *(f"m{number}" for number in range(middle))]
        inner = np.arange(2, middle + 2)
        child = np.concatenate([np.zeros(middle, int), inner])
        parent = np.concatenate([inner, np.ones(middle, int)])
        corpus = build(Hierarchy(name="toy", ids=ids, names=ids, texts=ids, child=child, parent=parent))
        top = corpus.labels.row_of["top"]
        split = next(split for split in (corpus.train, corpus.valid, corpus.test) if "bottom" in split.ids)
        assert split.targets[[split.ids.index("bottom")]].nnz == middle + 1
        assert split.targets[split.ids.index("bottom"), top] == 1
