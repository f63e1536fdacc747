"""Claim: the cost of training a label tree grows no faster than (entries of the rows) x (depth of the tree).

    python benchmarks/scaling.py [--recipe "parabel(trees=1)"] [--threads 2] [--rounds 1] [--figure FILE.svg]
        [--rows N ...] [--labels N ...] [--beside 1] [--under "nice -n 5"]

Trains on generated Zipf data (`shared/zipf.py`): rows from 10k to 1M with 10k labels, then labels from 1k to 512k with
200k rows. Each size runs in its own process, under the command that `--under` names, `--beside` of them at once. The
measure is CPU time of all threads, the least of up to three trainings in each round; a round goes over all sizes, so
that a busy minute does not hit one alone. Depth is the number of classifiers on the path to a label. Work is exact:
entries x children over all nodes for one pass over the rows. For comparison, a plain walk shows the cost of memory
alone: over the same nodes and with as many threads, it visits the rows of each node in random order, reads the weights
of their words for all children and writes them again, once. A second table counts operations, the numbers that kernels
touch, in one more training (`shared/scaling_count.py`). Below are the slopes of operations, CPU time and walk against
(entries x depth) on log scales. Exits with 1 where CPU time per (entries x depth) grows by more than GROWTH from the
smallest size of a series to any other. Linux only: it reads /proc.
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
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from longtail import Recipe
from shared.command import parser_for
from shared.scaling_figure import figure
from shared.tables import table
from shared.timing import Clock, memory
from shared.zipf import zipf_data

if TYPE_CHECKING:
    from longtail.arrays import Longs, Matrix
    from longtail.linear.trees.beam_search import LabelForest

ROWS = [10_000, 30_000, 100_000, 300_000, 1_000_000]
LABELS = [1_000, 4_000, 16_000, 64_000, 256_000, 512_000]  # by powers of two, so that leaves are equally full
GROWTH = 2.0  # over a hundredfold of rows or five hundredfold of labels; a sudden rise exceeds it
PREDICTED = 4_000  # rows to predict
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
    right: float  # share of rows whose first label is right
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
    from longtail.linear.trees.label_forest import ForestScorer
    from shared.scaling_count import operations

    few, _ = zipf_data(2_000, 500, 100)
    recipe.fit(few, few).predict(few.rows, 5)  # kernels are compiled, or loaded from Numba's cache
    train, test = zipf_data(rows, labels, PREDICTED)
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
    levels = node_levels(model.scorer.forest, train.targets)
    return Run(
        rows=rows,
        labels=labels,
        entries=int(train.features.nnz),
        depth=len(levels),
        work=work_of(levels, train.features),
        seconds=min(run.seconds for run in runs),
        cpu=min(run.cpu for run in runs),
        start=start,
        peak=peak,
        predict=predict,
        right=float(answers.hits(test.targets)[:, 0].mean()),
        walk=plain_walk(levels, train.features),
        **asdict(operations(recipe, train)),
    )


class Level(NamedTuple):
    """The nodes of one level of a tree. A node trains on the rows that have a label in it."""

    starts: Longs  # (nodes + 1,) where the rows of each node begin
    rows: Longs  # the rows of the first node, then those of the second, and so on
    children: Longs  # (nodes,)


def node_levels(forest: LabelForest, targets: Matrix) -> list[Level]:
    """The levels of a tree, the leaves first."""
    if len(forest.roots) != 1:
        sys.exit("the work is counted for one tree: give a recipe with trees=1")
    children = np.diff(forest.chunk_children[forest.node_chunks])
    owner = np.repeat(np.arange(len(children)), children)
    leaf = forest.node_leaf[owner] > 0
    parent = np.full(len(children), -1)
    parent[forest.child[~leaf]] = owner[~leaf]
    node = np.empty(forest.labels, dtype=np.int64)
    node[forest.child[leaf]] = owner[leaf]
    rows = targets.shape[0]
    holder = np.repeat(np.arange(rows, dtype=np.int64), np.diff(targets.indptr))
    levels = []
    while node[0] >= 0:
        pairs = np.sort(node[targets.indices] * rows + holder)
        pairs = pairs[np.append(True, pairs[1:] != pairs[:-1])]
        nodes, starts = np.unique(pairs // rows, return_index=True)
        levels.append(Level(np.append(starts, len(pairs)), pairs % rows, children[nodes]))
        node = parent[node]
    return levels


def work_of(levels: list[Level], rows: Matrix) -> int:
    """Entries x children over all nodes."""
    lengths = np.diff(rows.indptr).astype(np.int64)
    return sum(int((lengths[level.rows] * np.repeat(level.children, np.diff(level.starts))).sum()) for level in levels)


def plain_walk(levels: list[Level], rows: Matrix) -> float:
    """CPU seconds of one walk over the nodes of a tree, the least of three. As in training, a small node has a copy of
    its rows over the words that they hold, and the children of a node are walked in blocks of the same width."""
    from numba import njit

    from longtail.linear.csr_arrays import csr_arrays
    from longtail.linear.trees import train_tree as tree
    from longtail.linear.trees.node_rows import Scratch
    from longtail.threads import in_threads

    @njit(nogil=True, fastmath=True)
    def walk(order, begins, ends, columns, values, weights, own):  # type: ignore[no-untyped-def]
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

    plain, scratch = csr_arrays(rows), Scratch(rows.shape[1])
    sizes = [(len(level.rows), level) for level in levels]
    nodes = [(level, node) for _, level in sizes for node in range(len(level.children)) if level.children[node] > 1]
    nodes.sort(key=lambda each: -int(np.diff(each[0].starts[each[1] : each[1] + 2])[0] * each[0].children[each[1]]))

    def visit(number: int, spent: list[float]) -> None:
        level, node = nodes[number]
        members = level.rows[level.starts[node] : level.starts[node + 1]]
        begins, ends, columns, values, names = tree._node_rows(members, plain, scratch)
        wide = tree.WIDE if tree.WIDE * (len(names) + len(begins)) <= tree.WIDE_CELLS else tree.BLOCK
        blocks = -(-int(level.children[node]) // wide)
        order = np.random.default_rng(0).permutation(len(begins))
        for block in np.diff(np.arange(blocks + 1) * int(level.children[node]) // blocks).tolist():
            lanes = -(-block // 8) * 8
            weights, own = np.zeros((len(names) + 1, lanes), np.float32), np.zeros((len(begins), lanes), np.float32)
            begin = time.thread_time()
            walk(order, begins, ends, columns, values, weights, own)
            spent.append(time.thread_time() - begin)

    visit(len(nodes) - 1, [])  # compiles
    times = []
    for _ in range(3):
        spent: list[float] = []
        in_threads(lambda number, spent=spent: visit(number, spent), range(len(nodes)))  # type: ignore[misc]
        times.append(sum(spent))
    return min(times)


def run(under: str, recipe: str, rows: int, labels: int, threads: int, beside: int) -> Run:
    limits = dict.fromkeys(("LONGTAIL_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), str(threads))
    command = [*shlex.split(under), sys.executable, __file__, "--recipe", recipe, "--one", str(rows), str(labels)]
    pipe = subprocess.PIPE
    runs = [
        subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, env={**os.environ, **limits})
        for _ in range(beside)
    ]
    outputs = [process.communicate() for process in runs]
    if any(process.returncode for process in runs):
        sys.exit(f"{rows:,} rows, {labels:,} labels failed:\n{outputs[0][1][-4000:]}")
    found = max((Run(**json.loads(out.splitlines()[-1])) for out, _ in outputs), key=lambda one: one.cpu)
    print(f"{rows:,} rows, {labels:,} labels: {found.cpu:.1f} CPU s", file=sys.stderr, flush=True)
    return found


def least(times: tuple[Run, ...]) -> Run:
    """The cheapest training of one size, and its cheapest walk."""
    return replace(min(times, key=lambda one: one.cpu), walk=min(one.walk for one in times))


def costs(runs: list[Run]) -> str:
    columns = ["rows", "labels", "entries", "depth", "entries x depth", "s", "CPU s", "ns per entry x depth", "growth"]
    columns += ["work / (entries x depth)", "ns per work", "plain walk, growth", "MB at start", "peak MB"]
    columns += ["predict ms/row", "P@1"]
    lines = []
    first = runs[0].walk / runs[0].product
    for one in runs:
        product = one.product
        figures = [f"{one.rows:,}", f"{one.labels:,}", f"{one.entries:,}", str(one.depth), f"{product:,}"]
        figures += [f"{one.seconds:.2f}", f"{one.cpu:.2f}", f"{one.cost:,.0f}", f"{one.cost / runs[0].cost:.2f}"]
        figures += [f"{one.work / product:.0f}", f"{1e9 * one.cpu / one.work:.1f}"]
        figures += [f"{one.walk / product / first:.2f}"]
        figures += [f"{size / 2**20:,.0f}" for size in (one.start, one.peak)]
        lines.append([*figures, f"{1000 * one.predict:.3f}", f"{100 * one.right:.1f}"])
    return table(columns, lines, words=0)


def counted(runs: list[Run], passes: int) -> str:
    """Operations for each entry on a level, by what they are for; `most` is what all children take in all passes."""
    columns = ["rows", "labels", "depth", "operations", "growth", "for passes", "for groups", "for nodes", "passes"]
    columns += ["most", "growth", "part of it", "CPU ns per operation"]
    lines = []
    each, most = ([number(one) / one.product for one in runs] for number in (lambda one: one.operations, _most(passes)))
    for one, here, there in zip(runs, each, most, strict=True):
        figures = [f"{one.rows:,}", f"{one.labels:,}", str(one.depth), f"{here:.0f}", f"{here / each[0]:.2f}"]
        figures += [f"{number / one.product:.0f}" for number in (one.scores, one.groups, one.nodes)]
        figures += [f"{one.scores / one.once:.1f}", f"{there:.0f}", f"{there / most[0]:.2f}", f"{here / there:.2f}"]
        lines.append([*figures, f"{1e9 * one.cpu / one.operations:.2f}"])
    return table(columns, lines, words=0)


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


def slopes(name: str, runs: list[Run]) -> str:
    if len({one.product for one in runs}) < 3:
        return ""
    numbers = {
        "operations": lambda one: one.operations,
        "CPU seconds": lambda one: one.cpu,
        "walk": lambda one: one.walk,
    }
    found = "; ".join(f"{what} {slope(runs, number)}" for what, number in numbers.items())
    return f"Slopes on log scales, {name}: {found}.\n"


def main() -> None:
    parser = parser_for(__doc__)
    parser.add_argument("--recipe", default="parabel(trees=1)", help="a label tree")
    parser.add_argument("--threads", type=int, default=2, help="of a process")
    parser.add_argument("--rounds", type=int, default=1, help="times to go over all sizes of a series")
    parser.add_argument("--rows", type=int, nargs="*", default=ROWS, help="sizes at 10,000 labels")
    parser.add_argument("--labels", type=int, nargs="*", default=LABELS, help="sizes at 200,000 rows")
    parser.add_argument("--beside", type=int, default=1, help="processes at once for each size; the slowest counts")
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
        print(f"## {name.capitalize()}: {options.recipe}, {options.threads} threads\n\n{costs(runs)}\n")
        print(f"CPU time per (entries x depth) grows by at most {worst:.2f} (limit: {GROWTH:g}).\n")
        passes = Recipe.parse(options.recipe).learner.max_iter
        print(f"Operations for each entry on a level:\n\n{counted(runs, passes)}\n")
        print(slopes(name, runs), flush=True)
    if len(series) > 1:
        print(slopes("both", [one for runs in series.values() for one in runs]))
    if options.figure:
        points = {name: [(one.entries * one.depth, one.cpu) for one in runs] for name, runs in series.items()}
        options.figure.write_text(figure(points), encoding="utf-8")
    sys.exit(grown > GROWTH)


if __name__ == "__main__":
    main()
