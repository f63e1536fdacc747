"""Claim: one-vs-all over 236,448 labels and 2 million rows trains on one GPU in minutes.

python benchmarks/ncbi_taxonomy.py tables
longtail build hierarchy edges tables/edges.tsv --names tables/names.tsv --depth 3 --out taxonomy
PYTHONPATH=src python benchmarks/gpu/taxonomy.py taxonomy ["renee(...)"] [--rows N]
"""

from __future__ import annotations

import argparse
import time
from contextlib import contextmanager
from pathlib import Path

import torch

import longtail
from longtail.metrics import evaluate
from longtail.nn.checkpoint import keeping

RECIPE = "renee(encoder='bag', dimension=384, batch=1024, epochs=12, dropout=0.2, measure_every=4)"


@contextmanager
def told(what: str):  # type: ignore[no-untyped-def]
    begun = time.perf_counter()
    yield
    print(f"{what}: {time.perf_counter() - begun:.1f} s", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data")
    parser.add_argument("recipe", nargs="?", default=RECIPE)
    parser.add_argument("--rows", type=int, help="only so many rows of each split: a rehearsal")
    parser.add_argument("--kept", type=Path, default=Path("taxonomy-history"), help="folder of the history")
    arguments = parser.parse_args()
    with told("reading"):
        corpus = longtail.load(arguments.data)
    train, valid, test = (
        part if arguments.rows is None else part.take(range(arguments.rows))
        for part in (corpus.train, corpus.valid, corpus.test)
    )
    print(
        f"{len(train):,} train and {len(test):,} test rows, {len(train.labels):,} labels: {arguments.recipe}",
        flush=True,
    )
    with told("training, tokens and encoder included"), keeping(arguments.kept):
        model = longtail.Recipe.parse(arguments.recipe).fit(train, valid)
    history = next(arguments.kept.rglob("history.jsonl"))
    print("\n".join(history.read_text().splitlines()[-3:]))
    if torch.cuda.is_available():
        print(f"GPU peak {torch.cuda.max_memory_allocated() / 2**30:.2f} GiB")
    with told("predicting"):
        found = model.predict(test.rows, 5, test.excluded)
    measures = evaluate(found, test)
    names = [f"{name}@{k}" for name in ("P", "PSP", "C") for k in (1, 3, 5)]
    print("| " + " | ".join(names) + " |")
    print("| " + " | ".join(f"{measures[name]:.1f}" for name in names) + " |")
    for part in measures.bins:
        share = f"recall@5 {part.recall:.1f}, coverage@5 {part.coverage:.1f}"
        print(f"{part.name}: {part.low} to {part.high} rows, {part.labels:,} labels, {share}")


if __name__ == "__main__":
    main()
