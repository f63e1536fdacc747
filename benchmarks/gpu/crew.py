"""Processes that train side by side on one GPU, after one reading of the data.

The parent reads the splits and cuts their texts into tokens with every core, and workers are copies of it: none of them
imports, reads or tokenises again what the parent did. So the parent must not touch the GPU before.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from multiprocessing.pool import Pool
from pathlib import Path
from typing import Any

from splits import splits


@contextmanager
def crew(workers: int, data: Iterable[str], rows: int | None, encoders: Iterable[str] = ()) -> Iterator[Pool]:
    """Workers that know the splits of each folder of `data`, and their tokens for each encoder that is a folder. They
    are stopped where the block ends, at work or not."""
    from longtail.nn.read_once import reading_once

    with reading_once():
        for folder in data:
            parts = splits(folder, rows)
            for encoder in encoders:
                if Path(encoder).is_dir():
                    tokenised(encoder, parts)
        cores = os.cpu_count() or 2
        threads = max(min(cores // workers, int(os.environ.get("OMP_NUM_THREADS", cores))), 1)
        with multiprocessing.get_context("fork").Pool(workers, begin, (threads,)) as pool:
            yield pool


def tokenised(encoder: str, parts: tuple[Any, Any, Any]) -> None:
    """Cut all texts as this encoder reads them; what `reading_once` keeps is what counts."""
    from longtail.learners.dpr import Dpr
    from longtail.nn.tokenizers import TextTokenizer
    from longtail.nn.tokens import tokenise

    tokenizer, own = TextTokenizer.from_folder(Path(encoder)), Dpr()
    for texts in (*(part.texts or () for part in parts), own.label_texts(parts[0].labels)):
        tokenise(texts, tokenizer, own.longest)


def begin(threads: int) -> None:
    os.environ["OMP_NUM_THREADS"] = os.environ["LONGTAIL_THREADS"] = str(threads)
    import torch

    torch.set_num_threads(threads)


def afresh() -> None:
    """Forget the run before, so that the peak on the GPU is the next run's own."""
    import torch

    gc.collect()  # recorded kernels keep their memory until then
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
