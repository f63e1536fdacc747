"""Kill a process while it saves a model, or while it serves POST /labels, thousands of times.

    python benchmarks/crash_save.py [--saves 2400] [--services 600] [--folder DISK]

A save replaces a model by another, again and again, until SIGKILL arrives at a random moment after a temporary folder
was seen. Then the folder must hold one of the two, whole; and the next save must leave nothing beside it. A service
adds labels until it is killed a moment after a request was sent; an answer that was sent by then counts. Then its
journal must open and hold every label that was acknowledged. Processes are forked from one that has all imported, so
that a kill takes milliseconds and not seconds; a folder in memory (/dev/shm) spares the wait for the disk. Exit status
1: something was broken, lost or left over.
"""

from __future__ import annotations

import argparse
import http.client
import io
import json
import multiprocessing
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

# One thread everywhere, so that the process that is forked has no other: before the libraries are loaded.
os.environ |= {"LONGTAIL_THREADS": "1", "OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}

from longtail.serve.journal import Entry, Journal, journal_of
from longtail.serve.logs import Log
from longtail.serve.models import load_models
from longtail.serve.server import bind, make_server, serve
from longtail.serve.service import Service
from longtail.serve.settings import Settings
from longtail.store import load, save

MODELS = {"one": "bm25", "two": "centroid", "served": "dpr(encoder='bag', dimension=16, epochs=1, validate_every=0)"}
FRESH = 25  # kills after which the journal starts anew, so that it stays short


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--saves", type=int, default=2400, help="kills during save")
    parser.add_argument("--services", type=int, default=600, help="kills during POST /labels")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--folder", type=Path, help="a folder on the disk to use")
    options = parser.parse_args()
    rng, faults = random.Random(options.seed), 0
    with TemporaryDirectory(dir=options.folder) as name:
        folder = Path(name)
        train(folder)
        if options.saves:
            faults += kill_saves(folder, options.saves, rng)
        if options.services:
            faults += kill_services(folder, options.services, rng)
    print(f"{options.saves + options.services:,} kills, {faults} faults")
    return int(faults > 0)


def train(folder: Path) -> None:
    """Train the models in a process of its own: a process that has computed has threads, and must not be forked."""
    words = ("apple", "bridge", "castle", "dragon", "engine", "forest")
    rows = [{"id": f"{word} {at}", "text": f"{word} {at}", "labels": [word]} for word in words for at in range(8)]
    (folder / "data").mkdir()
    (folder / "data" / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "data" / "labels.jsonl").write_text("".join(json.dumps({"id": one, "text": one}) + "\n" for one in words))
    for name, recipe in MODELS.items():
        command = ["train", str(folder / "data"), recipe, "--out", str(folder / name)]
        subprocess.run([sys.executable, "-m", "longtail", *command], check=True, capture_output=True)


def kill_saves(folder: Path, kills: int, rng: random.Random) -> int:
    """Kill saves at random moments; how many faults there were."""
    models = [load(folder / name) for name in ("one", "two")]
    place = folder / "saves"
    place.mkdir()
    path = place / "model"

    parent = os.getpid()

    def save_again_and_again() -> None:
        while os.getppid() == parent:
            for model in models:
                save(model, path, overwrite=True)

    wanted = []
    begin = time.perf_counter()
    for model in models:
        save(model, path, overwrite=True)
        wanted.append(contents(path))
    seconds = (time.perf_counter() - begin) / len(models)
    broken = left_over = within = 0
    for _ in range(kills):
        child = forked(save_again_and_again)
        until = time.monotonic() + 10
        while len(list(place.iterdir())) < 2 and time.monotonic() < until:
            pass
        time.sleep(rng.uniform(0, 0.3 * seconds))
        end(child)
        within += len(list(place.iterdir())) > 1
        broken += not path.exists() or contents(path) not in wanted
        save(models[0], path, overwrite=True)
        left_over += [one.name for one in place.iterdir()] != ["model"]
    print(
        f"save: {kills:,} kills, {within:,} of them with a temporary folder on the disk; {broken} broken models, "
        f"{left_over} left-overs after the next save",
        flush=True,
    )
    return broken + left_over


def kill_services(folder: Path, kills: int, rng: random.Random) -> int:
    """Kill services that add labels; how many faults there were."""
    model, journal = folder / "served", journal_of(folder / "served")
    broken = lost = total = torn = unanswered = 0
    acknowledged: set[str] = set()
    warm_up(model)
    for kill in range(kills):
        if kill % FRESH == 0:
            journal.unlink(missing_ok=True)
            acknowledged = set()
        settings = Settings(port=0)
        listener = bind(settings)
        child = forked(lambda settings, listener: run_service(settings, listener, model), settings, listener)
        port = listener.getsockname()[1]
        listener.close()
        new, answered = add_until_killed(port, f"{kill}", child, rng.uniform(0, 0.1), rng.uniform(0, 0.01))
        total += len(new)
        unanswered += not answered
        acknowledged |= new
        try:
            with Journal(journal) as opened:
                torn += opened.torn > 0
                lost += len(acknowledged - {entry.id for entry in opened.entries})
        except Exception as error:
            broken += 1
            print(error, file=sys.stderr)
            journal.unlink()
            acknowledged = set()
        if (kill + 1) % 50 == 0:
            print(f"{kill + 1} kills, {total:,} acknowledged labels, {lost} lost, {broken} broken", flush=True)
    others = [one.name for one in folder.iterdir() if ".writing-" in one.name]
    print(
        f"POST /labels: {kills:,} kills, {unanswered:,} of them before a request under way was answered, {torn:,} in "
        f"the middle of a line; {total:,} acknowledged labels, {lost} of them lost; {broken} broken journals, "
        f"{len(others)} left-overs"
    )
    return broken + lost + len(others)


def warm_up(model: Path) -> None:
    """Load and compile here all that a service needs, once instead of after every fork."""
    models = load_models([str(model)])
    make_server(Service(Settings(port=0), models, None, Log(io.StringIO())))
    for one in models.values():
        one.now.model.predict(["apple"], 1)
        one.add([Entry("warm", "warm")])
        one.close()
    journal_of(model).unlink()


def run_service(settings: Settings, listener: socket.socket, model: Path) -> None:
    serve(settings, listener, load_models([str(model)]), log=Log(io.StringIO()))


def add_until_killed(
    port: int, name: str, child: multiprocessing.process.BaseProcess, seconds: float, after: float
) -> tuple[set[str], bool]:
    """Add labels one after the other; some time after the first answer, kill the service `after` the next request.

    Returns:
        The acknowledged labels, and whether the last request was answered.
    """
    acknowledged: set[str] = set()
    kill_at, give_up, number = float("inf"), time.monotonic() + 60, 0
    connection, answered = None, False
    while child.is_alive() and time.monotonic() < give_up:
        number += 1
        try:
            if connection is None:
                connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
                connection.connect()
            last, answered = time.monotonic() >= kill_at, False
            body = json.dumps({"labels": [{"text": f"label {name} {number}"}]})
            connection.request("POST", "/labels", body, {"Content-Type": "application/json"})
            if last:
                time.sleep(after)
                end(child)
            answer = connection.getresponse()
            raw = answer.read()
            if answer.status == 200:
                answered = True
                acknowledged.update(json.loads(raw)["added"])
                kill_at = min(kill_at, time.monotonic() + seconds)
        except (OSError, http.client.HTTPException):
            connection = None
            time.sleep(0.005)
    end(child)
    return acknowledged, answered


def forked(work: Callable[..., None], *given: object) -> multiprocessing.process.BaseProcess:
    child = multiprocessing.get_context("fork").Process(target=work, args=given, daemon=True)
    child.start()
    return child


def end(child: multiprocessing.process.BaseProcess) -> None:
    if child.pid is not None and child.is_alive():
        os.kill(child.pid, signal.SIGKILL)
    child.join()


def contents(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir()}


if __name__ == "__main__":
    sys.exit(main())
