"""Claim: what LEVER's soft labels need of the processor takes a few seconds at the size of yso, most of it tokens.

    python benchmarks/soft_labels.py DATA --encoder FOLDER

On a GPU encoding and searching are quick, and what is left runs here: texts become tokens (once for the teacher, the
soft labels and the student), vectors get length 1, pairs that are given already are left out, relevances are learned
from held-out rows, and targets are joined. Neighbours are drawn at random: their number decides the time, not what they
are. One thread.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from typing import Any

os.environ["LONGTAIL_THREADS"] = os.environ["OMP_NUM_THREADS"] = "1"

DIMENSION, PLACES, HELD_OUT, CANDIDATES = 384, 15, 2000, 100


def timed(name: str, work: Callable[[], Any]) -> Any:
    begin = time.perf_counter()
    found = work()
    print(f"| {name} | {time.perf_counter() - begin:.2f} |", flush=True)
    return found


class Drawn:
    """An index that has its answers."""

    def __init__(self, rows: Any, cosines: Any) -> None:
        self.rows, self.cosines = rows, cosines

    def top(self, queries: Any, k: int) -> tuple[Any, Any]:
        return self.rows[: len(queries), :k], self.cosines[: len(queries), :k]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data")
    parser.add_argument("--encoder", required=True, help="folder whose tokenizer reads the texts")
    options = parser.parse_args()

    from pathlib import Path

    import numpy as np

    import longtail
    from longtail.metrics.calibration import Teaching
    from longtail.nn.lesson import Lesson
    from longtail.nn.read_once import reading_once
    from longtail.nn.relevance import estimate
    from longtail.nn.tokenizers import TextTokenizer
    from longtail.nn.tokens import tokenise
    from longtail.nn.towers import unit
    from longtail.search.soft import Near, new_documents, twin_targets

    corpus, chance = longtail.load(options.data), np.random.default_rng(0)
    train, labels = corpus.train, len(corpus.labels)
    tokenizer = TextTokenizer.from_folder(Path(options.encoder))
    print(f"{len(train):,} rows, {labels:,} labels\n\n| what | s |\n| --- | --: |")
    with reading_once():
        timed("texts to tokens, the first time", lambda: tokenise(train.texts, tokenizer, 64))
        timed(
            "the same and the labels, from then on",
            lambda: tokenise((*train.texts, *corpus.labels.texts), tokenizer, 64),
        )
    vectors = chance.standard_normal((len(train), DIMENSION), dtype=np.float32)
    timed("vectors to length 1", lambda: unit(vectors))
    cosines = -np.sort(-chance.random((labels, PLACES), dtype=np.float32), axis=1)
    index = Drawn(chance.integers(0, len(train), (labels, PLACES)).astype(np.int32), cosines)
    few = np.empty((labels, 0), dtype=np.float32)
    documents = timed(
        "nearest documents without those that are given",
        lambda: new_documents(index, few, train.targets, train.excluded, PLACES),  # type: ignore[arg-type]
    )
    steps = np.cumsum(chance.integers(1, labels // PLACES, (labels, PLACES - 1)), axis=1)
    near = Near(((np.arange(labels)[:, None] + steps) % labels).astype(np.int32), cosines[:, 1:])
    scores = chance.random(HELD_OUT * CANDIDATES, dtype=np.float32)
    hits = chance.random(len(scores)) < 0.1 * scores
    relevance = timed("relevances from held-out rows", lambda: estimate("isotonic", scores, hits))
    twins = twin_targets(train.targets, train.excluded)
    lesson = Lesson(near, documents, twins, 0.0, relevance, Teaching("", "isotonic"))
    timed("targets joined, label rows added", lambda: lesson.softened(train, PLACES, 0.0))


if __name__ == "__main__":
    main()
