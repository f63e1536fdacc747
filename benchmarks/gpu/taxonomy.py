"""Claim: one-vs-all over 236,448 labels and 2 million rows trains on one GPU in minutes.

    python benchmarks/ncbi_taxonomy.py tables
    longtail build hierarchy edges tables/edges.tsv --names tables/names.tsv --depth 3 --out taxonomy
    python benchmarks/gpu/taxonomy.py taxonomy ["renee(...)"] [--rows N]

Trains one recipe and evaluates it. Prints the seconds of reading, training and prediction, the last epochs, the peak
memory of the GPU, and the measures, also by label frequency.
"""

from __future__ import annotations

import sys
import time
from contextlib import contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import longtail
from shared.command import parser_for
from shared.splits import splits
from shared.tables import MEASURES, cells, table
from shared.timing import gpu_peak

RECIPE = "renee(encoder='bag', dimension=384, batch_size=1024, epochs=12, dropout=0.2, validate_every=4)"


@contextmanager
def shown(what: str):  # type: ignore[no-untyped-def]
    begun = time.perf_counter()
    yield
    print(f"{what}: {time.perf_counter() - begun:.1f} s", flush=True)


def main() -> None:
    parser = parser_for(__doc__)
    parser.add_argument("data", help="folder of the taxonomy")
    parser.add_argument("recipe", nargs="?", default=RECIPE, help="what to train")
    parser.add_argument("--rows", type=int, help="only the first rows of each split, to try the script")
    parser.add_argument("--kept", type=Path, default=Path("taxonomy-history"), help="folder of the history")
    arguments = parser.parse_args()
    from longtail.nn.training.checkpoint import checkpointing

    with shown("reading"):
        train, valid, test = splits(arguments.data, arguments.rows)
    print(
        f"{len(train):,} train and {len(test):,} test rows, {len(train.labels):,} labels: {arguments.recipe}",
        flush=True,
    )
    with shown("training, tokens and encoder included"), checkpointing(arguments.kept):
        model = longtail.Recipe.parse(arguments.recipe).fit(train, valid)
    history = next(arguments.kept.rglob("history.jsonl"))
    print("\n".join(history.read_text().splitlines()[-3:]))
    if peak := gpu_peak():
        print(f"GPU peak {peak / 2**30:.2f} GiB")
    with shown("predicting"):
        found = model.predict(test.rows, 5, test.excluded)
    measures = longtail.evaluate(found, test)
    print(table(MEASURES, [cells(measures, MEASURES)], words=0))
    for part in measures.bins:
        share = f"recall@5 {part.recall:.1f}, coverage@5 {part.coverage:.1f}"
        print(f"{part.name}: {part.low} to {part.high} rows, {part.labels:,} labels, {share}")


if __name__ == "__main__":
    main()
