"""Claim: the work on a processor for LEVER's soft labels takes a few seconds at the size of yso, most of it tokenising.

    python benchmarks/soft_labels.py DATA --encoder FOLDER

On a GPU, encoding and searching are quick, and the rest runs here: texts are tokenised (once for the teacher, the soft
labels and the student), vectors are normalised, pairs that are already targets are left out, relevances are fitted on
held-out rows, and targets are joined. Neighbours are drawn at random: the time depends on their number only. Prints a
table of seconds, in one thread.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from shared.command import parser_for
from shared.tables import header, row
from shared.timing import timed

DIMENSION, PLACES, HELD_OUT, CANDIDATES = 384, 15, 2000, 100


def show(name: str, work: Callable[[], Any]) -> Any:
    """Do the work, print its seconds as a row of the table, and return its result."""
    spent = timed(work)
    print(row([name, f"{spent.seconds:.2f}"]), flush=True)
    return spent.result


class Drawn:
    """An index whose answers are given."""

    def __init__(self, rows: Any, cosines: Any) -> None:
        self.rows, self.cosines = rows, cosines

    def top(self, queries: Any, k: int) -> tuple[Any, Any]:
        return self.rows[: len(queries), :k], self.cosines[: len(queries), :k]


def main() -> None:
    parser = parser_for(__doc__)
    parser.add_argument("data", help="name or folder of a data set")
    parser.add_argument("--encoder", required=True, help="folder whose tokenizer reads the texts")
    options = parser.parse_args()
    os.environ["LONGTAIL_THREADS"] = os.environ["OMP_NUM_THREADS"] = "1"  # before NumPy and torch are loaded

    import numpy as np

    import longtail
    from longtail.metrics.calibration import Teaching
    from longtail.nn.distill.relevance import estimate
    from longtail.nn.distill.soft_labels import SoftLabels
    from longtail.nn.encoders.text_encoder import normalised
    from longtail.nn.encoders.token_cache import sharing_tokens
    from longtail.nn.encoders.tokenizers import TextTokenizer
    from longtail.nn.encoders.tokens import tokenise
    from longtail.search.soft import Neighbours, new_documents, twin_targets

    corpus, rng = longtail.load(options.data), np.random.default_rng(0)
    train, labels = corpus.train, len(corpus.labels)
    tokenizer = TextTokenizer.from_folder(Path(options.encoder))
    print(f"{len(train):,} rows, {labels:,} labels\n\n{header(['what', 's'])}")
    with sharing_tokens():
        show("texts to tokens, the first time", lambda: tokenise(train.texts, tokenizer, 64))
        show(
            "the same and the labels, from then on",
            lambda: tokenise((*train.texts, *corpus.labels.texts), tokenizer, 64),
        )
    vectors = rng.standard_normal((len(train), DIMENSION), dtype=np.float32)
    show("vectors normalised", lambda: normalised(vectors))
    cosines = -np.sort(-rng.random((labels, PLACES), dtype=np.float32), axis=1)
    index = Drawn(rng.integers(0, len(train), (labels, PLACES)).astype(np.int32), cosines)
    few = np.empty((labels, 0), dtype=np.float32)
    documents = show(
        "nearest documents without those that are targets already",
        lambda: new_documents(index, few, train.targets, train.excluded, PLACES),  # type: ignore[arg-type]
    )
    steps = np.cumsum(rng.integers(1, labels // PLACES, (labels, PLACES - 1)), axis=1)
    near = Neighbours(((np.arange(labels)[:, None] + steps) % labels).astype(np.int32), cosines[:, 1:])
    scores = rng.random(HELD_OUT * CANDIDATES, dtype=np.float32)
    hits = rng.random(len(scores)) < 0.1 * scores
    relevance = show("relevances from held-out rows", lambda: estimate("isotonic", scores, hits))
    twins = twin_targets(train.targets, train.excluded)
    soft_labels = SoftLabels(near, documents, twins, 0.0, relevance, Teaching("", "isotonic"))
    show("targets joined, label rows added", lambda: soft_labels.softened(train, PLACES, 0.0))


if __name__ == "__main__":
    main()
