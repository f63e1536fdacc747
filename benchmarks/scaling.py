"""Claim: the cost of training a label tree grows no faster than (entries of the rows) x (depth of the tree).

    python benchmarks/scaling.py [--recipe "parabel(trees=1)"] [--threads 2] [--rounds 1] [--figure FILE.svg]
        [--rows N ...] [--labels N ...] [--beside 1] [--under "nice -n 5"]

Zipf data is generated (`zipf_data.py`): rows from 10k to 1M at 10k labels, then labels from 1k to 512k at 200k rows.
Each size runs in a process of its own, under the command that `--under` names, and in as many at once as `--beside`
says. The measure is CPU time in all threads, the least of up to three trainings in each round; rounds go over all
sizes, so that a busy minute does not fall on one alone. Depth is the number of classifiers on the way to a label; work
is exact, entries x children over all nodes for one pass over the rows. Beside it stands what memory alone costs: a
plain walk over the same nodes by the same threads, which visits each node's rows in random order, reads the weights of
their words for all children and writes them again, once. A second table counts operations, the numbers that kernels
touch, by one more training (`scaling_count.py`), and below it stands the slope of both against (entries x depth) on log
scales. Exits with 1 where CPU time per (entries x depth) grows by more than GROWTH from the smallest size of a series
to any other. Linux only: reads /proc.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numba import njit

import longtail.linear.tree as tree
from linear_peers import Clock, memory
from longtail import Recipe
from longtail.arrays import Floats, Matrix
from longtail.data.dataset import Dataset
from longtail.linear.beam import Forest
from longtail.linear.forest import ForestScorer
from scaling_count import operations
from scaling_figure import figure
from zipf_data import zipf_data

ROWS = [10_000, 30_000, 100_000, 300_000, 1_000_000]
LABELS = [1_000, 4_000, 16_000, 64_000, 256_000, 512_000]  # by powers of two, so that leaves are equally full
GROWTH = 2.0  # over a hundredfold of rows or five hundredfold of labels: guards against a step
ASKED = 4_000  # rows to predict
ENOUGH = 15.0  # CPU seconds after which no further training is tried


@dataclass(frozen=True)
class Run:
    """One size."""

    rows: int
    labels: int
    entries: int  # words in the rows
    depth: int
    work: int  # entries x children in one pass
    seconds: float
    cpu: float
    start: int  # bytes
    peak: int
    predict: float  # seconds a row
    right: float  # share of the first answers that are a label of the row
    walk: float  # CPU seconds of a plain walk over the nodes
    scores: int  # operations, as `scaling_count.Operations` has them
    once: int
    groups: int
    nodes: int

    @property
    def product(self) -> int:
        return self.entries * self.depth

    @property
    def cost(self) -> float:
        """CPU nanoseconds for an entry on a level."""
        return 1e9 * self.cpu / self.product

    @property
    def operations(self) -> int:
        return self.scores + self.groups + self.nodes


def measure(recipe: Recipe, rows: int, labels: int) -> Run:
    few, _ = zipf_data(2_000, 500, 100)
    recipe.fit(few, few).predict(few.rows, 5)  # kernels come from Numba's cache, or are compiled into it
    train, test = zipf_data(rows, labels, ASKED)
    nothing = train.take([])
    Path("/proc/self/clear_refs").write_text("5")  # the peak of making the data does not count
    start, peak = memory("VmRSS"), 0
    runs: list[Clock] = []
    while not runs or (len(runs) < 3 and sum(run.cpu for run in runs) < ENOUGH):
        with Clock() as run:
            model = recipe.fit(train, nothing)
        runs.append(run)
        peak = peak or memory("VmHWM")
    begin = time.perf_counter()
    answers = model.predict(test.rows, 5)
    predict = (time.perf_counter() - begin) / len(test)
    assert isinstance(model.scorer, ForestScorer) and train.features is not None
    depth, work = effort(model.scorer.forest, train.features, train.targets)
    return Run(
        rows=rows,
        labels=labels,
        entries=int(train.features.nnz),
        depth=depth,
        work=work,
        seconds=min(run.seconds for run in runs),
        cpu=min(run.cpu for run in runs),
        start=start,
        peak=peak,
        predict=predict,
        right=float(answers.hits(test.targets)[:, 0].mean()),
        walk=plain_walk(recipe, train),
        **asdict(operations(recipe, train)),
    )


def plain_walk(recipe: Recipe, train: Dataset) -> float:
    """CPU seconds of walking over the nodes of a tree that is trained on these rows, the least of three times."""
    nothing, real, times = train.take([]), tree.fit_children, []
    for _ in range(3):
        spent: list[float] = []

        def visit(*given: Any, spent: list[float] = spent) -> Floats:
            begins, ends, columns, values, features, *_, children = given[:9]
            order = np.random.default_rng(0).permutation(len(begins))
            lanes = -(-children // 8) * 8
            weights, own = np.zeros((features + 1, lanes), np.float32), np.zeros((len(begins), lanes), np.float32)
            begin = time.thread_time()
            _walk(order, begins, ends, columns, values, weights, own)
            spent.append(time.thread_time() - begin)
            return weights

        tree.fit_children = visit
        try:
            recipe.fit(train, nothing)
        finally:
            tree.fit_children = real
        times.append(sum(spent))
    return min(times)


@njit(nogil=True, fastmath=True)
def _walk(order, begins, ends, columns, values, weights, own):  # type: ignore[no-untyped-def]
    lanes = own.shape[1]
    for row in order:
        line = own[row]
        for entry in range(begins[row], ends[row]):
            value, word = values[entry], np.uintp(columns[entry])
            for lane in range(lanes):
                line[lane] += value * weights[word, lane]
        for entry in range(begins[row], ends[row]):
            value, word = values[entry], np.uintp(columns[entry])
            for lane in range(lanes):
                weights[word, lane] += value * line[lane]


def effort(forest: Forest, rows: Matrix, targets: Matrix) -> tuple[int, int]:
    """Depth of a tree, and entries x children over its nodes, each of which trains on the rows with a label in it."""
    if len(forest.roots) != 1:
        sys.exit("the work is counted for one tree: give a recipe with trees=1")
    children = np.diff(forest.chunk_children[forest.node_chunks])
    owner = np.repeat(np.arange(len(children)), children)
    leaf = forest.node_leaf[owner] > 0
    parent = np.full(len(children), -1)
    parent[forest.child[~leaf]] = owner[~leaf]
    node = np.empty(forest.labels, dtype=np.int64)
    node[forest.child[leaf]] = owner[leaf]
    lengths = np.diff(rows.indptr).astype(np.int64)
    holder = np.repeat(np.arange(rows.shape[0], dtype=np.int64), np.diff(targets.indptr))
    depth = work = 0
    while node[0] >= 0:
        depth += 1
        pairs = np.sort(holder * len(children) + node[targets.indices])
        pairs = pairs[np.append(True, pairs[1:] != pairs[:-1])]
        work += int((lengths[pairs // len(children)] * children[pairs % len(children)]).sum())
        node = parent[node]
    return depth, work


def run(under: str, recipe: str, rows: int, labels: int, threads: int, beside: int) -> Run:
    limits = dict.fromkeys(("LONGTAIL_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), str(threads))
    command = [*shlex.split(under), sys.executable, __file__, "--recipe", recipe, "--one", str(rows), str(labels)]
    pipe = subprocess.PIPE
    runs = [
        subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, env={**os.environ, **limits})
        for _ in range(beside)
    ]
    said = [process.communicate() for process in runs]
    if any(process.returncode for process in runs):
        sys.exit(f"{rows:,} rows, {labels:,} labels failed:\n{said[0][1][-4000:]}")
    found = max((Run(**json.loads(out.splitlines()[-1])) for out, _ in said), key=lambda one: one.cpu)
    print(f"{rows:,} rows, {labels:,} labels: {found.cpu:.1f} CPU s", file=sys.stderr, flush=True)
    return found


def least(times: tuple[Run, ...]) -> Run:
    """The cheapest training of one size, and its cheapest walk."""
    return replace(min(times, key=lambda one: one.cpu), walk=min(one.walk for one in times))


def table(runs: list[Run]) -> str:
    columns = ["rows", "labels", "entries", "depth", "entries x depth", "s", "CPU s", "ns per entry x depth", "growth"]
    columns += ["work / (entries x depth)", "ns per work", "plain walk, growth", "MB at start", "peak MB"]
    columns += ["predict ms/row", "P@1"]
    lines = [f"| {' | '.join(columns)} |", "| --: " * len(columns) + "|"]
    first = runs[0].walk / runs[0].product
    for one in runs:
        product = one.product
        figures = [f"{one.rows:,}", f"{one.labels:,}", f"{one.entries:,}", str(one.depth), f"{product:,}"]
        figures += [f"{one.seconds:.2f}", f"{one.cpu:.2f}", f"{one.cost:,.0f}", f"{one.cost / runs[0].cost:.2f}"]
        figures += [f"{one.work / product:.0f}", f"{1e9 * one.cpu / one.work:.1f}"]
        figures += [f"{one.walk / product / first:.2f}"]
        figures += [f"{size / 2**20:,.0f}" for size in (one.start, one.peak)]
        figures += [f"{1000 * one.predict:.3f}", f"{100 * one.right:.1f}"]
        lines.append(f"| {' | '.join(figures)} |")
    return "\n".join(lines)


def counted(runs: list[Run], passes: int) -> str:
    """Operations for each entry on a level, by what they are for; `most` is what all children take in all passes."""
    columns = ["rows", "labels", "depth", "operations", "growth", "for passes", "for groups", "for nodes", "passes"]
    columns += ["most", "growth", "part of it", "CPU ns per operation"]
    lines = [f"| {' | '.join(columns)} |", "| --: " * len(columns) + "|"]
    each, most = ([number(one) / one.product for one in runs] for number in (lambda one: one.operations, _most(passes)))
    for one, here, there in zip(runs, each, most, strict=True):
        figures = [f"{one.rows:,}", f"{one.labels:,}", str(one.depth), f"{here:.0f}", f"{here / each[0]:.2f}"]
        figures += [f"{number / one.product:.0f}" for number in (one.scores, one.groups, one.nodes)]
        figures += [f"{one.scores / one.once:.1f}", f"{there:.0f}", f"{there / most[0]:.2f}", f"{here / there:.2f}"]
        lines.append(f"| {' | '.join([*figures, f'{1e9 * one.cpu / one.operations:.2f}'])} |")
    return "\n".join(lines)


def _most(passes: int) -> Callable[[Run], int]:
    return lambda one: passes * one.once + one.groups + one.nodes


def slope(runs: list[Run], number: Callable[[Run], float]) -> str:
    """How steeply a number rises with (entries x depth) on log scales, 1 is in proportion, and its standard error."""
    x, y = (np.log([float(of(one)) for one in runs]) for of in (lambda one: one.product, number))
    x -= x.mean()
    rise = float(x @ y / (x @ x))
    left = y - y.mean() - rise * x
    error = float(np.sqrt(left @ left / max(len(runs) - 2, 1) / (x @ x)))
    return f"{rise:.2f} ± {error:.2f}"


def said_slopes(name: str, runs: list[Run]) -> str:
    if len({one.product for one in runs}) < 3:
        return ""
    numbers = {
        "operations": lambda one: one.operations,
        "CPU seconds": lambda one: one.cpu,
        "walk": lambda one: one.walk,
    }
    said = "; ".join(f"{what} {slope(runs, number)}" for what, number in numbers.items())
    return f"Slopes on log scales, {name}: {said}.\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--recipe", default="parabel(trees=1)")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=1, help="times to go over all sizes of a series")
    parser.add_argument("--rows", type=int, nargs="*", default=ROWS, help="sizes at 10,000 labels")
    parser.add_argument("--labels", type=int, nargs="*", default=LABELS, help="sizes at 200,000 rows")
    parser.add_argument("--beside", type=int, default=1, help="processes at once for each size; the dearest counts")
    parser.add_argument("--figure", type=Path, help="where to draw the curve")
    parser.add_argument("--under", default="", help="a command to run each size with, such as 'nice -n 5'")
    parser.add_argument("--one", type=int, nargs=2, metavar=("ROWS", "LABELS"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(asdict(measure(Recipe.parse(options.recipe), *options.one))))
        return
    series: dict[str, list[Run]] = {}
    grown = 0.0
    rows, labels = [(size, 10_000) for size in options.rows], [(200_000, size) for size in options.labels]
    for name, sizes in (("more rows", rows), ("more labels", labels)):
        if not sizes:
            continue
        rounds = [
            [run(options.under, options.recipe, *size, options.threads, options.beside) for size in sizes]
            for _ in range(options.rounds)
        ]
        runs = [least(times) for times in zip(*rounds, strict=True)]
        series[name] = runs
        worst = max(one.cost for one in runs) / runs[0].cost
        grown = max(grown, worst)
        print(f"## {name.capitalize()}: {options.recipe}, {options.threads} threads\n\n{table(runs)}\n")
        print(f"CPU time per (entries x depth) grows by at most {worst:.2f} (bar: {GROWTH:g}).\n")
        passes = Recipe.parse(options.recipe).learner.passes
        print(f"Operations for each entry on a level:\n\n{counted(runs, passes)}\n")
        print(said_slopes(name, runs), flush=True)
    if len(series) > 1:
        print(said_slopes("both", [one for runs in series.values() for one in runs]))
    if options.figure:
        points = {name: [(one.entries * one.depth, one.cpu) for one in runs] for name, runs in series.items()}
        options.figure.write_text(figure(points), encoding="utf-8")
    sys.exit(grown > GROWTH)


if __name__ == "__main__":
    main()
