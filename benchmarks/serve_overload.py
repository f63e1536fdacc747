"""Claim: at four times the rate that it keeps up with, requests of mixed sizes and a tenth of the clients slow, the
service still answers at least 80% of what it can; nobody waits longer than --timeout, and no answer is wrong.

    python benchmarks/serve_overload.py gutenberg [--minutes 5] [--times 4]

DATA gives labels and texts as in serve.py; the encoder is all-MiniLM-L6-v2, untrained, or any model: --model FOLDER.
Requests have 1, 8, 64 or 512 texts, and some a text of 20,000 characters. Capacity: texts per second that 32 clients
are answered who ask again as soon as they are answered. Overload: requests come at four times the requests per second
of capacity, whether or not the ones before were answered, over 320 connections of 10 addresses; one connection in ten
sends its body over several seconds or never ends it. Both alternate, a minute of overload each time, so that other work
on the machine slows both. Goodput: texts per second in answers with status 200. Beside each window: the share of the
time in which the model computed, texts that it computed for nobody, CPU ms of the service per text in an answer, and
the cores that other programs kept busy. Linux only.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import tempfile
import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from serve import TOLERANCE, Started, build
from shared.command import parser_for
from shared.tables import table
from shared.timing import busy

K = 5
SIZES = ((1, 65), (8, 20), (64, 8), (512, 2), (0, 5))  # texts of a request, and how many in 100; 0: one long text
LONG = 20_000  # characters
ADDRESSES = 10
CLIENTS, CONNECTIONS = 32, 320  # when capacity is measured, and under overload
SLOW = 10  # one connection in so many
SLOW_BODY = 3.0  # seconds; every second slow client never ends its body
HEAD = (
    b"POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
)  # fmt: skip


class Request(NamedTuple):
    """A request: its body, and which texts it has."""

    body: bytes
    texts: list[int]


class Reply(NamedTuple):
    """An answer; status 0: the connection was closed instead."""

    status: int
    seconds: float
    asked: Request
    body: bytes
    slow: bool


@dataclass
class Replies:
    """What came back, and when. Rates are up to the last answer to a client that is not slow: until then the service
    has work, and all that it has computed is counted."""

    all: list[Reply] = field(default_factory=list)
    times: list[float] = field(default_factory=list)  # seconds after the begin

    @property
    def seconds(self) -> float:
        return max(time for one, time in zip(self.all, self.times, strict=True) if one.status == 200 and not one.slow)

    @property
    def answered(self) -> list[Reply]:
        end = self.seconds
        return [one for one, time in zip(self.all, self.times, strict=True) if one.status == 200 and time <= end]

    @property
    def texts(self) -> int:
        return sum(len(one.asked.texts) for one in self.answered)


def texts_of(pool: list[str]) -> list[str]:
    """The texts, then as many long ones as there are requests in a hundred with one."""
    long = [(" ".join(pool[place::7]) + " ").ljust(LONG, ".")[:LONG] for place in range(5)]
    return [*pool, *long]


def requests(pool: list[str], seed: int) -> Iterator[Request]:
    """Requests of mixed sizes without end, of a few thousand that are made once."""
    rng = random.Random(seed)
    sizes, shares = zip(*SIZES, strict=True)
    made = []
    for size in rng.choices(sizes, shares, k=1000):
        which = rng.choices(range(len(pool) - 5), k=size) if size else [rng.randrange(len(pool) - 5, len(pool))]
        made.append(Request(json.dumps({"texts": [pool[one] for one in which], "k": K}).encode(), which))
    while True:
        yield from made


class Connection:
    """A connection of a client; it is opened again when the service has closed it."""

    def __init__(self, port: int, address: str, slow: str | None = None) -> None:
        self.port, self.address, self.slow = port, address, slow
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def ask(self, asked: Request) -> Reply:
        clock = asyncio.get_running_loop().time
        begin = clock()
        try:
            status, body = await asyncio.wait_for(self._ask(asked), 60)
        except (OSError, EOFError, TimeoutError):
            self.close()
            status, body = 0, b""
        return Reply(status, clock() - begin, asked, body if status == 200 else b"", self.slow is not None)

    async def _ask(self, asked: Request) -> tuple[int, bytes]:
        if self._streams is None:
            self._streams = await asyncio.open_connection("127.0.0.1", self.port, local_addr=(self.address, 0))
        reader, writer = self._streams
        writer.write(HEAD % len(asked.body))
        if self.slow is None:
            writer.write(asked.body)
        else:
            answer = asyncio.ensure_future(reader.readuntil(b"\r\n\r\n"))
            step = len(asked.body) // 30 + 1 if self.slow == "body" else 1
            for place in range(0, len(asked.body), step):
                writer.write(asked.body[place : place + step])
                done, _ = await asyncio.wait({answer}, timeout=SLOW_BODY / 30)
                if done and place + step < len(asked.body):  # refused, or given up, before all was sent
                    self.close()
                    return int(answer.result()[9:12]), b""
        head = await (reader.readuntil(b"\r\n\r\n") if self.slow is None else answer)
        body = await reader.readexactly(int(head.lower().split(b"content-length: ", 1)[1].split(b"\r\n", 1)[0]))
        if b"connection: close" in head.lower():
            self.close()
        return int(head[9:12]), body

    def close(self) -> None:
        if self._streams is not None:
            self._streams[1].close()
        self._streams = None


async def load(port: int, pool: list[str], number: int, seconds: float, rate: float, seed: int) -> Replies:
    """A rate of 0: each client asks again when it is answered, and waits a little after a refusal."""
    replies = Replies()
    source, loop = requests(pool, seed), asyncio.get_running_loop()
    begin = loop.time() + 0.1
    turn = iter(range(10**9))

    async def client(place: int) -> None:
        slow = ("body" if place // SLOW % 2 else "never") if rate and place % SLOW == 0 else None
        connection = Connection(port, f"127.0.1.{1 + place % ADDRESSES}", slow)
        await asyncio.sleep(begin - loop.time())
        while True:
            due = begin + next(turn) / rate if rate else loop.time()
            await asyncio.sleep(max(due - loop.time(), 0))
            if loop.time() >= begin + seconds:
                break
            reply = await connection.ask(next(source))
            replies.all.append(reply)
            replies.times.append(loop.time() - begin)
            if not rate and reply.status != 200:
                await asyncio.sleep(0.05)
        connection.close()

    await asyncio.gather(*(client(place) for place in range(number)))
    return replies


class Meter:
    """What the service and other programs did since the last summary."""

    def __init__(self, service: Started) -> None:
        self._service = service
        self._before = self._now()

    def _now(self) -> np.ndarray:
        page = urllib.request.urlopen(f"http://127.0.0.1:{self._service.port}/metrics").read().decode()

        def value(name: str) -> float:
            return sum(float(line.rsplit(" ", 1)[1]) for line in page.splitlines() if line.startswith(name + "{"))

        stat = Path(f"/proc/{self._service.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        cpu = (int(stat[11]) + int(stat[12])) / os.sysconf("SC_CLK_TCK")
        computing = value("longtail_batch_seconds_sum")
        return np.array([time.perf_counter(), value("longtail_texts_total"), computing, cpu, busy() - own()])

    def summary(self, answered: int) -> str:
        """In words, for a window in which so many texts were answered."""
        now = self._now()
        seconds, texts, computing, cpu, others = now - self._before
        self._before = now
        return (
            f"computing {computing / seconds:.0%} of the time, {texts - answered:.0f} texts for nobody, "
            f"{1e3 * cpu / max(answered, 1):.2f} CPU ms per text, others {max(others - cpu, 0) / seconds:.2f} cores"
        )


def own() -> float:
    """CPU seconds of the clients."""
    return time.process_time()


class Watch:
    """The memory of the service, every second, in MB."""

    def __init__(self, service: Started) -> None:
        self.seen: list[float] = []
        self._service, self._stop = service, threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        while not self._stop.wait(1):
            self.seen.append(self._service.memory())

    def growth(self) -> tuple[float, float]:
        """The median of the second and of the last tenth."""
        self._stop.set()
        self._thread.join()
        tenth = max(len(self.seen) // 10, 1)
        return float(np.median(self.seen[tenth : 2 * tenth] or self.seen)), float(np.median(self.seen[-tenth:]))


def wrong(model: Path, pool: list[str], replies: list[Reply]) -> tuple[int, int]:
    """Texts whose labels are not those of the offline prediction, of how many."""
    import longtail

    found = longtail.load_model(model).predict(pool, 4 * K)
    offline = [{one.id: one.score for one in answers} for answers in found]
    checked = bad = 0
    for reply in replies:
        if reply.status != 200:
            continue
        answers = json.loads(reply.body)["answers"]
        assert len(answers) == len(reply.asked.texts)
        for which, answer in zip(reply.asked.texts, answers, strict=True):
            scores = {label["id"]: label["score"] for label in answer["labels"]}
            least = min(scores.values(), default=0.0)
            same = all(abs(offline[which].get(name, -9) - score) <= TOLERANCE for name, score in scores.items())
            whole = all(name in scores for name, score in offline[which].items() if score > least + TOLERANCE)
            checked, bad = checked + 1, bad + (not (same and whole))
    return bad, checked


@dataclass
class Outcome:
    """What the benchmark found."""

    capacity: float  # texts per second
    goodput: float
    longest: float  # seconds that a client which is not slow waited, whatever the answer
    wrong: int
    statuses: dict[int, int]
    growth: float  # of the memory, a share

    @property
    def share(self) -> float:
        return self.goodput / self.capacity


def overload(model: Path, pool: list[str], seconds: float, times: float, windows: int, quiet: float) -> Outcome:
    """Measures capacity (for `quiet` seconds) and overload in turns; prints; returns what it found."""
    pool = texts_of(pool)
    service = Started("service", model).wait()
    try:
        asyncio.run(load(service.port, pool, CLIENTS, min(quiet, 5), 0, 0))  # the first batches are slower
        watch = Watch(service)
        meter = Meter(service)
        calm, storm = [asyncio.run(load(service.port, pool, CLIENTS, quiet, 0, 1))], []
        print("capacity:", meter.summary(calm[0].texts), flush=True)
        for window in range(windows):
            rate = times * len(calm[-1].answered) / calm[-1].seconds
            found = asyncio.run(load(service.port, pool, CONNECTIONS, seconds / windows, rate, 2 + window))
            storm.append(found)
            print("overload:", meter.summary(found.texts))
            calm.append(asyncio.run(load(service.port, pool, CLIENTS, quiet, 0, 100 + window)))
            print("capacity:", meter.summary(calm[-1].texts))
            print(
                f"{rate:.0f} requests/s asked for, {len(found.all) / found.seconds:.0f} answered; "
                f"{found.texts / found.seconds:.0f} texts/s in answers; capacity around it "
                f"{calm[-2].texts / calm[-2].seconds:.0f} and {calm[-1].texts / calm[-1].seconds:.0f} texts/s",
                flush=True,
            )
        before, after = watch.growth()
    finally:
        service.stop()
    replies = [one for part in storm for one in part.all]
    bad, checked = wrong(model, pool, replies + [one for part in calm for one in part.all])
    fast = [one for one in replies if not one.slow]
    outcome = Outcome(
        sum(part.texts for part in calm) / sum(part.seconds for part in calm),
        sum(part.texts for part in storm) / sum(part.seconds for part in storm),
        max(one.seconds for one in fast), bad, dict(sorted(Counter(one.status for one in replies).items())),
        after / before - 1,
    )  # fmt: skip
    print(table(["texts of a request", "asked", "status 200", "p50 s", "p99 s", "longest s"], list(_rows(fast))))
    slow = Counter(one.status for one in replies if one.slow)
    print(
        f"\n{sum(part.seconds for part in storm):.0f} s at {times:g} x the rate: goodput {outcome.goodput:.0f} of "
        f"{outcome.capacity:.0f} texts/s, {outcome.share:.0%} of capacity; by status {outcome.statuses}, of these slow "
        f"clients {dict(sorted(slow.items()))}; longest wait of the others {outcome.longest:.1f} s; memory "
        f"{before:.0f} MB, then {after:.0f} MB ({outcome.growth:+.1%}); {checked:,} texts compared, wrong: {bad}",
        flush=True,
    )
    return outcome


def _rows(replies: list[Reply]) -> Iterator[list[str]]:
    for name, these in [("all", replies)] + [
        (str(size), [one for one in replies if len(one.asked.texts) == size]) for size, _ in SIZES if size
    ]:
        waits = [one.seconds for one in these if one.status == 200]
        middle, late = np.percentile(waits, [50, 99]) if waits else (np.nan, np.nan)
        longest = max((one.seconds for one in these), default=0.0)
        yield [name, str(len(these)), str(len(waits)), f"{middle:.2f}", f"{late:.2f}", f"{longest:.2f}"]


def main() -> None:
    parser = parser_for(__doc__)
    parser.add_argument("data", nargs="?", default="wordnet", help="name or folder of a data set")
    parser.add_argument("--model", type=Path, help="a model folder instead of MiniLM; with --texts")
    parser.add_argument("--texts", type=Path, help="a JSON list of texts to ask for")
    parser.add_argument("--minutes", type=float, default=5, help="of overload")
    parser.add_argument("--times", type=float, default=4, help="the rate that it keeps up with")
    parser.add_argument("--quiet", type=float, default=20, help="seconds of each measurement of capacity")
    parser.add_argument("--folder", type=Path, help="store model and texts here")
    given: Any = parser.parse_args()
    begin = time.monotonic()
    with tempfile.TemporaryDirectory() as temporary:
        folder = given.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        model, texts = (given.model, given.texts) if given.model else build(given.data, folder)
        windows = max(round(given.minutes), 1)
        pool = json.loads(texts.read_text())
        overload(model, pool, 60 * given.minutes, given.times, windows, given.quiet)
    print(f"{time.monotonic() - begin:.0f} s in all")


if __name__ == "__main__":
    main()
