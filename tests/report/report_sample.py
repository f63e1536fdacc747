"""A small corpus with a long tail, and recipes of different skill on it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy import sparse

from longtail.data.corpus import Corpus, make_corpus
from longtail.data.dataset import Dataset
from longtail.data.labels import LabelSet
from longtail.dial import dial_curve
from longtail.metrics.evaluate import evaluate
from longtail.predictions import Predictions
from longtail.report.result import Result

WORDS = ("river", "stone", "harbour", "letter", "winter", "garden", "engine", "market", "island", "silver")
HOSTILE = (
    "</script><script>window.hacked = 1</script>",
    '<img src="x" onerror="window.hacked = 2">',
    "quotes \" and ' and ` and & and &lt; and \\u003c",
    "<!-- <script> a comment that never ends",
    "שלום עולם \u202e right to left, unclosed override",
    "👩‍👩‍👧‍👦 🏴‍☠️ emoji",
    "control \x00\x07\x1b[31m\x7f\x85 characters \ud800 and a lone surrogate",
    "a-very-long-word-" * 40,
    "",
    "]]> ${1+1} {{7*7}} %s \u2028 \u2029 javascript:alert(1)",
)


def sample_corpus(rows: int = 120, labels: int = 60, *, hostile: bool = False, words: int = 12) -> Corpus:
    """Label frequencies fall like 1/rank; the last labels are only in the test split."""
    rng = np.random.default_rng(7)
    names = [f"{WORDS[row % len(WORDS)]} {row}" for row in range(labels)]
    if hostile:
        names = [f"{HOSTILE[row % len(HOSTILE)]} {row}" for row in range(labels)]
    label_set = LabelSet(ids=tuple(f"L{row}" for row in range(labels)), texts=tuple(names))
    weights = 1 / np.arange(1, labels + 1)

    def split(number: int, prefix: str, last: int) -> Dataset:
        share = weights[:last] / weights[:last].sum()
        picked = [np.sort(rng.choice(last, size=3, replace=False, p=share)) for _ in range(number)]
        targets = sparse.csr_array(
            (np.ones(3 * number, np.float32), np.concatenate(picked), np.arange(0, 3 * number + 1, 3)),
            shape=(number, labels),
        )
        texts = [" ".join(rng.choice(WORDS, size=words)) for _ in range(number)]
        if hostile:
            texts = [f"{HOSTILE[row % len(HOSTILE)]} {text}" for row, text in enumerate(texts)]
        return Dataset(
            labels=label_set, targets=targets, ids=tuple(f"{prefix}{row}" for row in range(number)), texts=texts
        )

    return make_corpus(
        name="<sample> & co" if hostile else "sample",
        train=split(2 * rows, "a", labels - 6),
        valid=split(10, "b", labels),
        test=split(rows, "c", labels),
        notes=("a note with <b>markup</b>",) if hostile else ("held out by hand",),
    )


def sample_result(recipe: str, corpus: Corpus, *, skill: float = 0.5, rare: bool = False, seed: int = 0) -> Result:
    """Finds each true label with probability `skill` (only rare ones where asked) and guesses the rest."""
    rng = np.random.default_rng(seed)
    labels, test = len(corpus.labels), corpus.test
    scores = rng.random((len(test), labels)).astype(np.float32) * 0.5
    for row in range(len(test)):
        for label in test.targets.indices[test.targets.indptr[row] : test.targets.indptr[row + 1]]:
            if rng.random() < skill and (not rare or corpus.labels.counts[label] <= 5):
                scores[row, label] += 0.5
    indices = np.argsort(-scores, axis=1)[:, :10].astype(np.int32)
    predictions = Predictions(corpus.labels, indices, np.take_along_axis(scores, indices, axis=1))
    return Result(
        recipe=recipe,
        measures=evaluate(predictions, test),
        predictions=predictions,
        train_seconds=1.5 + 3 * seed,
        predict_seconds=0.2 + seed,
        peak_bytes=(seed + 1) * 250_000_000,
        model_bytes=(seed + 1) * 3_000_000,
    )


def with_dial(result: Result, corpus: Corpus) -> Result:
    """The same with its measures as the dial turns."""
    return replace(result, dial=dial_curve(result.predictions, corpus.test))
