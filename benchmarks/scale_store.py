"""Claim: a store is written in memory that does not grow with the documents, and training from it gives the same model
in less memory.

    python benchmarks/scale_store.py [--rows 5000000] [--labels 100000] [--train 500000] [--recipe parabel]
        [--folder DIR]

Writes JSON lines of generated documents (six words and two labels each, both Zipf), converts them in a process of its
own and those that it starts (LONGTAIL_THREADS), and prints seconds by the clock and of all threads and processes, and
the peak of their memory that is no page of a file. Then
trains the recipe on the first --train documents (0: leaves that out), read from JSON lines and from a store, each in a
process of its own: seconds and peak of reading and training, and whether the models have the same bytes.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent))

from shared.command import parser_for
from shared.tables import header, row

BLOCK, WORDS, VOCABULARY = 1 << 16, 6, 200_000


def main() -> None:
    parser = parser_for(__doc__)
    parser.add_argument("--rows", type=int, default=5_000_000, help="documents that are converted")
    parser.add_argument("--labels", type=int, default=100_000, help="labels")
    parser.add_argument("--train", type=int, default=500_000, help="documents that are trained on; 0: none")
    parser.add_argument("--from", nargs="+", default=["lines", "store"], dest="sources", help="lines, store or both")
    parser.add_argument("--recipe", default="parabel", help="what is trained")
    parser.add_argument("--folder", type=Path, help="where the files go; default: a temporary folder")
    parser.add_argument("--job", nargs="*", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.job:
        job(*options.job)
        return
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        measure(Path(folder), options)


def measure(folder: Path, options: argparse.Namespace) -> None:
    print(header(["what", "documents", "s", "CPU s", "documents a CPU s", "peak MB"], words=1), flush=True)
    for name, rows in (("all", options.rows), ("some", options.train)):
        if rows:
            begun = time.perf_counter()
            write(folder / name, rows, options.labels)
            size = sum(path.stat().st_size for path in (folder / name).iterdir())
            taken = time.perf_counter() - begun
            print(f"   {name}: {rows:,} documents in {size / 1e9:.2f} GB of JSON lines, {taken:.0f} s", file=sys.stderr)
    if options.rows:
        show("convert", options.rows, started("convert", folder / "all", folder / "all-store"))
    if not options.train:
        return
    started("convert", folder / "some", folder / "some-store")
    write(folder / "few", 2000, 100)
    started("train", folder / "few", folder / "model-few", options.recipe)
    places = {"lines": folder / "some", "store": folder / "some-store"}
    spent = {}
    for what in options.sources:
        show(f"load {what}", options.train, started("load", places[what]))
        found = started("train", places[what], folder / f"model-{what}", options.recipe)
        spent[what] = found["cpu"]
        show(f"{options.recipe} on {what}", options.train, found)
    if len(spent) < 2:
        return
    print(f"\ndocuments a processor second on the store: {spent['lines'] / spent['store']:.2f} times those on lines")
    one, other = (files(folder / f"model-{what}") for what in ("lines", "store"))
    print(f"the same model to the byte: {'yes' if one == other else 'NO'} ({len(one)} files)")


def show(what: str, rows: int, found: dict[str, float]) -> None:
    seconds, cpu, peak = found["seconds"], found["cpu"], found["peak"]
    cells = [f"{seconds:.1f}", f"{cpu:.1f}", f"{rows / cpu:,.0f}", f"{peak / 1e6:,.0f}"]
    print(row([what, f"{rows:,}", *cells]), flush=True)


def files(folder: Path) -> dict[str, bytes]:
    """The files of a model, but for the time of its training."""
    found = {path.name: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}
    return {name: content for name, content in found.items() if name.endswith((".safetensors", ".jsonl"))}


def write(folder: Path, rows: int, labels: int) -> None:
    """JSON lines of generated documents: a label has words of its own, so that there is something to learn."""
    folder.mkdir()
    rng = np.random.default_rng(0)
    with (folder / "train.jsonl").open("w") as file:
        for begin in range(0, rows, BLOCK):
            number = min(BLOCK, rows - begin)
            first, second = (np.minimum(labels ** rng.random(number), labels - 1).astype(np.int64) for _ in range(2))
            noise = np.minimum(VOCABULARY ** rng.random((number, WORDS - 3)), VOCABULARY - 1).astype(np.int64)
            own = np.stack([7 * first % VOCABULARY, 11 * first % VOCABULARY, 7 * second % VOCABULARY], axis=1)
            for place, (one, other, words) in enumerate(
                zip(first.tolist(), second.tolist(), np.concatenate([own, noise], axis=1).tolist(), strict=True)
            ):
                text = " ".join([f"w{word}" for word in words])
                file.write(f'{{"id": "d{begin + place}", "text": "{text}", "labels": ["l{one}", "l{other}"]}}\n')


def started(*given: Any) -> dict[str, float]:
    """What a job in a process of its own found."""
    command = [sys.executable, __file__, "--job", *map(str, given)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def job(what: str, *given: str) -> None:
    import longtail
    from longtail.data.store_convert import write_store

    with Peak() as peak:
        begun, used = time.perf_counter(), processor_seconds()
        if what == "convert":
            write_store(given[0], given[1], processes=0)
        else:
            corpus = longtail.load(given[0])
            if what == "train":
                model = longtail.Recipe.parse(given[2]).fit(corpus.train, corpus.valid)
                model.save(given[1])
        seconds, cpu = time.perf_counter() - begun, processor_seconds() - used
    print(json.dumps({"seconds": seconds, "cpu": cpu, "peak": peak.bytes}))


def processor_seconds() -> float:
    """Of this process and of those that it started and that have ended."""
    parts = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in parts)


class Peak:
    """The most memory of this process and its children that is no page of a file, looked at often. Linux only."""

    def __enter__(self) -> Peak:
        self.bytes, self._over = 0, threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        while True:
            children = [path.read_text().split() for path in Path("/proc/self/task").glob("*/children")]
            total = 0
            for process in ("self", *(one for some in children for one in some)):
                with suppress(OSError, IndexError):  # it has ended by now
                    status = Path(f"/proc/{process}/status").read_text()
                    total += 1024 * int(status.split("RssAnon:")[1].split()[0])
            self.bytes = max(self.bytes, total)
            if self._over.wait(0.05):
                return


if __name__ == "__main__":
    main()
