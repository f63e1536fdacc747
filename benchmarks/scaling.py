"""Claim: the cost of training a label tree grows no faster than (entries of the rows) x (depth of the tree).

    python benchmarks/scaling.py [--recipe "parabel(trees=1)"] [--threads 2] [--figure FILE.svg] [--under "nice -n 5"]

Zipf data is generated (`zipf_data.py`): rows from 10k to 1M at 10k labels, then labels from 1k to 500k at 200k rows.
Each size runs in a process of its own, under the command that `--under` names. The measure is CPU time in all threads,
the least of up to three trainings: a busy machine changes it least. Depth is the number of classifiers on the way to a
label; work is exact, entries x children over all nodes for one pass over the rows. Beside them stands what memory alone
costs: a plain walk over the rows in random order that reads a line of 16 weights for each entry, and reads and writes
one for each row, as a pass over the rows of a root does. Exits with 1 where CPU time per
(entries x depth) grows by more than GROWTH from the smallest size of a series to any other. Linux only: reads /proc.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from numba import njit

from linear_peers import Clock, memory
from longtail import Recipe
from longtail.arrays import Matrix
from longtail.linear.beam import Forest
from longtail.linear.forest import ForestScorer
from scaling_figure import figure
from zipf_data import zipf_data

ROWS = [(rows, 10_000) for rows in (10_000, 30_000, 100_000, 300_000, 1_000_000)]
LABELS = [(200_000, labels) for labels in (1_000, 3_000, 10_000, 30_000, 100_000, 500_000)]
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
    walk: float  # nanoseconds an entry of a plain walk

    @property
    def cost(self) -> float:
        """CPU nanoseconds for an entry on a level."""
        return 1e9 * self.cpu / (self.entries * self.depth)


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
        walk=walk(train.features),
    )


def walk(rows: Matrix) -> float:
    """Nanoseconds an entry of visiting the rows in random order, the least of three times."""
    order = np.random.default_rng(0).permutation(rows.shape[0])
    weights, own = np.zeros((rows.shape[1], 16), dtype=np.float32), np.zeros((rows.shape[0], 16), dtype=np.float32)
    held = (rows.indptr.astype(np.int64), rows.indices.astype(np.int32), rows.data.astype(np.float32))
    _walk(order[:1], *held, weights, own)
    times = []
    for _ in range(3):
        begin = time.process_time()
        _walk(order, *held, weights, own)
        times.append(time.process_time() - begin)
    return 1e9 * min(times) / rows.nnz


@njit(fastmath=True)
def _walk(order, starts, columns, values, weights, own):  # type: ignore[no-untyped-def]
    total = np.zeros(16, dtype=np.float32)
    for row in order:
        for lane in range(16):
            total[lane] = own[row, lane]
        for entry in range(starts[row], starts[row + 1]):
            for lane in range(16):
                total[lane] += values[entry] * weights[columns[entry], lane]
        for lane in range(16):
            own[row, lane] = total[lane]


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


def run(under: str, recipe: str, rows: int, labels: int, threads: int) -> Run:
    limits = dict.fromkeys(("LONGTAIL_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), str(threads))
    command = [*shlex.split(under), sys.executable, __file__, "--recipe", recipe, "--one", str(rows), str(labels)]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **limits})
    if done.returncode:
        sys.exit(f"{rows:,} rows, {labels:,} labels failed:\n{done.stderr[-4000:]}")
    found = Run(**json.loads(done.stdout.splitlines()[-1]))
    print(f"{rows:,} rows, {labels:,} labels: {found.cpu:.1f} CPU s", file=sys.stderr, flush=True)
    return found


def table(runs: list[Run]) -> str:
    columns = ["rows", "labels", "entries", "depth", "entries x depth", "s", "CPU s", "ns per entry x depth", "growth"]
    columns += ["work / (entries x depth)", "ns per work", "plain walk, ns per entry", "MB at start", "peak MB"]
    columns += ["predict ms/row", "P@1"]
    lines = [f"| {' | '.join(columns)} |", "| --: " * len(columns) + "|"]
    for one in runs:
        product = one.entries * one.depth
        figures = [f"{one.rows:,}", f"{one.labels:,}", f"{one.entries:,}", str(one.depth), f"{product:,}"]
        figures += [f"{one.seconds:.2f}", f"{one.cpu:.2f}", f"{one.cost:,.0f}", f"{one.cost / runs[0].cost:.2f}"]
        figures += [f"{one.work / product:.0f}", f"{1e9 * one.cpu / one.work:.1f}", f"{one.walk:.1f}"]
        figures += [f"{size / 2**20:,.0f}" for size in (one.start, one.peak)]
        figures += [f"{1000 * one.predict:.3f}", f"{100 * one.right:.1f}"]
        lines.append(f"| {' | '.join(figures)} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--recipe", default="parabel(trees=1)")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--figure", type=Path, help="where to draw the curve")
    parser.add_argument("--under", default="", help="a command to run each size with, such as 'nice -n 5'")
    parser.add_argument("--one", type=int, nargs=2, metavar=("ROWS", "LABELS"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(asdict(measure(Recipe.parse(options.recipe), *options.one))))
        return
    series: dict[str, list[Run]] = {}
    grown = 0.0
    for name, sizes in (("more rows", ROWS), ("more labels", LABELS)):
        runs = [run(options.under, options.recipe, *size, options.threads) for size in sizes]
        series[name] = runs
        worst = max(one.cost for one in runs) / runs[0].cost
        grown = max(grown, worst)
        print(f"## {name.capitalize()}: {options.recipe}, {options.threads} threads\n\n{table(runs)}\n")
        print(f"CPU time per (entries x depth) grows by at most {worst:.2f} (bar: {GROWTH:g}).\n", flush=True)
    if options.figure:
        points = {name: [(one.entries * one.depth, one.cpu) for one in runs] for name, runs in series.items()}
        options.figure.write_text(figure(points), encoding="utf-8")
    sys.exit(grown > GROWTH)


if __name__ == "__main__":
    main()
