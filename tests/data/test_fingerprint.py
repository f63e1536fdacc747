"""The hash of a data set's content."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from longtail.data import Corpus
from longtail.data.fingerprint import fingerprint


def test_equal_content_has_an_equal_hash_and_other_content_another(tiny: Corpus) -> None:
    data = tiny.train
    copy = data.take(np.arange(len(data)))
    assert copy is not data and fingerprint(copy) == fingerprint(data)
    texts = list(data.texts or ())
    texts[3] += "!"
    moved = list(data.texts or ())
    moved[0], moved[1] = f"{moved[0]} {moved[1]}", ""  # the same letters, cut elsewhere
    others = [
        data.take(np.arange(1, len(data))),
        data.take(np.arange(len(data))[::-1]),
        replace(data, texts=tuple(texts)),
        replace(data, texts=tuple(moved)),
        replace(data, targets=data.targets * np.float32(0.5)),
        replace(data, ids=tuple(f"x{name}" for name in data.ids)),
        data.over(replace(data.labels, counts=data.labels.counts + 1)),
        replace(data, excluded=data.targets.astype(bool)),
    ]
    assert len({fingerprint(one) for one in (data, *others)}) == len(others) + 1
