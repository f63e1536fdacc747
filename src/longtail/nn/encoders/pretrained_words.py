"""The word vectors of a pretrained encoder, by word."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from longtail.arrays import Floats, Longs
from longtail.errors import DataError
from longtail.nn.encoders import pretrained
from longtail.nn.encoders.build import find_folder
from longtail.nn.encoders.tokenizers import TextTokenizer

TABLES = ("words.weight", "word_embeddings.weight", "embed_tokens.weight", "wte.weight")


def word_table(encoder: str, words: Sequence[str]) -> tuple[Longs, Floats]:
    """Look up the word vectors of a pretrained encoder.

    The mean of all vectors is subtracted: they have a large common part, which would make all words similar.

    Args:
        encoder: Its name.
        words: The words to look up.

    Returns:
        (known,) int64, which of the words the encoder has as a single token; and their vectors (known, width) float32.

    Raises:
        DataError: The encoder is unknown, or has no table of word vectors.
    """
    folder = find_folder(encoder)
    tokenizer = TextTokenizer.from_folder(folder)
    weights = pretrained.read(folder)[1]
    table = next((tensor for name, tensor in weights.items() if name.endswith(TABLES)), None)
    if table is None:
        raise DataError(
            f"the encoder {encoder} has no table of word vectors under a known name ({', '.join(TABLES)}); use another "
            "encoder"
        )
    empty = tokenizer.encode([""], 8)[0]
    extra = 0 if empty == [tokenizer.unknown] else len(empty)  # special tokens around every text
    before = extra - int(tokenizer.closed)
    ids = tokenizer.encode(words, 8)
    known = [row for row, own in enumerate(ids) if len(own) == extra + 1 and own[before] != tokenizer.unknown]
    vectors = table.float().numpy()
    chosen = vectors[[ids[row][before] for row in known]]
    return np.array(known, dtype=np.int64), np.asarray(chosen - vectors.mean(axis=0), dtype=np.float32)
