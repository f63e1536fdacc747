"""Claim: `longtail.auto` beats every single recipe of docs/choosing.md given the same time, and omikuji's Bonsai.

    python benchmarks/auto.py DATA [DATA ...] --within 1m 5m 20m [--peers FOLDER]

Prints a table for each data set, measured on test: `auto` within each time, then the recipes that docs/choosing.md
names for a machine without a GPU, each trained once, and omikuji's Bonsai on the tf-idf features of `parabel`. Then for
each time how far `auto` stands above the best of those that were trained in it, by P@1 + PSP@5, which is what `auto`
itself looks at on valid. A recipe that takes longer than the longest time is stopped. Nothing is chosen on test.

With `--processor` all seconds are those of the processor, which a busy machine does not change: with LONGTAIL_THREADS=1
they are about those of an idle core.

`auto` pays for looking, judging and combining out of its time; of the others only the training counts. omikuji is
installed into an environment of its own in the folder of `--peers`. With `--results FILE` every line is kept there, and
the same command goes on after the last one; with longer times it trains only what did not end in the shorter ones.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from linear import environment, run, write
from shared.command import parser_for
from shared.splits import with_test
from shared.tables import append_lines, cells, header, read_lines, row

FUSED = 'fuse("parabel", "knn", "bm25", "centroid")'
RECIPES = ["bm25", "knn", "parabel", "parabel + rerank", "bonsai", "dismec", "dismec + ranknet", "xreg", "astec"]
BONSAI = "omikuji Bonsai"
RECIPES += ["astec + rows", FUSED, BONSAI]
MEASURES = ["P@1", "P@5", "PSP@1", "PSP@5", "C@5"]


class Found(NamedTuple):
    """What a recipe reached; `measures` is none where it was not trained, and `why` tells the reason."""

    name: str
    seconds: float = 0.0
    measures: dict[str, float] | None = None
    why: str = ""

    @property
    def worth(self) -> float:
        return self.of("P@1") + self.of("PSP@5")

    def of(self, measure: str) -> float:
        return 0.0 if self.measures is None else self.measures[measure]

    def __str__(self) -> str:
        if self.measures is None:
            return row([f"{self.name}: {self.why}", *("" for _ in MEASURES), "", ""])
        return row([self.name, *cells(self.measures, MEASURES), f"{self.worth:.1f}", f"{self.seconds:.0f}"])


def measured(model: Any, corpus: Any) -> dict[str, float]:
    import longtail

    test = corpus.test
    found = longtail.evaluate(model.predict(test.rows, 5, test.excluded), test)
    return {name: found[name] for name in MEASURES}


def automatic(corpus: Any, written: str, within: float, clock: Callable[[], float]) -> Found:
    import longtail

    start = clock()
    found = longtail.auto(corpus, within, clock)
    seconds = clock() - start
    return Found(f"**`auto`, {written}**: `{found.recipe}`", seconds, measured(found.model, corpus))


def single(corpus: Any, recipe: str, longest: float, clock: Callable[[], float]) -> Found:
    """A recipe of the page, within the longest time."""
    from longtail import Recipe
    from longtail.errors import LongtailError
    from longtail.plan import DataFacts
    from longtail.progress import checking
    from longtail.warmup import warm_up

    parsed, name = Recipe.parse(recipe), f"`{recipe}`"
    try:
        parsed.check(corpus.train)
        planned = parsed.plan(DataFacts.of(corpus.train)).train_seconds
        if planned > 3 * longest:
            return Found(name, why=f"not trained, its plan says {planned:.0f} s")
        warm_up([parsed], corpus.train)
        start = clock()

        def check() -> None:
            if clock() - start > longest:
                raise LongtailError(f"stopped after {longest:.0f} s")

        with checking(check):
            model = parsed.fit(corpus.train, corpus.valid)
    except LongtailError as error:
        return Found(name, why=str(error))
    return Found(name, clock() - start, measured(model, corpus))


def omikuji_bonsai(corpus: Any, peers: Path, longest: float, processor: bool) -> Found:
    """What a user would take instead."""
    with tempfile.TemporaryDirectory() as folder:
        write(corpus, Path(folder))
        try:
            threads = int(os.environ.get("LONGTAIL_THREADS") or os.cpu_count() or 1)
            done = run(BONSAI, corpus, Path(folder), peers, threads, None if processor else longest)
        except subprocess.TimeoutExpired:
            return Found(BONSAI, why=f"stopped after {longest:.0f} s")
    seconds = done.train_cpu if processor else done.train
    return Found(BONSAI, seconds, {name: done.measures[name] for name in MEASURES})


def main() -> None:
    parser = parser_for(__doc__)
    parser.add_argument("data", nargs="+", help="names or folders of data sets")
    parser.add_argument("--within", nargs="+", default=["1m", "5m", "20m"], metavar="TIME")
    parser.add_argument("--recipes", nargs="*", default=RECIPES, help="single recipes, and omikuji's Bonsai")
    parser.add_argument("--peers", type=Path, help="folder of omikuji's environment, made where it is not there")
    parser.add_argument("--processor", action="store_true", help="count seconds of the processor")
    parser.add_argument("--results", type=Path, help="file of the lines that are done")
    options = parser.parse_args()
    from longtail.cli.tune import seconds_of

    times = {written: seconds_of(written) for written in options.within}
    with tempfile.TemporaryDirectory() as temporary:
        peers = (options.peers or Path(temporary)).absolute()
        if BONSAI in options.recipes:
            environment(BONSAI, peers)
        for data in options.data:
            compare(with_test(data), times, options.recipes, peers, options.results, options.processor)


def compare(
    corpus: Any, times: dict[str, float], recipes: list[str], peers: Path, results: Path | None, processor: bool
) -> None:
    clock = time.process_time if processor else time.perf_counter
    longest, ours, others = max(times.values()), list[Found](), list[Found]()
    done = {}
    for one in read_lines(results):
        found = Found(*one["found"])
        trained_alone = one["what"] != "auto" and found.measures is not None  # whatever the longest time was
        done[one["data"], one["what"], None if trained_alone else one["longest"]] = found

    def once(what: str, seconds: float, work: Callable[[], Found]) -> Found:
        found = done.get((corpus.name, what, None)) or done.get((corpus.name, what, seconds))
        if found is None:
            found = work()
            if results is not None:
                append_lines(results, {"data": corpus.name, "what": what, "longest": seconds, "found": list(found)})
        print(found, flush=True)
        return found

    print(f"\n## {corpus.name}\n\n{len(corpus.train):,} training examples, {len(corpus.labels):,} labels.\n")
    print(header(["", *MEASURES, "P@1 + PSP@5", "seconds"]), flush=True)
    for written, within in times.items():
        ours.append(once("auto", within, partial(automatic, corpus, written, within, clock)))
    for recipe in recipes:
        if recipe == BONSAI:
            others.append(once(BONSAI, longest, partial(omikuji_bonsai, corpus, peers, longest, processor)))
        else:
            others.append(once(recipe, longest, partial(single, corpus, recipe, longest, clock)))
    print()
    for (written, within), auto in zip(times.items(), ours, strict=True):
        rivals = [one for one in others if one.measures is not None and one.seconds <= within]
        if not rivals:
            print(f"- {written}: `auto` took {100 * auto.seconds / within:.0f}% of its time, and no other ended in it.")
            continue
        best = max(rivals, key=lambda one: one.worth)
        gain = auto.of("P@1") - max(one.of("P@1") for one in rivals)
        print(
            f"- {written}: `auto` took {100 * auto.seconds / within:.0f}% of its time. By P@1 + PSP@5 it stands "
            f"{auto.worth - best.worth:+.1f} beside {best.name}, the best of {len(rivals)} others; by P@1 {gain:+.1f} "
            "beside the best by P@1.",
            flush=True,
        )


if __name__ == "__main__":
    main()
