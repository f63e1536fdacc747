"""Watches the other processes of a torchrun job, so that none waits for one that has died or stopped.

A thread of each process counts in torchrun's key-value store, and looks at the counts of the others. Collectives have
no time limit of their own, because a process may rightly wait for hours, as while the first one trains the model of
`init_from`. So a process counts as lost only where its thread is silent:

- It was killed: its connections break, and the collective of the others raises an error. `lost` names it.
- It is stopped (SIGSTOP), or its machine is gone: nothing breaks. After `patience` seconds of silence the others end.
- torchrun has died: the system kills its children (Linux); elsewhere the thread notices and ends the process.
- It is stopped after its work, while Python shuts down: the first process of its machine ends last, and sees to it.

A signal that arrives while a collective waits would be handled after it, so never: the thread handles it then.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import json
import os
import select
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, NoReturn

from torch import distributed

from longtail.errors import ProcessLost

PATIENCE = 600.0  # seconds
GRACE = 3.0  # seconds that a process has to end by itself after a signal
RESUME = "run the same command again: with --checkpoint-dir it resumes; torchrun --max-restarts 3 does that without you"
PR_SET_PDEATHSIG = 1


class Heartbeat:
    """The thread of one process.

    Args:
        rank: of this process.
        count: of all processes.
        patience: seconds after which a silent process counts as lost.
    """

    def __init__(self, rank: int, count: int, patience: float) -> None:
        self.rank, self.count, self.patience = rank, count, patience
        self.every = min(1.0, patience / 5)
        self.parent = os.getppid()
        self.store = connected_store("heartbeat", rank, count, timedelta(seconds=max(patience, 10)))
        self.store.set(f"who/{rank}", json.dumps([socket.gethostname(), os.getpid(), _start_of(os.getpid())]))
        self._beats = [0] * count
        self._silent = [0.0] * count  # seconds
        self._done = threading.Event()
        self._wake, self._waker = socket.socketpair()
        self._waker.setblocking(False)
        self._thread = threading.Thread(target=self._run, name="longtail-heartbeat", daemon=True)

    @contextmanager
    def running(self) -> Iterator[None]:
        """Watches within this block. An error of a collective names the lost process.

        Yields:
            Nothing.

        Raises:
            ProcessLost: another process has ended.
        """
        in_main = threading.current_thread() is threading.main_thread()
        before = signal.set_wakeup_fd(self._waker.fileno(), warn_on_full_buffer=False) if in_main else -1
        self._thread.start()
        try:
            yield
            self._leave_together()
            self._end_last()
        except (Exception, SystemExit) as error:
            if in_main and signal.getsignal(signal.SIGTERM) is not signal.SIG_IGN:
                signal.signal(signal.SIGTERM, signal.SIG_IGN)  # torchrun ends the others at once: time for one line
            self._explain(error)
            raise
        finally:
            self._done.set()
            if in_main:
                signal.set_wakeup_fd(before)
            with contextlib.suppress(Exception):
                self.store.add(f"left/{self.rank}", 1)

    def _leave_together(self) -> None:
        """Waits until the others have left, too, so that one that stops at the very end is still watched."""
        others = [rank for rank in range(self.count) if rank != self.rank]
        with contextlib.suppress(Exception):  # the process that serves the store has seen all leave, and is gone
            self.store.add(f"left/{self.rank}", 1)
            while others := [rank for rank in others if not (self._has_left(rank) or self._is_dead(rank))]:
                time.sleep(0.05)

    def _end_last(self) -> None:
        """Makes the first process of a machine wait for the others when it ends: torchrun would wait for ever."""
        with contextlib.suppress(Exception):  # the process that serves the store may be gone
            processes = {rank: self._who(rank) for rank in range(self.count)}
            near = [rank for rank, (host, _, _) in processes.items() if host == socket.gethostname()]
            if self.rank == near[0]:
                others = {self._name(rank): (processes[rank][1], processes[rank][2]) for rank in near[1:]}
                atexit.register(wait_for_ends, others, self.patience)

    def lost(self, seconds: float = 3.0) -> list[int]:
        """Find processes that have ended without saying so.

        Args:
            seconds: to wait for a sign of life from processes on other machines.

        Returns:
            Their ranks.
        """
        until = time.monotonic() + seconds
        before = [self._beat(rank) for rank in range(self.count)]
        while True:
            away = [rank for rank in range(self.count) if rank != self.rank and not self._has_left(rank)]
            found = [rank for rank in away if self._is_dead(rank)]
            if found or time.monotonic() > until:
                break
            time.sleep(0.05)
        if found:
            return found
        far = [rank for rank in away if self._who(rank)[0] != socket.gethostname()]
        return [rank for rank in far if self._beat(rank) == before[rank]] if seconds >= 2 * self.every else []

    def _explain(self, error: BaseException) -> None:
        """Raises the error that names the lost process; or leaves quietly where another process does."""
        own = not isinstance(error, SystemExit) and not _is_of_a_collective(error)
        try:
            ranks = [] if own else self.lost(0.2 if isinstance(error, SystemExit) else 3.0)
            first = int(self.store.add("reported", 1)) == 1 or own  # an error of its own each process prints itself
        except Exception:  # the store is gone
            ranks, first = [], True
        if ranks:
            if not first:
                sys.exit(2)
            words = " and ".join(map(self._name, ranks))
            raise ProcessLost(f"{words} was killed or has crashed; its own output may say why; {RESUME}") from None
        if not own and not isinstance(error, SystemExit):
            if not first:
                sys.exit(2)
            raise ProcessLost(
                f"the connection to another process was lost ({str(error).splitlines()[0][:200]}); {RESUME}"
            ) from None

    def _run(self) -> None:
        last = time.monotonic()
        while not self._done.is_set():
            try:
                self.store.add(f"beat/{self.rank}", 1)
                now = time.monotonic()
                # After a pause of this process the others' silence is no longer known, so no wait counts for more.
                waited, last = min(now - last, 2 * self.every), now
                for rank in range(self.count):
                    self._listen(rank, waited)
            except Exception:
                if not self._done.wait(self.every):
                    self._end(f"torchrun or the first process has ended, so this process ends, too; {RESUME}", 2)
                return
            if os.getppid() != self.parent and not self._done.is_set():
                self._end(f"torchrun has ended, so this process ends, too; {RESUME}", 2)
            if select.select([self._wake], [], [], self.every)[0]:
                self._after_signal()

    def _listen(self, rank: int, waited: float) -> None:
        beat = self._beat(rank)
        if rank == self.rank or beat != self._beats[rank] or self._has_left(rank):
            self._beats[rank], self._silent[rank] = beat, 0.0
            return
        self._silent[rank] += waited
        if self._silent[rank] > self.patience:
            first = int(self.store.add("reported", 1)) == 1
            line = (
                f"{self._name(rank)} has not answered for {self.patience:g} s (--patience): it is stopped, or its "
                f"machine is gone; this job ends; {RESUME}"
            )
            self._kill(rank)  # a stopped process does not end by SIGTERM, and torchrun would wait for it
            self._end(line if first else "", 2)

    def _kill(self, rank: int) -> None:
        host, pid, start = self._who(rank)
        if host == socket.gethostname() and pid and start and _start_of(pid) == start:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)

    def _after_signal(self) -> None:
        """The main thread handles a signal itself, unless it waits in a collective."""
        numbers = self._wake.recv(64)
        ends = [number for number in numbers if number in (signal.SIGTERM, signal.SIGINT)]
        if ends and not self._done.wait(GRACE):
            self._end("", 128 + ends[0])

    def _end(self, line: str, code: int) -> NoReturn:
        """Ends the process from this thread: its main thread waits in a collective, and cannot be interrupted."""
        if line:
            with contextlib.suppress(Exception):
                print(f"error: {line}", file=sys.stderr, flush=True)
        os._exit(code)

    def _beat(self, rank: int) -> int:
        return int(self.store.add(f"beat/{rank}", 0))

    def _has_left(self, rank: int) -> bool:
        return int(self.store.add(f"left/{rank}", 0)) > 0

    def _who(self, rank: int) -> Any:
        """Host, process number and start of a process; a number of 0 where it is not known."""
        if self.store.check([f"who/{rank}"]):
            return json.loads(self.store.get(f"who/{rank}"))
        pid = _child_of(self.parent, rank)  # it was stopped before it joined
        return [socket.gethostname(), pid, _start_of(pid)]

    def _name(self, rank: int) -> str:
        host, pid, _ = self._who(rank)
        return f"rank {rank} of {self.count} " + (f"(pid {pid} on {host})" if pid else "(it never joined)")

    def _is_dead(self, rank: int) -> bool:
        host, pid, start = self._who(rank)
        return bool(host == socket.gethostname() and pid and start and _start_of(pid) != start)


def wait_for_ends(processes: dict[str, tuple[int, str]], patience: float) -> None:
    """Wait until processes of this machine have ended. One that stays stopped is named and killed.

    Args:
        processes: their numbers, and their starts from `_start_of`, by name.
        patience: seconds that one may be stopped.
    """
    stopped: dict[str, float] = {}  # since when
    while processes := {name: one for name, one in processes.items() if one[1] and _start_of(one[0]) == one[1]}:
        for name, (pid, _) in processes.items():
            if _facts_of(pid)[:1] != ["T"]:
                stopped.pop(name, None)
            elif time.monotonic() - stopped.setdefault(name, time.monotonic()) > patience:
                line = f"{name} was done and has been stopped for {patience:g} s (--patience): it is killed; {RESUME}"
                print(f"error: {line}", file=sys.stderr, flush=True)
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
                stopped[name] = float("inf")  # it is named once
        time.sleep(0.05)


def end_with_torchrun() -> None:
    """Make the system kill this process when torchrun dies. A stopped process, too, would else stay behind."""
    if sys.platform != "linux" or "TORCHELASTIC_RUN_ID" not in os.environ:
        return
    parent = os.getppid()
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL))
    if os.getppid() != parent:  # it died just before
        os._exit(2)


def connected_store(name: str, rank: int, count: int, timeout: timedelta) -> Any:
    """Connect to the key-value store that torchrun, or the first process, serves.

    A restarted job finds the keys of the attempt before: gloo would connect to processes that are gone. So the number
    of the attempt is part of every key.

    Args:
        name: of the user, part of every key. Each has a connection of its own: one that waits would block the other.
        rank: of this process.
        count: of all processes.
        timeout: for the connection, and for keys that are waited for.

    Returns:
        A `torch.distributed.Store`.
    """
    host, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    serves = rank == 0 and os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != str(True)
    store = distributed.TCPStore(  # type: ignore[attr-defined]
        host, port, count, serves, timeout, wait_for_workers=False, multi_tenant=True
    )
    attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    return distributed.PrefixStore(f"longtail/{attempt}/{name}", store)  # type: ignore[attr-defined]


def _start_of(pid: int) -> str:
    """When a process of this machine started, as the system says it; "" where it has ended."""
    facts = _facts_of(pid)
    return "" if not facts or facts[0] in "ZX" else facts[19]


def _facts_of(pid: int) -> list[str]:
    """What the system says of a process, its state first; nothing where there is none, or no such system."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def _child_of(parent: int, rank: int) -> int:
    """The process with this rank that torchrun started on this machine; 0 where there is none."""
    for place in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, IndexError, ValueError):
            own_parent = int((place / "stat").read_text().rpartition(")")[2].split()[1])
            if own_parent == parent and f"RANK={rank}".encode() in (place / "environ").read_bytes().split(b"\0"):
                return int(place.name)
    return 0


def _is_of_a_collective(error: BaseException) -> bool:
    """Whether torch.distributed raised it: gloo's errors have no class of their own."""
    words = str(error).lower()
    return isinstance(error, distributed.DistError) or (
        isinstance(error, RuntimeError) and any(word in words for word in ("gloo", "nccl", "connection", "socket"))
    )
