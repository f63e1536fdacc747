"""The WordNet set inside the package is what its README says it is."""

from __future__ import annotations

import json
import lzma
from pathlib import Path

import numpy as np
import pytest

import longtail
from longtail.data.corpus import Corpus, held_out
from longtail.data.dataset import Dataset
from longtail.data.labels import Propensity
from longtail.data.read import load

FOLDER = Path(longtail.__file__).parent / "data" / "wordnet"


@pytest.fixture(scope="module")
def wordnet() -> Corpus:
    return load("wordnet")


def splits(corpus: Corpus) -> tuple[Dataset, Dataset, Dataset]:
    return corpus.train, corpus.valid, corpus.test


def labels_of(corpus: Corpus, name: str) -> list[str]:
    split = next(split for split in splits(corpus) if name in split.ids)
    return [corpus.labels.texts[column] for column in split.targets[[split.ids.index(name)]].indices]


def test_sizes(wordnet: Corpus) -> None:
    assert wordnet.name == "wordnet"
    assert wordnet.propensity == Propensity(0.55, 1.5)
    assert len(wordnet.train) + len(wordnet.valid) == 76_135
    assert len(wordnet.test) == 19_187
    assert len(wordnet.labels) == 20_472
    assert sum(split.targets.nnz for split in splits(wordnet)) == 292_261
    assert wordnet.labels.train_rows == 76_135
    assert int((wordnet.labels.counts == 0).sum()) == 1_514  # zero-shot


def test_every_row_has_words_and_labels(wordnet: Corpus) -> None:
    for split in splits(wordnet):
        assert np.diff(split.targets.indptr).min() >= 1
        assert split.texts is not None
        assert all(": " in text and len(text) > 4 for text in split.texts)
    assert all(wordnet.labels.texts)
    assert not any("_" in text for text in wordnet.labels.texts)


def test_ids(wordnet: Corpus) -> None:
    ids = [name for split in splits(wordnet) for name in split.ids]
    assert len(set(ids)) == len(ids) == 95_322
    assert all(len(name) == 9 and name[0] in "nv" and name[1:].isdecimal() for name in ids)


def test_the_dog(wordnet: Corpus) -> None:
    """Two hypernyms, and theirs, three steps up."""
    assert sorted(labels_of(wordnet, "n02084071")) == [
        "animal, animate being, beast, brute, creature, fauna",
        "canine, canid",
        "carnivore",
        "domestic animal, domesticated animal",
        "organism, being",
        "placental, placental mammal, eutherian, eutherian mammal",
    ]
    assert labels_of(wordnet, "v00002724") == ["breathe, take a breath, respire, suspire"]  # to choke


def test_a_node_is_never_its_own_label(wordnet: Corpus) -> None:
    for split in splits(wordnet):
        own = [
            (row, wordnet.labels.row_of[name]) for row, name in enumerate(split.ids) if name in wordnet.labels.row_of
        ]
        assert split.excluded is not None
        assert sorted(zip(*split.excluded.nonzero(), strict=True)) == own
        rows, columns = zip(*own, strict=True)
        assert split.targets[list(rows), list(columns)].sum() == 0


def test_the_split_is_the_seeded_hash(wordnet: Corpus) -> None:
    ids = [name for split in splits(wordnet) for name in split.ids]
    test = held_out(ids, 0.2, 1)
    assert {name for name, chosen in zip(ids, test, strict=True) if chosen} == set(wordnet.test.ids)


def test_it_is_small_and_has_its_licence() -> None:
    sizes = {path.name: path.stat().st_size for path in FOLDER.iterdir()}
    assert set(sizes) == {
        "LICENSE",
        "README.md",
        "corpus.json",
        "exclude.jsonl.xz",
        "labels.jsonl.xz",
        "test.jsonl.xz",
        "train.jsonl.xz",
    }
    assert sum(sizes.values()) < 5_000_000
    assert max(sizes.values()) < 3_000_000
    licence = (FOLDER / "LICENSE").read_text(encoding="utf-8")
    assert "WordNet 3.0 Copyright 2006 by Princeton University" in licence
    assert licence.rstrip().endswith("LICENSEE agrees to preserve same.")


def test_the_files_are_plain_json_lines() -> None:
    with lzma.open(FOLDER / "labels.jsonl.xz", "rt", encoding="utf-8") as file:
        first = json.loads(next(file))
    assert first == {"id": "n00001740", "text": "entity"}
