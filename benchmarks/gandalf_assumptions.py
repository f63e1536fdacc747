"""Do the assumptions of Gandalf hold on a data set? No model is trained.

    python benchmarks/gandalf_assumptions.py DATA [DATA ...]

Prints three tables for each data set:

1. Label texts and rows are interchangeable: how much of a label's text occurs in the texts of its rows, compared with
   random other rows.
2. A row whose text is label j has label i as often as a row with label j: soft targets from train beside what is seen
   on valid, on rows that have label j and on rows whose text holds every word of j's text.
3. Labels occur together often enough to be counted: links above the threshold, by frequency of the label.
"""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
from scipy import sparse

import longtail
from longtail.data import Corpus, Dataset
from shared.command import parser_for
from shared.splits import columns_for, word_matrix
from shared.tables import table

THRESHOLD = 0.1
TARGETS = (0.1, 0.2, 0.4, 0.6, 0.8, 1.0)
ROWS = ((1, 1), (2, 2), (3, 9), (10, 99), (100, 10**9))  # training rows of a label


def name_of(bounds: tuple[int, int]) -> str:
    low, high = bounds
    if high >= 10**9:
        return f"{low} and more"
    return str(low) if low == high else f"{low} to {high}"


def of_count(counts: np.ndarray, bounds: tuple[int, int]) -> np.ndarray:
    found: np.ndarray = (counts >= bounds[0]) & (counts <= bounds[1])
    return found


def interchangeable(data: Dataset, texts: sparse.csr_array, labels: sparse.csr_array) -> str:
    """How much of a label's text occurs in a row, for the labels of the row and for those of another row."""
    rng = np.random.default_rng(0)
    counts = data.labels.counts
    sizes = np.diff(labels.indptr)
    rows = np.repeat(np.arange(len(data)), np.diff(data.targets.indptr))
    wanted = data.targets.indices
    other = rng.permutation(len(data))[rows]
    able = sizes[wanted] > 0
    rows, other, wanted = rows[able], other[able], wanted[able]
    lines = []
    for bounds in (*ROWS, (1, 10**9)):
        some = of_count(counts[wanted], bounds)
        cells = [name_of(bounds) if bounds != (1, 10**9) else "all", f"{some.sum():,}"]
        for who in (rows, other):
            held = np.asarray((texts[who[some]].multiply(labels[wanted[some]])).sum(axis=1)).ravel()
            share = held / sizes[wanted[some]]
            cells += [f"{100 * (share == 1).mean():.1f}", f"{100 * (share > 0).mean():.1f}"]
        lines.append(cells)
    head = ["training rows of the label", "pairs", "all its words", "any of them", "all, another row's", "any"]
    return table(head, lines)


def holds(train: Dataset, valid: Dataset, texts: sparse.csr_array, labels: sparse.csr_array) -> str:
    """Soft targets beside what is seen: by the label's training rows and by the target."""
    from longtail.linear.graph.cooccurrence import cooccurrence

    graph = sparse.coo_array(cooccurrence(train.targets, THRESHOLD, None, 0))
    apart = graph.row != graph.col
    from_, to, soft = graph.row[apart], graph.col[apart], graph.data[apart]
    sizes, counts = np.diff(labels.indptr), train.labels.counts
    have = sparse.csr_array((valid.targets > 0).astype(np.float32))
    found = sparse.coo_array(texts @ labels.T)  # words that a row and a label share
    whole = found.data >= sizes[found.col]
    named = sparse.csr_array((np.ones(whole.sum(), np.float32), (found.row[whole], found.col[whole])), shape=have.shape)
    # On how many rows each label occurs or is named, and on how many of these each other label is right.
    seen = [(np.asarray(one.sum(axis=0)).ravel(), sparse.csr_array(one.T) @ have) for one in (have, named)]
    lines = []
    for low, high in pairwise(TARGETS):
        for bounds in ((1, 2), (3, 9), (10, 10**9)):
            some = (soft > low) & (soft <= high) & of_count(counts[from_], bounds)
            if not some.any():
                continue
            cells = [f"{low:g} to {high:g}", name_of(bounds), f"{some.sum():,}", f"{soft[some].mean():.2f}"]
            for often, both in seen:
                times = often[from_[some]].sum()
                right = both[from_[some], to[some]].sum()
                cells += [f"{right / times:.2f}" if times else "", f"{times:,.0f}"]
            lines.append(cells)
    head = ["soft target", "training rows of the label", "links", "mean", "on valid rows with the label", "times",
            "on valid rows with its text", "times"]  # fmt: skip
    return table(head, lines)


def linked(train: Dataset) -> str:
    from longtail.linear.graph.cooccurrence import cooccurrence

    graph = cooccurrence(train.targets, THRESHOLD, None, 0)
    floor = cooccurrence(train.targets, THRESHOLD, None, 3)
    counts = train.labels.counts
    lines = []
    for bounds in ROWS:
        some = of_count(counts, bounds)
        cells = [name_of(bounds), f"{100 * some.mean():.0f}%"]
        for one in (graph, floor):
            others = np.diff(one.indptr)[some] - 1
            cells += [f"{100 * (others > 0).mean():.0f}%", f"{others.mean():.1f}"]
        lines.append(cells)
    head = [
        "training rows of the label",
        "labels",
        f"linked above {THRESHOLD}",
        "links",
        "with at least 3 rows",
        "links",
    ]
    return table(head, lines)


def main() -> None:
    parser = parser_for(__doc__)
    parser.add_argument("data", nargs="+", help="names or folders of data sets with texts")
    for folder in parser.parse_args().data:
        corpus: Corpus = longtail.load(folder)
        train, valid = corpus.train, corpus.valid
        assert valid is not None and train.texts is not None and valid.texts is not None
        known: dict[str, int] = {}
        parts = [columns_for(texts, known) for texts in (train.labels.texts, train.texts, valid.texts)]
        labels, rows, held_out = (word_matrix(part, len(known)) for part in parts)
        print(f"\n## {Path(folder).name}: {len(train):,} rows, {len(train.labels):,} labels\n")
        print("Percent of pairs in which a row holds words of its label's text:\n")
        print(interchangeable(train, rows, labels) + "\n")
        print(f"How often a soft target is right:\n\n{holds(train, valid, held_out, labels)}\n")
        print(f"Labels that are linked to others:\n\n{linked(train)}")


if __name__ == "__main__":
    main()
