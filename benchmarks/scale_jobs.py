"""Claim: trees and predictions that run as jobs cost the processor time of one machine, and little of it is serial.

    python benchmarks/scale_jobs.py [--rows 200000] [--labels 50000] [--recipe parabel] [--workers 1 2]
        [--train-only] [--machines 64] [--cores 16] [--disk 1e9]

Trains the recipe on a store of generated documents (as `scale_store.py`) and predicts as many texts in shards: in one
process without jobs; with its jobs run here one after the other, which separates the driver's processor seconds from
those of the jobs; and on Ray clusters of one node a worker, each with one core. Prints processor seconds, the seconds
by the clock, the bytes that jobs read and write for each document, and whether the model and the answers have the same
bytes. Last the time that --machines of --cores cores each would take, reckoned from the serial part, the jobs, and a
shared disk that moves --disk bytes a second. Ray: pip install 'longtail[cluster]'. --workers 0: without Ray.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

from scale_store import files, write
from shared.command import parser_for
from shared.tables import header, row

SHARDS = 32


def main() -> None:
    parser = parser_for(__doc__)
    parser.add_argument("--rows", type=int, default=200_000, help="documents to train on, and texts to predict")
    parser.add_argument("--labels", type=int, default=50_000, help="labels")
    parser.add_argument("--recipe", default="parabel", help="what is trained")
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2], help="nodes of the Ray clusters")
    parser.add_argument("--train-only", action="store_true", help="leave predictions out")
    parser.add_argument("--machines", type=int, default=64, help="that are reckoned for")
    parser.add_argument("--cores", type=int, default=16, help="of such a machine")
    parser.add_argument("--disk", type=float, default=1e9, help="bytes a second of the disk that they share")
    options = parser.parse_args()
    os.environ["LONGTAIL_THREADS"] = "1"
    os.environ["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
    with tempfile.TemporaryDirectory() as folder:
        measure(Path(folder), options)


@dataclass
class Cost:
    """What a run took, in seconds."""

    driver: float = 0.0  # of the processor
    rounds: list[list[float]] = field(default_factory=list)  # of the processor, of the jobs of each round
    clock: float = 0.0
    read: int = 0  # bytes of what jobs read
    written: int = 0  # bytes of what they wrote

    @property
    def jobs(self) -> list[float]:
        """Of all rounds."""
        return [seconds for one in self.rounds for seconds in one]


def measure(folder: Path, options: argparse.Namespace) -> None:
    from longtail.data.store_convert import write_store

    write(folder / "data", options.rows, options.labels)
    write_store(folder / "data", folder / "store")
    write_shards(folder)
    columns = ["what", "where", "clock s", "driver CPU s", "jobs CPU s", "jobs", "same bytes"]
    print(header(columns, words=2), flush=True)
    counted = {}
    for what, work, found in (("training", train, model), ("prediction", predict, answers)):
        if what == "prediction" and options.train_only:
            break
        alone = timed(lambda work=work: work(folder / "alone", folder, options, None))
        right = found(folder / "alone")
        show(what, "one process", alone, "")
        with running_here() as cost:
            split = timed(lambda work=work: work(folder / "here", folder, options, "processes"), cost)
        show(what, "jobs, here", split, same(found(folder / "here"), right))
        counted[what] = split
        for workers in filter(None, options.workers):
            with cluster(workers) as used:
                cost = timed(lambda work=work, n=workers: work(folder / f"ray-{n}", folder, options, "ray"))
                cost.rounds = [[used()]]
            show(what, f"Ray, {workers} of one core", cost, same(found(folder / f"ray-{workers}"), right))
    for what, cost in counted.items():
        reckon(what, cost, options)


def reckon(what: str, cost: Cost, options: argparse.Namespace) -> None:
    serial, parallel = cost.driver, sum(cost.jobs)
    each = options.machines * options.cores
    moved = (cost.read + cost.written) / options.disk
    # One round after the other. No more cores than jobs, and no round is done before its longest job.
    working = sum(max(sum(one) / min(each, len(one)), max(one)) for one in cost.rounds)
    whole = serial + working + moved
    rounds = " + ".join(str(len(one)) for one in cost.rounds)
    print(
        f"\n{what}: {serial / (serial + parallel):.1%} of the processor seconds are serial; jobs read "
        f"{cost.read / options.rows:,.0f} and write {cost.written / options.rows:,.0f} bytes a document; "
        f"{options.machines} machines of {options.cores} cores: {serial:.1f} s serial + {working:.1f} s in "
        f"{rounds} jobs (longest {max(cost.jobs):.1f} s) + {moved:.1f} s of the disk = {whole:.1f} s, "
        f"{(serial + parallel) / whole:.1f} times as fast as one core"
    )


def show(what: str, where: str, cost: Cost, equal: str) -> None:
    jobs = f"{sum(cost.jobs):.1f}" if cost.jobs else ""
    number = len(cost.jobs) if len(cost.jobs) > 1 else ""
    print(row([what, where, f"{cost.clock:.1f}", f"{cost.driver:.1f}", jobs, number, equal]), flush=True)


def same(found: dict[str, bytes], right: dict[str, bytes]) -> str:
    return "yes" if found == right else "NO"


def timed(work: Callable[[], None], cost: Cost | None = None) -> Cost:
    cost = cost or Cost()
    begun, used = time.perf_counter(), time.process_time()
    work()
    cost.clock = time.perf_counter() - begun
    cost.driver = time.process_time() - used - sum(cost.jobs)
    return cost


def train(out: Path, folder: Path, options: argparse.Namespace, on: str | None) -> None:
    import longtail
    from longtail.jobs import using_jobs

    corpus = longtail.load(folder / "store")
    recipe = longtail.Recipe.parse(options.recipe)
    if on is None:
        recipe.fit(corpus.train, corpus.valid).save(out)
        return
    with using_jobs(out.with_suffix(".jobs"), on):
        recipe.fit(corpus.train, corpus.valid).save(out)


def predict(out: Path, folder: Path, options: argparse.Namespace, on: str | None) -> None:
    from longtail.batch_prediction import prediction_jobs
    from longtail.jobs import run_jobs

    target = out.with_suffix(".answers")
    jobs = prediction_jobs(folder / "alone", folder / "shards", target, k=5, threshold=None, dial=0.0)
    if on is None:
        for number in jobs.left():
            jobs.run(number)
    elif on == "processes":
        HERE[0](jobs, on, "predicting")
    else:
        run_jobs(jobs, on, "predicting")


HERE: list[Callable[..., Any]] = []


@contextmanager
def running_here() -> Iterator[Cost]:
    """Jobs run in this process, one after the other, and are timed."""
    place = import_module("longtail.jobs.job_runner")
    cost, real = Cost(), place.run_jobs

    def run(jobs: Any, on: str, name: str, gpus: bool = False) -> list[Any]:
        shards = [one["path"] if jobs.kind == "predict" else jobs.path.parent / one for one in jobs.sources
                  if jobs.kind in ("predict", "words")]  # fmt: skip
        cost.read += size(jobs.path) + sum(Path(one).stat().st_size for one in shards)
        cost.read += sum(path.stat().st_size for path in jobs.path.parent.glob("rows.*"))
        cost.rounds.append([])
        for number in jobs.left():
            used = time.process_time()
            jobs.run(number)
            cost.rounds[-1].append(time.process_time() - used)
        cost.written += sum(path.stat().st_size for path in jobs.outputs)
        return []

    place.run_jobs = run  # type: ignore[attr-defined]
    HERE[:] = [run]
    try:
        yield cost
    finally:
        place.run_jobs = real  # type: ignore[attr-defined]


def size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.iterdir() if path.is_file())


@contextmanager
def cluster(workers: int) -> Iterator[Callable[[], float]]:
    """A Ray cluster on this machine; what it yields says the processor seconds of all workers so far."""
    import psutil
    import ray
    from ray.cluster_utils import Cluster

    os.environ["RAY_ENABLE_UV_RUN_RUNTIME_ENV"] = "0"
    memory = 80 * 1024 * 1024
    made = Cluster(
        initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False, "object_store_memory": memory}
    )
    for _ in range(workers):
        made.add_node(num_cpus=1, object_store_memory=memory)
    os.environ["RAY_ADDRESS"] = made.address
    ray.init(address=made.address, log_to_driver=False, logging_level="ERROR")

    def used() -> float:
        found = 0.0
        for process in psutil.process_iter(["cmdline", "cpu_times"]):
            if (process.info["cmdline"] or [""])[0].startswith(("ray::run", "ray::IDLE")):
                found += process.info["cpu_times"].user + process.info["cpu_times"].system
        return found

    try:
        yield used
    finally:
        ray.shutdown()
        made.shutdown()
        del os.environ["RAY_ADDRESS"]


def write_shards(folder: Path) -> None:
    (folder / "shards").mkdir()
    with (folder / "data" / "train.jsonl").open() as file:
        written = [(folder / "shards" / f"part-{shard:02}.jsonl").open("w") for shard in range(SHARDS)]
        for number, line in enumerate(file):
            written[number % SHARDS].write(line)
        for one in written:
            one.close()


def model(out: Path) -> dict[str, bytes]:
    return files(out)


def answers(out: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in out.with_suffix(".answers").glob("part-*")}


if __name__ == "__main__":
    main()
