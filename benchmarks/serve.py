"""Claims: with 32 clients the service answers 3 times as many requests as a plain FastAPI endpoint; under four times
that load it answers or refuses in time, with constant memory; no answer is wrong; `kill -9` loses no acknowledged
label.

    python benchmarks/serve.py gutenberg [--parts speed overload memory kill workers] [--seconds 8] [--minutes 5]

DATA gives the labels and, from its test split, the texts; the encoder is all-MiniLM-L6-v2, untrained. Peers: a FastAPI
endpoint that calls `SentenceTransformer.encode` and finds the exact top k for each request, written as `def` (threads)
and as `async def` (one request after another), and one that calls this library's `predict`. Service and peers take
turns, each in its own process; the clients run in another process, over loopback. Prints a table of latencies and
rates, and compares every answer of the service with the offline prediction. The cores that other processes used are
printed beside the times: do not trust times with more than 0.2. Linux only: it reads /proc. The peers need `pip install
fastapi sentence-transformers`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import BaseModel

from shared.command import parser_for
from shared.splits import with_test
from shared.tables import table
from shared.timing import busy

K = 5
TEXTS = 2048
TOLERANCE = 0.02  # of a probability: single texts are encoded in fp32, batches in bf16
PEERS = ("def", "async", "ours")
TITLES = {
    "service": "`longtail serve`",
    "def": "FastAPI, `def`: sentence-transformers `encode` + exact top k",
    "async": "the same, `async def`",
    "ours": "FastAPI, `def`: longtail `predict` a request",
}


def build(data: str, folder: Path) -> tuple[Path, Path]:
    """An untrained model and the texts to ask for, stored in the folder."""
    from longtail.linear.solvers.platt_scaling import PlattScaling
    from longtail.model import Model
    from longtail.nn.dual.dual_scorer import DualEncoderScorer
    from longtail.nn.encoders.build import load_encoder
    from longtail.nn.encoders.text_encoder import TextEncoder

    model, texts = folder / "minilm.longtail", folder / "texts.json"
    if not texts.exists():
        corpus = with_test(data)
        encoder, tokenizer = load_encoder("minilm")
        reader = TextEncoder.of(encoder, tokenizer, 64)
        vectors = reader.vectors([corpus.labels.word(row) for row in range(len(corpus.labels))])
        scorer = DualEncoderScorer(reader, vectors, PlattScaling(20.0, -10.0))
        Model("dpr(encoder='minilm')", corpus.labels, scorer, text_field=corpus.text_field).save(model, overwrite=True)
        texts.write_text(json.dumps(list(corpus.test.texts or ())[:TEXTS]))
    return model, texts


class Ask(BaseModel):
    """A request to a peer."""

    text: str
    k: int = K


def plain(kind: str, model: Path) -> None:
    """A peer: the endpoint that most people would write. Prints its port, then serves."""
    import socket

    import uvicorn
    from fastapi import FastAPI

    import longtail

    loaded = longtail.load_model(model)
    app = FastAPI()
    if kind == "ours":

        @app.post("/predict")
        def predict(asked: Ask) -> list[dict[str, Any]]:
            return [answer._asdict() for answer in loaded.predict([asked.text], asked.k).answers(0)]

    else:
        import torch
        from sentence_transformers import SentenceTransformer

        from longtail.nn.encoders.build import find_folder

        encoder = SentenceTransformer(str(find_folder("minilm")), device="cpu")
        labels = torch.from_numpy(loaded.scorer.labels)  # type: ignore[attr-defined]

        def answer(asked: Ask) -> list[dict[str, Any]]:
            vector = encoder.encode(asked.text, convert_to_tensor=True, normalize_embeddings=True)
            scores, rows = torch.topk(labels @ vector, asked.k)
            found = zip(rows.tolist(), scores.tolist(), strict=True)
            return [
                {"id": loaded.labels.ids[row], "text": loaded.labels.texts[row], "score": score} for row, score in found
            ]

        if kind == "def":
            app.post("/predict")(answer)
        else:

            @app.post("/predict")
            async def predict_in_turn(asked: Ask) -> list[dict[str, Any]]:
                return answer(asked)

    listener = socket.socket(proto=socket.IPPROTO_TCP)  # as uvicorn opens it: answers are sent without delay
    listener.bind(("127.0.0.1", 0))
    listener.listen(512)
    loaded.predict(["a first text"], K)
    print(listener.getsockname()[1], flush=True)
    uvicorn.Server(uvicorn.Config(app, log_level="error")).run([listener])


class Started:
    """A service or a peer in its own process."""

    def __init__(self, kind: str, model: Path, *options: str) -> None:
        service = kind == "service"
        # All clients here have one address, so they may have all connections.
        options = ("--connections-per-address", "1024", *options)
        words = (
            ["-m", "longtail", "serve", str(model), "--port", "0", *options] if service else [__file__, "--plain", kind]
        )
        words += [] if service else [str(model)]
        # Into a file: a pipe that is not read in time would stop the service.
        self.log = tempfile.NamedTemporaryFile("w+", suffix=".jsonl")  # noqa: SIM115
        self.process = subprocess.Popen(
            [sys.executable, *words], stdout=subprocess.PIPE, stderr=self.log if service else None, text=True
        )
        self.kind = kind

    def wait(self) -> Started:
        """Until it answers."""
        if self.kind != "service":
            assert self.process.stdout is not None
            self.port = int(self.process.stdout.readline())
            return self
        while '"listening"' not in (head := Path(self.log.name).read_text()):
            assert self.process.poll() is None, head
            time.sleep(0.05)
        self.port = _port(next(line for line in head.splitlines() if '"listening"' in line))
        while not self._ready():
            time.sleep(0.05)
        return self

    def _ready(self) -> bool:
        try:
            return bool(urllib.request.urlopen(f"http://127.0.0.1:{self.port}/ready").status == 200)
        except OSError:
            return False

    def memory(self) -> float:
        """MB."""
        return int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6

    def shared_memory(self) -> float:
        """MB of all processes; of pages that several of them have, each has its share."""
        kilobytes = 0
        for pid in family(self.process.pid):
            lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
            kilobytes += next(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
        return kilobytes / 1000

    def ready(self) -> int:
        """How many workers are ready."""
        metrics = urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics").read().decode()
        return int(metrics.partition("\nlongtail_ready ")[2].split()[0])

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(30)


def _port(line: str) -> int:
    return int(json.loads(line)["address"].rpartition(":")[2])


# ---- the clients, in a process of their own


async def _one(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, text: str) -> tuple[int, bytes]:
    body = json.dumps({"text": text, "k": K}).encode()
    writer.write(
        b"POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
        % len(body)
        + body
    )
    head = await reader.readuntil(b"\r\n\r\n")
    status = int(head[9:12])
    length = int(head.lower().split(b"content-length: ", 1)[1].split(b"\r\n", 1)[0])
    return status, await reader.readexactly(length)


async def clients(port: int, texts: list[str], number: int, seconds: float, rate: float) -> list[Any]:
    """(status, seconds, which text, answer) of every request. A rate of 0: each client asks again when answered; above,
    requests come at that rate, whether or not the last ones were answered, as long as a connection is free."""
    replies: list[Any] = []
    loop = asyncio.get_running_loop()
    begin = loop.time() + 0.2
    turn = iter(range(10**9))

    async def client() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        await asyncio.sleep(begin - loop.time())
        while True:
            this = next(turn)
            due = begin + this / rate if rate else loop.time()
            if due > loop.time():
                await asyncio.sleep(due - loop.time())
            if loop.time() > begin + seconds:
                writer.close()
                return
            asked = loop.time()
            status, body = await _one(reader, writer, texts[this % len(texts)])
            replies.append((status, loop.time() - asked, this % len(texts), body.decode() if status == 200 else ""))

    await asyncio.gather(*(client() for _ in range(number)))
    return replies


Clients = tuple[int, float, float]  # how many, for how many seconds, requests a second or 0: as fast as answered


class Load:
    """Runs the clients in another process, through a command where one is given, such as one that pauses other work."""

    def __init__(self, texts: Path, through: str) -> None:
        self.texts, self.through = texts, through.split()

    def __call__(self, *sides: tuple[Started, list[Clients]]) -> list[tuple[list[list[Any]], float, float]]:
        """For each side, the replies to each of its loads, the cores that other work took meanwhile, and the processor
        seconds that the side spent on its last load."""
        plan = [(on.port, on.process.pid, loads) for on, loads in sides]
        with tempfile.NamedTemporaryFile("r") as replies:  # this process may be paused: it could not read a pipe
            words = [__file__, "--clients", str(self.texts), json.dumps(plan), replies.name]
            subprocess.run([*self.through, sys.executable, *words], check=True)
            found: list[tuple[list[list[Any]], float, float]] = json.load(replies)
            return found


def play(texts: Path, plan: list[tuple[int, int, list[Clients]]], out: Path) -> None:
    """The process of the clients: writes what `Load` reads."""
    signal.alarm(int(sum(seconds for *_, loads in plan for _, seconds, _ in loads)) + 300)  # never wait without end
    for _, process, _ in plan:
        os.kill(process, signal.SIGCONT)  # it may have been paused with everybody else
    asked = json.loads(texts.read_text())
    found = []
    for port, process, loads in plan:
        before, mine, own, begin = busy(), spent(process), time.process_time(), time.monotonic()
        replies, last = [], mine
        for load in loads:
            last = spent(process)
            replies.append(asyncio.run(clients(port, asked, *load)))
        others = busy() - before - (spent(process) - mine) - (time.process_time() - own)
        found.append((replies, max(others, 0.0) / (time.monotonic() - begin), spent(process) - last))
    out.write_text(json.dumps(found))


class Offline:
    """Predictions without a service."""

    def __init__(self, model: Path, texts: Path) -> None:
        import longtail

        found = longtail.load_model(model).predict(json.loads(texts.read_text()), 20)
        self.answers = [{one.id: one.score for one in answers} for answers in found]

    def wrong(self, replies: list[Any]) -> int:
        """Answers with a label whose score is not the offline one, or without a label that should be there."""
        return sum(not self._right(self.answers[which], body) for status, _, which, body in replies if status == 200)

    def _right(self, offline: dict[str, float], body: str) -> bool:
        (answer,) = json.loads(body)["answers"]
        found = {label["id"]: label["score"] for label in answer["labels"]}
        if len(found) != K or any(abs(offline.get(name, -9) - score) > TOLERANCE for name, score in found.items()):
            return False
        least = min(found.values())
        return all(name in found for name, score in offline.items() if score > least + TOLERANCE)


def family(process: int) -> list[int]:
    """Process ids of a service and its workers."""
    listed = subprocess.run(["ps", "-o", "pid=", "--ppid", str(process)], capture_output=True, text=True)
    return [process, *map(int, listed.stdout.split())]


def spent(process: int) -> float:
    """Processor seconds of a service and its workers."""
    ticks = 0
    for pid in family(process):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def latencies(replies: list[Any]) -> tuple[float, float, float]:
    waits = 1000 * np.array([seconds for status, seconds, *_ in replies if status == 200])
    return (*np.percentile(waits, [50, 99]).tolist(), float(waits.max()))


def speed(model: Path, texts: Path, seconds: float, rounds: int, load: Load, peers: list[str]) -> float:
    """Prints latencies and rates, for each side those of the round with the least other work; returns the service's
    rate. All are started first and take turns."""
    sides = {kind: Started(kind, model) for kind in ("service", *peers)}
    for one in sides.values():
        one.wait()
        print(f"{one.kind} answers", file=sys.stderr, flush=True)
    rates: dict[str, float] = {}
    costs: dict[str, float] = {}
    answers: list[Any] = []
    rows: dict[str, list[tuple[float, list[str]]]] = {kind: [] for kind in sides}
    for _ in range(rounds):
        found = load(*((one, [(8, 1, 0), (1, seconds / 2, 0), (32, seconds, 0)]) for one in sides.values()))
        for kind, ((_, alone, many), others, cores) in zip(sides, found, strict=True):
            if kind == "service":
                answers += alone + many
            first, late, _ = latencies(alone)
            middle, last, _ = latencies(many)
            rate = len(many) / seconds
            each = 1000 * cores / len(many)
            line = [f"{first:.1f}", f"{late:.1f}", f"{rate:.0f}", f"{middle:.0f}", f"{last:.0f}"]
            line += [f"{each:.1f}", f"{others:.2f}"]
            if not rows[kind] or others < min(rows[kind])[0]:
                rates[kind], costs[kind] = rate, each
            rows[kind].append((others, line))
            print(f"{kind}: {' | '.join(line)}", file=sys.stderr, flush=True)
    for one in sides.values():
        one.stop()
    columns = ["p50 ms, 1 client", "p99", "requests/s, 32 clients", "p50 ms", "p99", "CPU ms a request"]
    print(table(["", *columns, "other work, cores"], [[TITLES[kind], *min(rows[kind])[1]] for kind in sides]))
    for kind in peers:
        ratios = rates["service"] / rates[kind], costs[kind] / costs["service"]
        print(f"service against {kind}: {ratios[0]:.2f} x the requests/s, {ratios[1]:.2f} x a CPU second", flush=True)
    wrong = Offline(model, texts).wrong(answers)
    print(f"\nanswers of the service compared with offline: {len(answers):,}, wrong: {wrong}", flush=True)
    return rates["service"]


def overload(model: Path, texts: Path, rate: float, seconds: float, load: Load, times: float = 4) -> None:
    """`times` the rate it keeps up with."""
    offline = Offline(model, texts)
    service = Started("service", model).wait()
    (((_, replies), others, _),) = load((service, [(8, 1, 0), (512, seconds, times * rate)]))
    service.stop()
    waits = np.array([wait for _, wait, *_ in replies])
    statuses = {status: sum(one[0] == status for one in replies) for status in sorted({one[0] for one in replies})}
    middle, last, worst = latencies(replies)
    print(
        f"\n{times:g} x {rate:.0f} requests/s asked for, 512 connections, {seconds:g} s: "
        f"{len(replies) / seconds:.0f}/s answered; by status {statuses}; "
        f"accepted: {statuses.get(200, 0) / seconds:.0f}/s, p50 {middle:.0f} ms, p99 {last:.0f} ms, "
        f"longest {worst:.0f} ms; longest of all {1000 * waits.max():.0f} ms; wrong: {offline.wrong(replies)}; "
        f"other work {others:.2f} cores",
        flush=True,
    )


def memory(model: Path, texts: Path, rate: float, minutes: float) -> None:
    """32 clients and four times the rate in turns; memory every second."""
    offline = Offline(model, texts)
    service = Started("service", model).wait()
    load = Load(texts, "")
    load((service, [(32, 5, 0)]))
    seen: list[float] = []
    stop = threading.Event()

    def watch() -> None:
        while not stop.wait(1):
            seen.append(service.memory())

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    wrong = asked = 0
    begin = time.monotonic()
    while time.monotonic() - begin < 60 * minutes:
        for part in load((service, [(32, 10, 0), (256, 10, 4 * rate)]))[0][0]:
            wrong, asked = wrong + offline.wrong(part), asked + len(part)
    stop.set()
    watcher.join()
    service.stop()
    tenth = max(len(seen) // 10, 1)
    parts = [float(np.median(seen[place : place + tenth])) for place in range(0, len(seen), tenth)][:10]
    print(
        f"\n{len(seen)} s of load, {asked:,} requests, wrong: {wrong}; memory in tenths of the time, MB: "
        + " ".join(f"{part:.0f}" for part in parts)
        + f"; second half against first half: {np.median(parts[5:]) / np.median(parts[:5]) - 1:+.1%}",
        flush=True,
    )


def workers(data: str, folder: Path, texts: Path, seconds: float, rounds: int, load: Load) -> None:
    """One worker against two, each with one thread, for a recipe that a processor computes. Prints both rates, their
    ratio, the processor time of a request, and the memory that a second worker costs: pages that are shared count by
    their share."""
    from longtail.recipe import Recipe

    model = folder / "parabel.longtail"
    if not model.exists():
        corpus = with_test(data)
        Recipe.parse("parabel").fit(corpus.train, corpus.valid).save(model)
    os.environ["LONGTAIL_THREADS"] = os.environ["OMP_NUM_THREADS"] = "1"
    rates: dict[int, list[float]] = {1: [], 2: []}
    costs: dict[int, list[float]] = {1: [], 2: []}
    shared = {}
    ends = []
    others = 0.0
    for _ in range(rounds):  # one after the other: an idle service would still hold its threads
        for number in rates:
            service = Started("service", model, "--workers", str(number)).wait()
            while service.ready() < number:
                time.sleep(0.1)
            (((_, replies), busy_with, used),) = load((service, [(16, 1, 0), (32, seconds, 0)]))
            costs[number].append(1000 * used / max(len(replies), 1))
            rates[number].append(sum(status == 200 for status, *_ in replies) / seconds)
            others = max(others, busy_with)
            shared[number] = service.shared_memory()
            ends += replies
            service.stop()
            print(f"{number} workers: {rates[number][-1]:.0f} requests/s", file=sys.stderr, flush=True)
    ratio = float(np.median(rates[2])) / float(np.median(rates[1]))
    print(
        f"\nparabel, 32 clients: {np.median(rates[1]):.0f} requests/s with 1 worker, {np.median(rates[2]):.0f} with 2, "
        f"{ratio:.2f} x; processor time of a request {np.median(costs[1]):.2f} and {np.median(costs[2]):.2f} ms; "
        f"memory {shared[1]:.0f} and {shared[2]:.0f} MB; wrong: {Offline(model, texts).wrong(ends)}; "
        f"other work up to {others:.2f} cores",
        flush=True,
    )


def kill(model: Path, rounds: int) -> None:
    """Four clients add labels; kill -9 after a random time; every label that was acknowledged must be there again."""
    journal = model.parent / f"{model.name}.added.jsonl"
    journal.unlink(missing_ok=True)
    acknowledged: list[str] = []
    lost = 0
    for number in range(rounds):
        service = Started("service", model).wait()
        address = f"http://127.0.0.1:{service.port}/labels"

        def add(worker: int, round: int = number, address: str = address) -> None:
            for count in range(10**6):
                name = f"label {count} of client {worker} in round {round}"
                body = json.dumps({"labels": [{"text": name}]}).encode()
                asked = urllib.request.Request(address, body, {"Content-Type": "application/json"})
                try:
                    acknowledged.extend(json.load(urllib.request.urlopen(asked))["added"])
                except (OSError, ValueError):
                    return

        workers = [threading.Thread(target=add, args=(worker,)) for worker in range(4)]
        for worker in workers:
            worker.start()
        time.sleep(random.uniform(1, 3))
        service.process.kill()
        for worker in workers:
            worker.join()
        service.process.wait()
        again = Started("service", model).wait()
        there = set()
        for place in range(0, 10**6, 200):
            found = json.load(
                urllib.request.urlopen(
                    f"http://127.0.0.1:{again.port}/labels?query=of+client+in+round&limit=200&offset={place}"
                )
            )
            there |= {label["id"] for label in found["labels"]}
            if len(found["labels"]) < 200:
                break
        lost += len(set(acknowledged) - there)
        again.stop()
    journal.unlink(missing_ok=True)
    print(
        f"\nkill -9 while 4 clients add labels, {rounds} times: {len(acknowledged)} acknowledged, {lost} lost",
        flush=True,
    )


def main() -> None:
    parser = parser_for(__doc__)
    parser.add_argument("data", nargs="?", default="wordnet", help="name or folder of a data set")
    parser.add_argument("--parts", nargs="+", default=["speed", "overload", "memory", "kill"], help="what to test")
    parser.add_argument("--seconds", type=float, default=8, help="of each load")
    parser.add_argument("--minutes", type=float, default=5, help="of the part memory")
    parser.add_argument("--rounds", type=int, default=3, help="turns of service and peers")
    parser.add_argument("--peers", nargs="+", default=list(PEERS), choices=PEERS, help="of the part speed")
    parser.add_argument("--kills", type=int, default=5, help="rounds of the part kill")
    parser.add_argument("--through", default="", help="command in front of that of the clients")
    parser.add_argument(
        "--rate", type=float, default=0, help="requests a second that it keeps up with; 0: as the part speed measures"
    )
    parser.add_argument("--folder", type=Path, help="store the model here")
    parser.add_argument("--plain", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--clients", nargs=3, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.plain:
        plain(given.plain[0], Path(given.plain[1]))
        return
    if given.clients:
        play(Path(given.clients[0]), json.loads(given.clients[1]), Path(given.clients[2]))
        return
    with tempfile.TemporaryDirectory() as temporary:
        folder = given.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        model, texts = build(given.data, folder)
        rate = given.rate
        load = Load(texts, given.through)
        if "speed" in given.parts:
            rate = speed(model, texts, given.seconds, given.rounds, load, given.peers)
        if "overload" in given.parts:
            overload(model, texts, rate or 300, given.seconds, load)
        if "memory" in given.parts:
            memory(model, texts, rate or 300, given.minutes)
        if "workers" in given.parts:
            workers(given.data, folder, texts, given.seconds, given.rounds, load)
        if "kill" in given.parts:
            kill(model, given.kills)


if __name__ == "__main__":
    main()
