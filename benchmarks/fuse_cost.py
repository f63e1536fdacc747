"""Claim: `fuse` costs seconds to learn, and hardly more than its members to ask.

    python benchmarks/fuse_cost.py DATA [DATA ...] [--members "bm25" "centroid" "knn" "parabel" "bonsai"] [--texts 500]
        [--rows N]

Trains `fuse` over the members and prints: seconds of learning the combiner, by the clock and by the processor; seconds
of the processor to ask all members for the test rows (up to 10,000), those of `fuse`, and their ratio; and the median
milliseconds that one text takes, of the members alone and of `fuse`. The best of three runs
counts.
"""

from __future__ import annotations

import time
from typing import Any

from shared.command import parser_for
from shared.splits import evenly_spaced, with_test
from shared.tables import table
from shared.timing import best_of

MEMBERS = ["bm25", "centroid", "knn", "parabel", "bonsai"]
ROWS = 10_000  # of test, at most
WARM = 50  # texts before the first that counts


def waits(ask: Any, texts: list[str]) -> float:
    """Median milliseconds of a call with one text."""
    import numpy as np

    from longtail.data.dataset import Rows

    found = []
    for text in texts[:WARM] + texts:
        rows = Rows(texts=(text,))
        begin = time.perf_counter()
        ask(rows)
        found.append(1000 * (time.perf_counter() - begin))
    return float(np.median(found[WARM:]))


def measure(data: str, members: list[str], texts: int, rows: int) -> list[Any]:
    import longtail
    from longtail.linear.fusion.combiner import CombinerExamples, LabelFacts, learn
    from longtail.threads import thread_count

    corpus, recipe = with_test(data), f"fuse({', '.join(map(repr, members))})"
    train = evenly_spaced(corpus.train, rows)
    made = longtail.Recipe.parse(recipe)
    model = made.fit(train, corpus.valid)
    facts = LabelFacts.of(train, True)
    examples = [CombinerExamples(model.scorer.answers(corpus.valid.rows), corpus.valid, facts)]  # type: ignore[attr-defined]
    growing, places = made.learner.growing(), made.learner.candidates  # type: ignore[attr-defined]
    learned = best_of(lambda: learn(examples, len(members), places, facts, growing), 2)
    asked = corpus.test.rows[: min(len(corpus.test), ROWS)]
    whole = best_of(lambda: model.scorer.top(asked, 5)).cpu
    alone = best_of(lambda: model.scorer.answers(asked)).cpu  # type: ignore[attr-defined]
    some = list((corpus.test.texts or ())[:texts])
    one, members_one = waits(lambda row: model.predict(row, 5), some), waits(model.scorer.answers, some)  # type: ignore[attr-defined]
    shown = [f"{value:.1f}" for value in (learned.seconds, learned.cpu, alone, whole)]
    return [
        corpus.name,
        len(corpus.valid),
        thread_count(),
        *shown,
        f"{whole / alone:.2f}",
        f"{members_one:.1f}",
        f"{one:.1f}",
    ]


def main() -> None:
    parser = parser_for(__doc__)
    parser.add_argument("data", nargs="+", help="names or folders of data sets")
    parser.add_argument("--members", nargs="+", default=MEMBERS, help="recipes")
    parser.add_argument("--texts", type=int, default=500, help="texts that are asked one by one")
    parser.add_argument("--rows", type=int, default=0, help="training rows, evenly spaced; 0: all")
    options = parser.parse_args()
    heads = ["valid rows", "threads", "learn s", "learn processor s", "members s", "fuse s", "ratio"]
    heads += ["one text, members ms", "one text, fuse ms"]
    lines = [measure(data, options.members, options.texts, options.rows) for data in options.data]
    print(table(["data", *heads], lines))


if __name__ == "__main__":
    main()
