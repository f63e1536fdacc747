"""Texts of the word-based nets, tokenised by the process that the workers are forked from.

Tokenising takes longer than training where a worker has one core.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


def tokenise_for_nets(given: Any, tails: Iterable[str]) -> None:
    """Tokenise what training and evaluation on valid read of `given`, a corpus, with the rows that each of these tail
    methods adds. To be called inside `sharing_tokens`, before the workers are started."""
    from longtail.data.subsample import evenly_spaced
    from longtail.nn.encoder_fit import CALIBRATION_ROWS, VALIDATION_ROWS
    from longtail.nn.encoders.tokenizers import learn_words
    from longtail.nn.encoders.tokens import tokenise
    from longtail.nn.shallow.shallow_settings import WORDS, ShallowSettings
    from longtail.recipe import Recipe

    sizes = (VALIDATION_ROWS, CALIBRATION_ROWS)
    evaluated = [given.valid.take(evenly_spaced(len(given.valid), size)).texts for size in sizes]
    for tail in tails:
        rows = given.train
        for method in Recipe.parse(f"astec{tail}").tail:
            rows = method.augment(rows)
        words = learn_words((*rows.texts, *filter(None, rows.labels.texts)), WORDS)
        for texts in (rows.texts, tuple(rows.labels.texts), *evaluated):
            tokenise(texts, words, ShallowSettings.max_tokens)
