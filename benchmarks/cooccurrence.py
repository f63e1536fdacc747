"""Claim: the label graph takes less time and memory than SciPy's Y.T @ Y, and its entries are the same.

    python benchmarks/cooccurrence.py                         # 2.2 million rows, 1.3 million labels, 22 labels a row
    python benchmarks/cooccurrence.py --rows 20000 --labels 10000

Labels are drawn independently by Zipf's law with exponent 0.9. Each graph is built in its own process. Prints a table:
seconds of the call on all threads that LONGTAIL_THREADS allows, CPU seconds, peak memory of the whole process including
its input, and the number of entries; then how many entries above the threshold differ from SciPy's. Kernels are
compiled before the clock starts. With --folder the input and the results are kept, so that --part can measure the
graphs one by one; the table holds all that were measured.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from scipy import sparse

from shared.command import parser_for
from shared.tables import table

if TYPE_CHECKING:
    from longtail.arrays import Matrix

THRESHOLD, CHECKED = 0.1, 20_000  # labels compared at a time
PARTS = {
    "scipy": "SciPy, Y.T @ Y",
    "ours": "threshold 0.1",
    "most": "threshold 0.1, most 32",
    "least": "threshold 0.1, least 2",
    "walk": "walks of 400 steps, most 32",
}


def zipf_targets(rows: int, labels: int, each: int, seed: int = 0) -> Matrix:
    """csr (rows, labels) of ones: `each` draws a row, duplicates counted once."""
    rng = np.random.default_rng(seed)
    # The probability of rank r is close to a constant / (r + 1)^0.9; its sum up to r grows as (r + 1)^0.1.
    drawn = (rng.random((rows, each)) * ((labels + 1) ** 0.1 - 1) + 1) ** 10
    ranks = np.minimum(drawn.astype(np.int32) - 1, labels - 1)
    del drawn
    held = np.sort(rng.permutation(labels).astype(np.int32)[ranks], axis=1)
    fresh = np.ones(held.shape, dtype=np.bool_)
    fresh[:, 1:] = held[:, 1:] != held[:, :-1]
    starts = np.concatenate([[0], np.cumsum(fresh.sum(axis=1))]).astype(np.int32)
    columns = held[fresh]
    return sparse.csr_array((np.ones(len(columns), np.float32), columns, starts), shape=(rows, labels))


def read(folder: Path, rows: int, labels: int) -> Matrix:
    parts = [np.load(folder / f"{name}.npy") for name in ("data", "indices", "indptr")]
    return sparse.csr_array(tuple(parts), shape=(rows, labels))


def measure(part: str, targets: Matrix) -> Matrix:
    from longtail.linear.graph.cooccurrence import cooccurrence
    from longtail.linear.graph.random_walks import walks

    if part == "scipy":
        return targets.T @ targets
    if part == "walk":
        return walks(targets, most=32)
    return cooccurrence(targets, THRESHOLD, 32 if part == "most" else None, 2 if part == "least" else 1)


def alone(part: str, folder: Path, rows: int, labels: int) -> None:
    """Measure one part in this process and print the row of the table."""
    from longtail.memory import return_large_blocks

    return_large_blocks()
    if part != "scipy":
        measure(part, zipf_targets(5000, 50, 8))  # compiles all kernels: common labels have more pairs than FEW
    targets = read(folder, rows, labels)
    begin, used = time.perf_counter(), time.process_time()
    graph = measure(part, targets)
    seconds, used = time.perf_counter() - begin, time.process_time() - used
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"{part}\t{seconds:.3f}\t{used:.3f}\t{peak:.3f}\t{graph.nnz}")


def check(folder: Path, rows: int, labels: int) -> int:
    """Entries that differ between the graph and SciPy's product, a few labels at a time."""
    from longtail.linear.graph.cooccurrence import cooccurrence

    targets = read(folder, rows, labels)
    graph = cooccurrence(targets, THRESHOLD)
    turned = targets.T.tocsr()
    counts = np.diff(turned.indptr)
    wrong = 0
    for begin in range(0, labels, CHECKED):
        end = min(begin + CHECKED, labels)
        theirs = (turned[begin:end] @ targets).tocsr()
        theirs.sort_indices()
        shares = theirs.data / np.repeat(counts[begin:end], np.diff(theirs.indptr)).astype(np.float64)
        kept = shares > THRESHOLD
        starts = np.concatenate([[0], np.cumsum(kept)])[theirs.indptr]
        ours = graph[begin:end]
        unseen = counts[begin:end] == 0  # SciPy has no entry there, the graph the label itself
        sizes = np.diff(ours.indptr) - unseen
        if not np.array_equal(sizes, np.diff(starts)):
            wrong += int(np.abs(sizes - np.diff(starts)).sum())
            continue
        seen = np.repeat(~unseen, np.diff(ours.indptr))
        wrong += int((ours.indices[seen] != theirs.indices[kept]).sum())
        wrong += int((ours.data[seen] != shares[kept].astype(np.float32)).sum())
    return wrong


def main() -> None:
    parser = parser_for(__doc__)
    parser.add_argument("--rows", type=int, default=2_200_000, help="training rows")
    parser.add_argument("--labels", type=int, default=1_300_000, help="labels")
    parser.add_argument("--each", type=int, default=22, help="labels drawn for a row")
    parser.add_argument(
        "--part", nargs="+", choices=[*PARTS, "check"], default=[*PARTS, "check"], help="what to measure"
    )
    parser.add_argument("--folder", type=Path, help="keep the input and the results here")
    parser.add_argument("--alone", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.alone:
        alone(options.part[0], options.folder, options.rows, options.labels)
        return
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        if not (folder / "indptr.npy").exists():
            targets = zipf_targets(options.rows, options.labels, options.each)
            for name in ("data", "indices", "indptr"):
                np.save(folder / f"{name}.npy", getattr(targets, name))
        sizes = ["--rows", str(options.rows), "--labels", str(options.labels), "--folder", str(folder)]
        figures = folder / "figures.json"  # of parts measured before, with --folder
        lines: dict[str, list[float]] = json.loads(figures.read_text()) if figures.exists() else {}
        for part in options.part:
            if part == "check":
                continue
            command = [sys.executable, __file__, "--alone", "--part", part, *sizes]
            printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split("\t")
            lines[part] = [float(word) for word in printed[1:]]
            figures.write_text(json.dumps(lines))
        wrong = check(folder, options.rows, options.labels) if "check" in options.part else None
    print(f"{options.rows:,} rows, {options.labels:,} labels, {options.each} draws a row\n")
    base, rows = lines.get("scipy"), []
    for part, (seconds, used, peak, entries) in lines.items():
        faster, smaller = (f"{base[0] / seconds:.1f}", f"{peak / base[2]:.2f}") if base else ("", "")
        rows.append([PARTS[part], f"{seconds:.1f}", faster, f"{used:.1f}", f"{peak:.2f}", smaller, f"{int(entries):,}"])
    columns = ["seconds", "SciPy's / ours", "CPU seconds", "peak GB", "ours / SciPy's", "entries"]
    print(table(["graph", *columns], rows))
    if wrong is not None:
        print(f"\nentries with threshold {THRESHOLD} that differ from SciPy's: {wrong:,}")


if __name__ == "__main__":
    main()
