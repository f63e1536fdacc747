"""Claim: a million short titles become tokens in under 40 seconds on two cores, and are read back in under one.

    python benchmarks/tokens.py [--titles 1000000] [--encoder minilm]

Titles are 3 to 11 words drawn from WordNet's glosses. Prints the time to tokenise them into a fresh cache, to open
that cache again, and to cut padded batches of 1,024 random rows from it; the size beside padded 64-bit ids and masks;
and how long a tenth of them takes on one thread, on 14, and on 14 that share one pool of memory. Exits with 1 where a
claim fails.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

LONGEST, MOST_SECONDS, MOST_TO_OPEN = 32, 40.0, 1.0


def titles(number: int) -> list[str]:
    from longtail.data.read import load

    texts = load("wordnet").train.texts
    assert texts is not None
    words = np.array([word for text in texts for word in text.split()])
    draw = np.random.default_rng(0)
    lengths = draw.integers(3, 12, number)
    drawn = words[draw.integers(0, len(words), int(lengths.sum()))].tolist()
    ends = np.cumsum(lengths).tolist()
    return [" ".join(drawn[end - length : end]) for end, length in zip(ends, lengths.tolist(), strict=True)]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--titles", type=int, default=1_000_000)
    parser.add_argument("--encoder", default="minilm")
    parser.add_argument("--plain", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    from longtail.nn.encoders import find_folder
    from longtail.nn.tokenizers import TextTokenizer
    from longtail.nn.tokens import tokenise

    texts, tokenizer = titles(given.titles), TextTokenizer.from_folder(find_folder(given.encoder))
    with tempfile.TemporaryDirectory() as made:
        seconds = []
        for what in ("tokenised", "opened again"):
            begin, begun = time.perf_counter(), time.process_time()
            tokens = tokenise(texts, tokenizer, LONGEST, Path(made))
            seconds.append(time.perf_counter() - begin)
            used = time.process_time() - begun
            print(f"{len(texts):,} titles {what} in {seconds[-1]:.2f} s ({used:.2f} s of the processors)", flush=True)
        if given.plain:
            return
        size = sum(path.stat().st_size for path in Path(made).rglob("*") if path.is_file())
        print(
            f"{size / 1e6:.0f} MB on disk; padded 64-bit ids and masks take {len(texts) * LONGEST * 16 / 1e6:,.0f} MB"
        )
        mixed = np.random.default_rng(1).permutation(len(texts))
        rows = mixed[: len(mixed) // 1_024 * 1_024].reshape(-1, 1_024)[:100]
        begin = time.perf_counter()
        for some in rows:
            tokens.batch(some, LONGEST)
        print(f"a batch of 1,024 random rows in {1000 * (time.perf_counter() - begin) / len(rows):.2f} ms")
    tenth = [sys.executable, __file__, "--plain", "--titles", str(given.titles // 10), "--encoder", given.encoder]
    for where, changed in (
        ("one thread", {"LONGTAIL_THREADS": "1"}),
        ("14 threads", {"LONGTAIL_THREADS": "14"}),
        ("14 threads, one pool", {"LONGTAIL_THREADS": "14", "MALLOC_ARENA_MAX": "1"}),
    ):
        done = subprocess.run(tenth, env={**os.environ, **changed}, capture_output=True, text=True, check=True)
        print(f"on {where}: {done.stdout.splitlines()[0]}")
    raise SystemExit(given.titles <= 1_000_000 and (seconds[0] > MOST_SECONDS or seconds[1] > MOST_TO_OPEN))


if __name__ == "__main__":
    main()
