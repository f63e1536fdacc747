"""Of which texts a scorer can read something: trees, unlike products over words, answer even if they know no word."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from longtail.arrays import Bools
from longtail.data.dataset import Rows
from longtail.linear.features.sparse_features import Features, Vocabulary
from longtail.seams import KnowsWords

_word = re.compile(r"\w")


def knows_words(scorer: Any, rows: Rows) -> Bools:
    """Find the rows of which a scorer can read something.

    Args:
        scorer: any scorer.
        rows: texts, features or both.

    Returns:
        (rows,) for a scorer over words, whether it knows one of the row's; for another, whether the text has a word.
    """
    features, vocabulary = getattr(scorer, "features", None), getattr(scorer, "vocabulary", None)
    known: Bools
    if isinstance(scorer, KnowsWords):
        known = scorer.knows_words(rows)
    elif isinstance(features, Features):
        known = np.diff(features.of(rows).indptr) > 0
    elif isinstance(vocabulary, Vocabulary) and rows.texts is not None:
        known = np.diff(vocabulary.count(rows.texts).indptr) > 0
    elif rows.texts is not None:
        known = np.array([_word.search(text) is not None for text in rows.texts], dtype=np.bool_)
    else:
        assert rows.features is not None
        known = np.diff(rows.features.indptr) > 0
    return known
