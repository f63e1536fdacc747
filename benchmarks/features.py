"""Claim: tf-idf features are built several times faster than by scikit-learn, with the same values.

    python benchmarks/features.py [DATA ...] [--times 3]

DATA is any data set with texts that `load` knows. This script runs itself again in a new virtual environment, where
scikit-learn's TfidfVectorizer builds the same features: the same words, formula and norm, with and without word pairs.
scikit-learn works in one thread; longtail is timed with one thread and with all. Prints the best times by the clock
and, in brackets, in CPU seconds, the ratios and the largest difference. Exits with 1 where the columns differ or a
value differs by more than 0.00001.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from shared.command import parser_for
from shared.timing import best_of

PEER = "scikit-learn==1.9.1"
ENOUGH = 1e-5


def peer(folder: Path, times: int) -> None:
    """scikit-learn's features of the texts in the folder; runs in its own environment."""
    from scipy import sparse
    from sklearn.feature_extraction.text import TfidfVectorizer

    texts = json.loads((folder / "texts.json").read_text("ascii"))
    found = {}
    for pairs in (False, True):

        def work(longest: int = 1 + pairs) -> Any:
            vectorizer = TfidfVectorizer(sublinear_tf=True, token_pattern=r"\w+", ngram_range=(1, longest))
            return vectorizer.fit_transform(texts), vectorizer

        clock, processor, (matrix, vectorizer) = best_of(work, times)
        found[str(pairs)] = (clock, processor, list(vectorizer.get_feature_names_out()))
        sparse.save_npz(folder / f"{pairs}.npz", sparse.csr_matrix(matrix), compressed=False)
    (folder / "found.json").write_text(json.dumps(found), "ascii")


def first_call(cache: Path) -> None:
    """Seconds until the first few texts are vectors, in a process of its own."""
    code = (
        "import time; begin, begun = time.perf_counter(), time.process_time()\n"
        "from longtail.linear.features.sparse_features import Vocabulary\n"
        "from longtail.linear.features.word_counts import WordCounts\n"
        "loaded, ready = time.perf_counter(), time.process_time()\n"
        "vocabulary, _ = Vocabulary.learn(['a b c', 'é b'], WordCounts(bigrams=True)); vocabulary.count(['a b'])\n"
        "print(f'{loaded - begin:.2f} s ({ready - begun:.2f}) to import,', end=' ')\n"
        "print(f'{time.perf_counter() - loaded:.2f} s ({time.process_time() - ready:.2f}) for the first call')"
    )
    for when in ("nothing compiled yet", "compiled before"):
        environment = {**os.environ, "NUMBA_CACHE_DIR": str(cache)}
        done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
        print(f"  {when}: {done.stdout.strip()}")


def difference(vectors: Any, vocabulary: Any, names: list[str], stored: Path) -> float:
    """The largest difference of a value, after the columns are put in the peer's order."""
    import numpy as np
    from scipy import sparse

    words = vocabulary.words
    ours = [*words, *(f"{words[key >> 32]} {words[key & 0xFFFFFFFF]}" for key in vocabulary.pairs.tolist())]
    if sorted(ours) != sorted(names):
        raise SystemExit(f"columns differ: {len(ours)} against {len(names)}")
    place = {name: column for column, name in enumerate(names)}
    columns = np.array([place[name] for name in ours])[vectors.indices]
    moved = sparse.csr_array((vectors.data, columns, vectors.indptr), shape=vectors.shape)
    return float(abs(moved - sparse.csr_array(sparse.load_npz(stored))).max())


def compare(data: str, python: Path, folder: Path, times: int) -> bool:
    from longtail.data import Rows
    from longtail.data.read import load
    from longtail.linear.features.sparse_features import Features
    from longtail.linear.features.word_counts import WordCounts
    from longtail.threads import thread_count

    corpus = load(data)
    texts = corpus.train.texts
    if texts is None:
        raise SystemExit(f"{data} has no texts")
    print(f"{corpus.name}: {len(texts):,} texts, {sum(map(len, texts)):,} characters")
    (folder / "texts.json").write_text(json.dumps(texts), "ascii")
    subprocess.run([python, __file__, "--peer", folder, "--times", str(times)], check=True)
    found = json.loads((folder / "found.json").read_text("ascii"))
    good = True
    for pairs in (False, True):
        clock, processor, names = found[str(pairs)]
        print(f"  {'words and pairs' if pairs else 'words'}: {len(names):,} columns")
        print(f"    scikit-learn, 1 thread: {clock:.2f} s ({processor:.2f})")
        for threads in sorted({1, thread_count()}):
            os.environ["LONGTAIL_THREADS"] = str(threads)
            chosen = WordCounts(bigrams=pairs)
            mine, used, (features, vectors) = best_of(lambda chosen=chosen: Features.learn(corpus.train, chosen), times)  # type: ignore[misc]
            del os.environ["LONGTAIL_THREADS"]
            ratio = f"{clock / mine:.1f} times as fast ({processor / used:.1f})"
            print(f"    longtail, {threads} thread{'s' * (threads > 1)}: {mine:.2f} s ({used:.2f}), {ratio}")
        largest = difference(vectors, features.vocabulary, names, folder / f"{pairs}.npz")
        one = Rows(texts=texts[:1])
        alone = best_of(lambda features=features, one=one: features.of(one), 200)[0]  # type: ignore[misc]
        print(f"    largest difference of a value: {largest:.1e}; one text alone: {1000 * alone:.2f} ms")
        good &= largest <= ENOUGH
    return good


def main() -> None:
    parser = parser_for(__doc__)
    parser.add_argument("data", nargs="*", default=["wordnet"], help="names or folders of data sets with texts")
    parser.add_argument("--times", type=int, default=3, help="repetitions; the best counts")
    parser.add_argument("--peer", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.peer:
        peer(given.peer, given.times)
        return
    with tempfile.TemporaryDirectory() as made:
        place, good = Path(made), True
        subprocess.run([sys.executable, "-m", "venv", place / "peer"], check=True)
        python = place / "peer" / "bin" / "python"
        subprocess.run([python, "-m", "pip", "install", "-q", "--disable-pip-version-check", PEER], check=True)
        print("first call")
        first_call(place / "cache")
        for data in given.data:
            good &= compare(data, python, place, given.times)
    raise SystemExit(not good)


if __name__ == "__main__":
    main()
