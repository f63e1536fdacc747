"""Claim: `parabel` and `bonsai` train and predict faster than omikuji, napkinXC and PECOS XR-Linear, with no more
memory and the same accuracy.

    python benchmarks/linear.py DATA [DATA ...] [--threads 2] [--repeats 1] [--peers FOLDER] [--tools "parabel" ...]

DATA is a folder of JSON lines, or 'wordnet'. Every tool gets the same tf-idf matrix. Each tool runs in its own process,
and each peer in a virtual environment that is made in FOLDER (and found there the next time) or in a temporary folder.
Times are the best of the repeats, accuracy is their mean. A repeat runs all tools, so that a busy minute does not hit
one tool alone. Prints for each data set a table of figures and a table that compares with what is claimed. `dismec` and
`proxml` run only where `--tools` names them; `--rows` trains on so many evenly spaced rows where all would take too
long. `linear_peers.py` is the process of one tool.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

import longtail
from linear_peers import SLOW, TOOLS
from shared.command import parser_for
from shared.splits import evenly_spaced, with_test
from shared.tables import MEASURES, cells, table

K = 5  # labels asked for each row
# What pip installs, one call a group. PECOS declares torch and transformers, which XR-Linear does not import.
PACKAGES = {
    "omikuji": [["omikuji==0.5.2", "numpy", "scipy"]],
    "napkinXC": [["napkinxc==0.7.2", "scipy"]],
    "PECOS": [["numpy<2", "scipy<1.14", "scikit-learn"], ["--no-deps", "libpecos==1.2.8"]],
}
BALANCED, WIDE = ("omikuji Parabel", "napkinXC", "PECOS"), ("omikuji Bonsai",)  # the peers of parabel and of bonsai


@dataclass(frozen=True)
class Run:
    """One tool on one data set."""

    train: float  # seconds
    predict: float
    train_cpu: float  # seconds of work in all threads: what a busy machine changes least
    predict_cpu: float
    others: float  # cores that other processes kept busy while it trained
    start: float  # bytes held when training begins: the interpreter, libraries and data
    peak: float
    model: float
    asides: dict[str, float]
    measures: dict[str, float]


def environment(tool: str, place: Path) -> str:
    """The Python that runs a tool; a peer's environment is made when it is not there."""
    peer = tool.split()[0]
    if peer not in PACKAGES:
        return sys.executable
    python, done = place / peer / "bin" / "python", place / peer / "installed"
    if not done.exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", place / peer], check=True)
        for packages in PACKAGES[peer]:
            subprocess.run([python, "-m", "pip", "install", "--quiet", *packages], check=True, stderr=subprocess.PIPE)
        done.touch()
    return str(python)


def write(corpus: longtail.Corpus, folder: Path) -> str:
    """The same features for all: as matrices, and as the text file that omikuji reads. Returns the sizes in words."""
    from longtail.linear.features.sparse_features import Features

    features, train = Features.learn(corpus.train)
    test, targets = features.of(corpus.test.rows), corpus.train.targets
    for name, matrix in {"train": train, "test": test, "targets": targets}.items():
        sparse.save_npz(folder / name, sparse.csr_matrix(matrix), compressed=False)
    with (folder / "train.txt").open("w") as file:
        print(*train.shape, targets.shape[1], file=file)
        for labels, (columns, values) in zip(_rows(targets), _rows(train), strict=True):
            words = [f"{column}:{value:.7g}" for column, value in zip(columns, values, strict=True)]
            print(",".join(map(str, labels[0])), *words, file=file)
    return (
        f"{train.shape[0]:,} training rows, {test.shape[0]:,} test rows, {targets.shape[1]:,} labels, "
        f"{train.shape[1]:,} words, {train.nnz / train.shape[0]:.0f} a row"
    )


def _rows(matrix: Any) -> Iterator[tuple[list[int], list[float]]]:
    for begin, end in zip(matrix.indptr[:-1], matrix.indptr[1:], strict=True):
        yield matrix.indices[begin:end].tolist(), matrix.data[begin:end].tolist()


def run(
    tool: str, corpus: longtail.Corpus, folder: Path, place: Path, threads: int, longest: float | None = None
) -> Run:
    """Train and ask a tool in a process of its own, which is killed where it takes longer than so many seconds."""
    names = ("LONGTAIL_THREADS", "NUMBA_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "RAYON_NUM_THREADS")
    limits = dict.fromkeys(names, str(threads))
    command = [environment(tool, place), Path(__file__).with_name("linear_peers.py"), tool, folder, threads, K]
    limited = {**os.environ, **limits}
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, env=limited, timeout=longest)
    if done.returncode:
        sys.exit(f"{tool} failed:\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}")
    found = json.loads(done.stdout.splitlines()[-1])
    answers = np.load(folder / f"{tool}.npz")
    scores = answers["scores"].astype(np.float32)
    measures = longtail.evaluate(
        longtail.Predictions(corpus.labels, answers["labels"].astype(np.int32), scores), corpus.test
    )
    print(f"{tool}: {found['train']:.1f} s, {found['predict']:.2f} s", file=sys.stderr, flush=True)
    figures = {name: measures[name] for name in MEASURES}
    return Run(**{name: found[name] for name in Run.__annotations__ if name in found}, measures=figures)


def all_runs(
    tools: list[str], repeats: int, corpus: longtail.Corpus, folder: Path, place: Path, threads: int
) -> dict[str, Run]:
    """The best of the repeats for each tool; Ctrl-C keeps what is there."""
    found: dict[str, list[Run]] = {tool: [] for tool in tools}
    try:
        for tool in tools * repeats:
            found[tool].append(run(tool, corpus, folder, place, threads))
            shutil.rmtree(folder / f"{tool}.model")
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
    return {tool: best(found[tool]) for tool in TOOLS if found.get(tool)}


def best(runs: list[Run]) -> Run:
    """The least of every time and of memory; accuracy is the mean, since some tools take no seed."""
    numbers = [name for name in Run.__annotations__ if name not in ("asides", "measures")]
    least = {name: min(getattr(one, name) for one in runs) for name in numbers}
    measures = {name: statistics.mean(one.measures[name] for one in runs) for name in runs[0].measures}
    return Run(**least, asides=runs[0].asides, measures=measures)


def figures_of(runs: dict[str, Run], rows: int) -> str:
    columns = ["tool", "train s", "CPU s", "others", "predict s", "CPU s", "ms/row"]
    columns += ["MB at start", "peak MB", "model MB", *MEASURES]
    lines = []
    for tool, one in runs.items():
        figures = [f"{one.train:.1f}", f"{one.train_cpu:.1f}", f"{one.others:.1f}", f"{one.predict:.2f}"]
        figures += [f"{one.predict_cpu:.2f}", f"{1000 * one.predict / rows:.2f}"]
        figures += [f"{size / 2**20:,.0f}" for size in (one.start, one.peak, one.model)]
        lines.append([tool, *figures, *cells(one.measures, MEASURES)])
    return table(columns, lines)


def bars(runs: dict[str, Run]) -> str:
    """Ratios and differences within this run beside what is claimed, where the tools to compare were run."""
    peers = [tool for tool in (*BALANCED, *WIDE) if tool in runs]
    lines: list[list[str]] = []

    def add(claim: str, against: str, found: float, bar: float, work: str = "", least: bool = False) -> None:
        met = found >= bar if least else found <= bar
        sign, form = ("≥", "+.2f") if least else ("≤", ".2f")
        verdict = "met" if met else "not met"
        lines.append([claim, against, f"{found:{form}}", work, f"{sign} {bar:g}", verdict])

    def faster(ours: str, than: list[str], what: str, bar: float) -> None:
        against = min(than, key=lambda tool: getattr(runs[tool], what))
        work = min(getattr(runs[tool], f"{what}_cpu") for tool in than)
        ratio = getattr(runs[ours], what) / getattr(runs[against], what)
        add(f"{ours}, time to {what}", against, ratio, bar, f"{getattr(runs[ours], f'{what}_cpu') / work:.2f}")

    if "parabel" in runs and peers:
        faster("parabel", peers, "train", 0.7)
        faster("parabel", peers, "predict", 0.5)
    if "bonsai" in runs and WIDE[0] in runs:
        faster("bonsai", list(WIDE), "train", 0.5)
    for ours, kind in (("parabel", BALANCED), ("bonsai", WIDE)):
        for name in ("P@1", "PSP@1") if ours in runs else ():
            if there := [tool for tool in kind if tool in runs]:
                against = max(there, key=lambda tool: runs[tool].measures[name])
                gain = runs[ours].measures[name] - runs[against].measures[name]
                add(f"{ours}, {name} minus the best", against, gain, -0.2, least=True)
    for ours in ("parabel", "bonsai"):
        if ours in runs and peers:
            median = statistics.median(runs[tool].peak for tool in peers)
            add(f"{ours}, peak memory", "median of the peers", runs[ours].peak / median, 1.0)
    return table(["claim", "against", "found", "CPU time", "claimed", ""], lines, words=2)


def main() -> None:
    parser = parser_for(__doc__)
    parser.add_argument("data", nargs="+", help="names or folders of data sets")
    parser.add_argument("--threads", type=int, default=2, help="of every tool")
    parser.add_argument("--repeats", type=int, default=1, help="runs of every tool")
    parser.add_argument("--rows", type=int, default=0, help="train on so many evenly spaced rows; 0: all")
    parser.add_argument("--peers", type=Path, help="folder of the peers' environments")
    parser.add_argument("--tools", nargs="+", choices=TOOLS, default=[name for name in TOOLS if name not in SLOW])
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        place = (options.peers or Path(temporary) / "peers").absolute()
        for tool in options.tools:
            environment(tool, place)
        for data in options.data:
            corpus = with_test(data)
            corpus = replace(corpus, train=evenly_spaced(corpus.train, options.rows))
            folder = Path(tempfile.mkdtemp(dir=temporary))
            print(f"## {corpus.name}\n\n{write(corpus, folder)}; {options.threads} threads.\n", flush=True)
            runs = all_runs(options.tools, options.repeats, corpus, folder, place, options.threads)
            print(f"{figures_of(runs, len(corpus.test))}\n\n{bars(runs)}\n")
            asides = [
                f"{tool}, {what}: {seconds:.2f} s" for tool in runs for what, seconds in runs[tool].asides.items()
            ]
            print(f"Not in the table: {'; '.join(asides)}.\n", flush=True)


if __name__ == "__main__":
    main()
