"""`--workers N`: processes that accept from one socket, and the one that starts them and replaces those that die.

Each worker is a new process with a queue, a thread that predicts and limits of its own. It maps the files of the
models, so that their arrays are in memory once, and it accepts connections only when it is warm: whoever connects waits
for a worker that can answer, not for one that starts.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
import socket
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from types import FrameType

from longtail.errors import LongtailError, ModelError
from longtail.serve.content import Content
from longtail.serve.logs import Log
from longtail.serve.server import BACKLOG, Server, address_of, answer, make_server, report_journals
from longtail.serve.service import Service
from longtail.serve.settings import Settings
from longtail.serve.totals import Totals, bury

CHECK_SIGNALS = 0.2  # seconds between two checks for signals
LONGEST = 30.0  # seconds until a worker that never gets ready is started once more
GRACE = 15.0  # seconds beyond those of draining, after which a worker is killed


def serve_with_workers(
    settings: Settings,
    listener: socket.socket,
    content: Content,
    log: Log | None = None,
    listening: Callable[[str], None] = lambda address: None,
) -> None:
    """Answers requests with `settings.workers` processes until SIGTERM or Ctrl-C, then finishes those under way.

    Args:
        settings: of the service.
        listener: the socket of `bind`.
        content: what is served.
        log: where events are logged; None means standard error.
        listening: called with the address once clients can connect.

    Raises:
        ModelError: the first worker could not start.
    """
    # Workers that each use every core would take them from one another.
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    for name in ("LONGTAIL_THREADS", "OMP_NUM_THREADS"):
        os.environ.setdefault(name, str(max(cores // settings.workers, 1)))
    with tempfile.TemporaryDirectory(prefix="longtail-serve-") as folder:
        _Workers(settings, listener, content, log or Log(), listening, Path(folder)).run()


@dataclass(eq=False)
class _WorkerSlot:
    """The place of a worker, which one process after another may have."""

    number: int
    process: BaseProcess | None = None
    pipe: Connection | None = None
    ready: bool = False
    failed: str = ""  # why the process ended, where it could tell
    failures: int = 0  # processes that ended before they were ready, one after another
    start_at: float = 0.0


@dataclass(eq=False)
class _Workers:
    settings: Settings
    listener: socket.socket
    content: Content
    log: Log
    listening: Callable[[str], None]
    folder: Path
    signals: int = 0  # that ask to stop
    obeyed: int = 0
    stop_by: float = float("inf")
    answering: bool = False  # whether a worker has ever been ready
    places: list[_WorkerSlot] = field(default_factory=list)

    def run(self) -> None:
        """Until every worker has ended after a signal."""
        self.places = [_WorkerSlot(number) for number in range(self.settings.workers)]
        with self._signals():
            try:
                while not self.signals or any(place.process is not None for place in self.places):
                    self._obey()
                    self._start()
                    self._wait_for_events()
            finally:
                for place in self.places:
                    if place.process is not None:
                        place.process.kill()
                        place.process.join()
                self.listener.close()
        self.log.write("stopped")

    @contextmanager
    def _signals(self) -> Iterator[None]:
        def count(number: int, frame: FrameType | None) -> None:
            self.signals += 1

        before = {one: signal.signal(one, count) for one in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for one, handler in before.items():
                signal.signal(one, handler)

    def _obey(self) -> None:
        """Workers finish what they do at the first signal, and are killed at the second or when they take too long."""
        late = time.monotonic() > self.stop_by
        if self.signals <= self.obeyed and not late:
            return
        self.listener.close()  # when the workers have closed theirs, nobody new is let in
        if late:
            self.stop_by = float("inf")
            self.log.write("worker", level="error", message="workers that do not end are killed")
        for place in self.places:
            if place.process is not None:
                place.process.kill() if late or self.obeyed else place.process.terminate()
        if not self.obeyed:
            self.stop_by = time.monotonic() + self.settings.drain + GRACE
        self.obeyed = max(self.obeyed, self.signals)

    def _start(self) -> None:
        """Starts what is missing. The others wait for the first worker: what it cannot load, they could not either."""
        for place in self.places if self.answering else self.places[:1]:
            if place.process is None and not self.signals and time.monotonic() >= place.start_at:
                start = multiprocessing.get_context("spawn")
                place.pipe, end = start.Pipe(duplex=False)
                given = (self.settings.of_worker(), self.listener, self.content, place.number, self.folder, end)
                process = start.Process(target=work, args=given, name=f"worker {place.number}", daemon=True)
                # Ctrl-C reaches every process of the terminal; a worker never takes it, and this one passes it on.
                mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
                try:
                    process.start()
                finally:
                    signal.pthread_sigmask(signal.SIG_SETMASK, mask)
                    end.close()
                place.process, place.ready, place.failed = process, False, ""

    def _wait_for_events(self) -> None:
        """Waits for news of the workers, a moment at most."""
        running = [(place, place.process, place.pipe) for place in self.places if place.process is not None]
        wait(
            [process.sentinel for _, process, _ in running] + [pipe for *_, pipe in running if pipe is not None],
            CHECK_SIGNALS,
        )
        for place, process, pipe in running:
            ended = process.exitcode is not None  # asked before the pipe is read, so that no last words are lost
            with suppress(EOFError, OSError):
                while pipe is not None and pipe.poll():
                    place.failed = pipe.recv()
                    if not place.failed:
                        self._ready(place)
            if ended:
                self._ended(place, process)

    def _ready(self, place: _WorkerSlot) -> None:
        place.ready, place.failures = True, 0
        if not self.answering:
            self.answering = True
            self.listener.listen(BACKLOG)
            address = address_of(self.settings, self.listener)
            self.log.write("listening", address=address, workers=self.settings.workers)
            self.listening(address)

    def _ended(self, place: _WorkerSlot, process: BaseProcess) -> None:
        if place.pipe is not None:
            place.pipe.close()
        place.process = place.pipe = None
        bury(self.folder, place.number)
        if self.signals:
            return
        code = process.exitcode or 0
        how = f"signal {-code} ({signal.Signals(-code).name})" if code < 0 else f"exit status {code}"
        if not self.answering:
            raise ModelError(place.failed or f"the first worker ended before it was ready: {how}")
        place.failures += not place.ready
        pause = min(2.0 ** (place.failures - 1), LONGEST) if place.failures else 0.0
        place.start_at = time.monotonic() + pause
        why = {"message": place.failed} if place.failed else {}
        self.log.write(
            "worker", level="warning", worker=place.number, pid=process.pid, ended=how, replaced_in_seconds=pause, **why
        )


class WorkerServer(Server):
    """Drains on SIGTERM, and when the process that started it is gone. Only that process stops it sooner."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Replaces the two signals of `Server`: a second SIGTERM, such as of a service manager, must not cut it off."""
        loop, parent = asyncio.get_running_loop(), multiprocessing.parent_process()
        assert parent is not None
        loop.add_signal_handler(signal.SIGTERM, self._drain)
        loop.add_reader(parent.sentinel, self._drain)
        try:
            yield
        finally:
            loop.remove_reader(parent.sentinel)

    def _drain(self) -> None:
        parent = multiprocessing.parent_process()
        if parent is not None:
            asyncio.get_running_loop().remove_reader(parent.sentinel)  # it would call again and again
        if not self.should_exit:
            self.leave()


class _SharedListener(socket.socket):
    """The socket of all workers: none of them changes how many connections may wait."""

    def listen(self, backlog: int = BACKLOG) -> None:
        super().listen(BACKLOG)


def work(
    settings: Settings, listener: socket.socket, content: Content, number: int, folder: Path, pipe: Connection
) -> None:
    """A worker, from loading to its last answer.

    Args:
        settings: of this worker.
        listener: the socket of all workers.
        content: what is served.
        number: of this worker.
        folder: of the metrics of all workers.
        pipe: takes "" when the worker is ready, and why it ends where that is not by a signal.
    """
    log = Log(worker=number)
    if not sys.warnoptions:
        warnings.simplefilter("ignore")  # as the command does: the log has lines of JSON only
    try:
        started = time.perf_counter()
        models, examples = content.load()
        for model in models.values():
            model.warm_up()
        report_journals(models, log)
        service = Service(settings, models, examples, log)
        service.totals = Totals(folder, number, service.counters)
        service.state = "ready"
        # One connection at a time: a worker that took all that wait would leave none to the others.
        server = make_server(service, WorkerServer, backlog=1)
        log.write("ready", seconds=round(time.perf_counter() - started, 3), models=list(models))
        pipe.send("")
        answer(service, server, _SharedListener(fileno=listener.detach()))
    except LongtailError as error:
        _send_reason(pipe, str(error))
    except BaseException as error:  # a library may raise anything
        log.failed(error)
        _send_reason(pipe, f"a worker failed ({type(error).__name__}); the log says where")


def _send_reason(pipe: Connection, message: str) -> None:
    with suppress(OSError):  # the one that listened is gone
        pipe.send(message)
    sys.exit(1)
