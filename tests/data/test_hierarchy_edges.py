"""The two-column front end."""

from __future__ import annotations

import gzip
import lzma
from pathlib import Path

import pytest

from longtail.data.edges import read_edges
from longtail.data.hierarchy import build
from longtail.errors import DataError


def written(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    data = text.encode()
    path.write_bytes({".gz": gzip.compress, ".xz": lzma.compress}.get(path.suffix, bytes)(data))
    return path


EDGES = "# child, parent\ndog\tcanine\n\ncanine\tanimal\r\n  \ncat\tanimal\n"
NAMES = "animal\tAnimal\ncanine\tCanine beast\tdogs and wolves\ncat\tCat\ndog\tDog\ta friend\nnewt\tNewt\n"


@pytest.mark.parametrize("ending", ["", ".gz", ".xz"])
def test_edges_alone(tmp_path: Path, ending: str) -> None:
    hierarchy = read_edges(written(tmp_path, "animals.tsv" + ending, EDGES))
    assert hierarchy.name == "animals"
    assert hierarchy.ids == ["dog", "canine", "animal", "cat"]
    assert hierarchy.names == hierarchy.texts == hierarchy.ids
    edges = [(hierarchy.ids[a], hierarchy.ids[b]) for a, b in zip(hierarchy.child, hierarchy.parent, strict=True)]
    assert edges == [("dog", "canine"), ("canine", "animal"), ("cat", "animal")]


@pytest.mark.parametrize("ending", ["", ".gz", ".xz"])
def test_names_and_texts(tmp_path: Path, ending: str) -> None:
    edges = written(tmp_path, "edges.tsv", EDGES)
    hierarchy = read_edges(edges, written(tmp_path, "names.tsv" + ending, NAMES), name="beasts")
    assert hierarchy.name == "beasts"
    assert hierarchy.ids == ["animal", "canine", "cat", "dog", "newt"]
    assert hierarchy.names[1] == "Canine beast"
    assert hierarchy.texts == ["Animal", "Canine beast: dogs and wolves", "Cat", "Dog: a friend", "Newt"]
    corpus = build(hierarchy)
    assert sorted(corpus.train.ids + corpus.valid.ids + corpus.test.ids) == ["canine", "cat", "dog"]
    assert corpus.labels.texts == ("Animal", "Canine beast")


@pytest.mark.parametrize(
    ("edges", "line", "words"),
    [
        ("a\tb\nc\n", 2, r"expected child<TAB>parent, got 'c'"),
        ("a b\n", 1, "expected child<TAB>parent"),
        ("a\tb\n# fine\n\tb\n", 3, "expected child<TAB>parent"),
        ("a\t \n", 1, "expected child<TAB>parent"),
        ("a\tb\tc\n", 1, "expected child<TAB>parent"),
    ],
)
def test_wrong_edges(tmp_path: Path, edges: str, line: int, words: str) -> None:
    path = written(tmp_path, "edges.tsv", edges)
    with pytest.raises(DataError, match=words) as caught:
        read_edges(path)
    assert (caught.value.path, caught.value.line) == (path, line)


def test_a_node_without_a_name(tmp_path: Path) -> None:
    edges = written(tmp_path, "edges.tsv", "dog\tcanine\ndog\tcanin\n")
    with pytest.raises(DataError, match=r"edges.tsv:2: the node 'canin' is not in .*did you mean 'canine'"):
        read_edges(edges, written(tmp_path, "names.tsv", NAMES))


@pytest.mark.parametrize(
    ("names", "words"),
    [
        ("dog\tDog\ndog\tHound\n", "names.tsv:2: the id 'dog' occurs twice"),
        ("dog\n", "names.tsv:1: expected id<TAB>name"),
        ("dog\tDog\ttext\tmore\n", "names.tsv:1: expected id<TAB>name"),
    ],
)
def test_wrong_names(tmp_path: Path, names: str, words: str) -> None:
    with pytest.raises(DataError, match=words):
        read_edges(written(tmp_path, "edges.tsv", EDGES), written(tmp_path, "names.tsv", names))


def test_no_edges_and_no_file(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="has no edges"):
        read_edges(written(tmp_path, "edges.tsv", "# nothing\n"))
    with pytest.raises(DataError, match="no such file"):
        read_edges(tmp_path / "missing.tsv")
    broken = written(tmp_path, "edges.tsv.gz", EDGES)
    broken.write_bytes(broken.read_bytes()[:-9])
    with pytest.raises(DataError, match=r"edges.tsv.gz"):
        read_edges(broken)
