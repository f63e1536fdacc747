"""Words and tokens of frugal nets, learned by the process that others are copies of.

Learning words and cutting texts takes longer than training on them where a worker has one core.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

_known: dict[tuple[int, int, int], Any] = {}


def known(texts: Sequence[str], most: int) -> Any:
    """The words of these texts, as learned before."""
    from longtail.nn.tokenizers import learn_words

    key = (hash(tuple(texts)), len(texts), most)
    if key not in _known:
        _known[key] = learn_words(texts, most)
    return _known[key]


def learn(given: Any, tails: Iterable[str]) -> None:
    """Words of `given`, a corpus, with the rows that each of these tail methods adds, and all tokens that training and
    looks at valid read. To be called where texts are read once, before any process that shares them begins."""
    from longtail.nn.fit import MEASURED_ROWS, SCALE_ROWS, spread
    from longtail.nn.frugal import fit
    from longtail.nn.frugal.settings import WORDS, FrugalSettings
    from longtail.nn.tokens import tokenise
    from longtail.recipe import Recipe

    fit.learn_words = known
    looks = [given.valid.take(spread(len(given.valid), some)).texts for some in (MEASURED_ROWS, SCALE_ROWS)]
    for tail in tails:
        rows = given.train
        for method in Recipe.parse(f"astec{tail}").tail:
            rows = method.augment(rows)
        words = known((*rows.texts, *filter(None, rows.labels.texts)), WORDS)
        for texts in (rows.texts, tuple(rows.labels.texts), *looks):
            tokenise(texts, words, FrugalSettings.longest)
