"""Processes that train side by side on one GPU, after the data were read once.

The parent reads the splits and tokenises their texts with every core. Workers are forked from it, so none of them
imports, reads or tokenises again. For the same reason the parent must not use the GPU before it starts them.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from multiprocessing.pool import Pool
from pathlib import Path
from typing import Any

from shared.splits import splits


@contextmanager
def worker_pool(workers: int, data: Iterable[str], rows: int | None, encoders: Iterable[str] = ()) -> Iterator[Pool]:
    """Workers that hold the splits of each folder in `data`, and their tokens for each encoder that is a folder. They
    are stopped at the end of the block, whether or not they still work."""
    from longtail.nn.encoders.token_cache import sharing_tokens

    with sharing_tokens():
        for folder in data:
            parts = splits(folder, rows)
            for encoder in encoders:
                if Path(encoder).is_dir():
                    tokenise_all(encoder, parts)
        cores = os.cpu_count() or 2
        threads = max(min(cores // workers, int(os.environ.get("OMP_NUM_THREADS", cores))), 1)
        with multiprocessing.get_context("fork").Pool(workers, set_threads, (threads,)) as pool:
            yield pool


def tokenise_all(encoder: str, parts: tuple[Any, Any, Any]) -> None:
    """Tokenise all texts as this encoder reads them; `sharing_tokens` keeps the result."""
    from longtail.learners.dpr import Dpr
    from longtail.nn.encoders.tokenizers import TextTokenizer
    from longtail.nn.encoders.tokens import tokenise

    tokenizer, own = TextTokenizer.from_folder(Path(encoder)), Dpr()
    for texts in (*(part.texts or () for part in parts), own.label_texts(parts[0].labels)):
        tokenise(texts, tokenizer, own.max_tokens)


def set_threads(threads: int) -> None:
    os.environ["OMP_NUM_THREADS"] = os.environ["LONGTAIL_THREADS"] = str(threads)
    import torch

    torch.set_num_threads(threads)
