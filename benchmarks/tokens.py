"""Claim: a million short titles are tokenised in under 40 seconds on two cores, and read back in under one second.

    python benchmarks/tokens.py [--titles 1000000] [--encoder minilm]

Titles are 3 to 11 words drawn from WordNet's glosses. Prints the time to tokenise them into an empty cache, to open
that cache again, and to make padded batches of 1,024 random rows from it; its size beside padded 64-bit ids and masks;
and the time of a tenth of the titles with one thread, with 14, and with 14 that share one memory pool. Exits with 1
where tokenising or opening takes longer than claimed.
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

from shared.command import parser_for
from shared.timing import timed

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
    parser = parser_for(__doc__)
    parser.add_argument("--titles", type=int, default=1_000_000, help="titles to tokenise")
    parser.add_argument("--encoder", default="minilm", help="name or folder of the encoder")
    parser.add_argument("--plain", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    from longtail.nn.encoders.build import find_folder
    from longtail.nn.encoders.tokenizers import TextTokenizer
    from longtail.nn.encoders.tokens import tokenise

    texts, tokenizer = titles(given.titles), TextTokenizer.from_folder(find_folder(given.encoder))
    with tempfile.TemporaryDirectory() as made:
        seconds = []
        for what in ("tokenised", "opened again"):
            spent, cpu, tokens = timed(lambda: tokenise(texts, tokenizer, LONGEST, Path(made)))
            seconds.append(spent)
            print(f"{len(texts):,} titles {what} in {spent:.2f} s ({cpu:.2f} CPU seconds)", flush=True)
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
