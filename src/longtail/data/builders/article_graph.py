"""Pages that refer to pages: references resolved, split into train and test, and which pairs are excluded.

Pages are keys here, 8 bytes each, so that the graph of all of Wikipedia fits into a gigabyte.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from longtail.arrays import AnyArray
from longtail.data.builders.buckets import Found, by_bucket
from longtail.data.builders.keys import Keys, KeyTable, keys_of, salted
from longtail.data.builders.stored_ids import StoredIds
from longtail.data.builders.work import remember
from longtail.errors import DataError


@dataclass(frozen=True)
class Page:
    """One page: a redirect, or an article with the titles it refers to."""

    title: str
    redirect: str | None = None
    links: tuple[str, ...] = ()
    text: str = ""  # without the references; "" where there are none
    label: str = ""  # the text that stands for the page as a label


def found_in(pages: Sequence[Page], buckets: int, found: Found) -> Found:
    """Pages as bytes: keys of articles, redirects and links, and texts by bucket.

    Args:
        pages: of one piece.
        buckets: of the texts.
        found: to add to.

    Returns:
        `found`.
    """
    articles = [page for page in pages if page.redirect is None]
    redirects = [page for page in pages if page.redirect is not None]
    links = [(page.title, target) for page in articles for target in page.links]
    keys = keys_of([page.title.encode() for page in articles])
    found.counts["articles"] += len(articles)
    found.counts["redirects"] += len(redirects)
    found.counts["links"] += len(links)
    found.outputs |= {
        "articles": keys.tobytes(),
        "titles": b"".join([page.title.encode() + b"\n" for page in articles]),
        "redirects": _pairs([(page.title, page.redirect or "") for page in redirects]),
        "links": _pairs(links),
    }
    lines = (json.dumps([page.title, page.label, page.text], ensure_ascii=False) for page in articles)
    placed = zip(bucket_places(keys, buckets).tolist(), (line.encode() for line in lines), strict=True)
    found.outputs |= by_bucket("pages", placed)
    return found


def bucket_places(keys: Keys, buckets: int) -> AnyArray:
    """The bucket of each key.

    Args:
        keys: (keys,)
        buckets: how many there are.

    Returns:
        (keys,) int64
    """
    return ((keys >> np.uint64(32)) % np.uint64(buckets)).astype(np.int64)


def _pairs(titles: Sequence[tuple[str, str]]) -> bytes:
    flat = keys_of([title.encode() for pair in titles for title in pair])
    return flat.tobytes()


def _read(folder: Path, name: str, width: int) -> Keys:
    path = folder / name
    found = np.fromfile(path, dtype=np.uint64) if path.exists() else np.zeros(0, np.uint64)
    return found.reshape(-1, width) if width > 1 else found


def _different(pairs: Keys) -> Keys:
    """Sorted pairs, each once."""
    pairs = pairs[np.lexsort((pairs[:, 1], pairs[:, 0]))]
    new = np.ones(len(pairs), dtype=np.bool_)
    new[1:] = (pairs[1:] != pairs[:-1]).any(axis=1)
    return pairs[new]


def _pair_keys(pairs: Keys) -> Keys:
    """One key for each pair, for tests of membership."""
    return salted(pairs[:, 0], 1) ^ salted(pairs[:, 1], 2)


def _titles_of(pages: Path, labels: KeyTable, number: int) -> list[bytes]:
    """The titles of labels, in the order of their numbers."""
    titles = [b""] * number
    with (pages / "titles").open("rb") as file:
        for label, line in zip(labels.numbers(_read(pages, "articles", 1)).tolist(), file, strict=True):
            if label >= 0:
                titles[label] = line.removesuffix(b"\n")
    return titles


def resolve(pages: Path, share: float, seed: int, least: int, source: Path, folder: Path) -> None:
    """Makes rows, labels and excluded pairs of the references.

    A reference counts if it leads to an article, directly or over one redirect. Rows are drawn into test by a seeded
    hash of the title. Labels are articles to which `least` train rows refer. Excluded are a page as its own label, and
    for a test row every label that is a train row which refers to it: such a pair is known from train, backwards.

    Args:
        pages: the folder that `found_in` filled.
        share: of the rows that become test.
        seed: of the split.
        least: train rows of a label.
        source: for messages.
        folder: to write `train.npy`, `test.npy`, `excluded.npy`, the table of labels and their titles into.

    Raises:
        DataError: no reference is left.
    """
    articles = KeyTable.of(_read(pages, "articles", 1))
    links, redirects = _read(pages, "links", 2), _read(pages, "redirects", 2)
    numbers = KeyTable.of(np.ascontiguousarray(redirects[:, 0])).numbers(np.ascontiguousarray(links[:, 1]))
    direct = articles.has(np.ascontiguousarray(links[:, 1]))
    over = ~direct & (numbers >= 0)
    links[over, 1] = redirects[numbers[over], 1]
    there = direct.copy()
    there[over] = articles.has(np.ascontiguousarray(links[over, 1]))
    pairs = _different(links[there & (links[:, 0] != links[:, 1])])
    if len(pairs) == 0:
        raise DataError("no page refers to another page; check the name of the section (--section)", source)
    in_test = salted(pairs[:, 0], seed + 11) < np.uint64(int(share * 2**64))
    train, test = pairs[~in_test], pairs[in_test]
    targets, counts = np.unique(train[:, 1], return_counts=True)
    kept = counts >= least
    targets, counts = targets[kept], counts[kept]
    labels = targets[np.lexsort((targets, -counts))]
    table = KeyTable.of(labels)
    train, test = (part[table.has(np.ascontiguousarray(part[:, 1]))] for part in (train, test))
    backwards = _pair_keys(train[:, ::-1]) if len(train) else np.zeros(0, np.uint64)
    known_backwards = np.isin(_pair_keys(test), backwards)
    test_rows = KeyTable.of(np.unique(test[:, 0]))
    # (a, b) for test rows a and train rows b that refer to a, where b is a label
    reciprocal = train[test_rows.has(np.ascontiguousarray(train[:, 1]))][:, ::-1]
    reciprocal = reciprocal[table.has(np.ascontiguousarray(reciprocal[:, 1]))]
    test = test[~known_backwards]
    rows = np.unique(np.concatenate([train[:, 0], test[:, 0]]))
    own = rows[table.has(rows)]
    excluded = np.concatenate([np.stack([own, own], axis=1), reciprocal])
    excluded = _different(excluded[KeyTable.of(rows).has(np.ascontiguousarray(excluded[:, 0]))])
    table.save(folder, "labels")
    StoredIds.save(folder, _titles_of(pages, table, len(labels)))
    for name, part in (("train", train), ("test", test), ("excluded", excluded)):
        np.save(folder / f"{name}.npy", part)
    facts = {
        "labels": len(labels),
        "lost": int((~there).sum()),
        "references": len(links),
        "own": len(own),
        "reciprocal": int(known_backwards.sum()),
    }
    remember(folder, "facts", facts)
