"""The word vectors that an encoder begins with, by word."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from longtail.arrays import Floats, Longs
from longtail.errors import DataError
from longtail.nn import pretrained
from longtail.nn.encoders import find_folder
from longtail.nn.tokenizers import TextTokenizer

TABLES = ("words.weight", "word_embeddings.weight", "embed_tokens.weight", "wte.weight")


def word_table(encoder: str, words: Sequence[str]) -> tuple[Longs, Floats]:
    """Which of the words the encoder knows as one token, and their vectors (words known, width), less the mean of all:
    tables of encoders lean to one side, which would make every word like every other."""
    folder = find_folder(encoder)
    tokenizer = TextTokenizer.from_folder(folder)
    weights = pretrained.read(folder)[1]
    table = next((tensor for name, tensor in weights.items() if name.endswith(TABLES)), None)
    if table is None:
        raise DataError(f"{encoder} has no table of word vectors that is known here; use another encoder")
    empty = tokenizer.encode([""], 8)[0]
    extra = 0 if empty == [tokenizer.unknown] else len(empty)  # special tokens around every text
    before = extra - int(tokenizer.closed)
    ids = tokenizer.encode(words, 8)
    known = [row for row, found in enumerate(ids) if len(found) == extra + 1 and found[before] != tokenizer.unknown]
    vectors = table.float().numpy()
    chosen = vectors[[ids[row][before] for row in known]]
    return np.array(known, dtype=np.int64), np.asarray(chosen - vectors.mean(axis=0), dtype=np.float32)
