"""Python programs in processes that are forked from one that has loaded the libraries: a start takes milliseconds.

A test that kills, stops or asks a process needs a real one, but rarely a fresh interpreter that loads torch for two
seconds. The first process that is asked for starts the template, which loads the libraries, runs nothing, and forks for
each program; it ends with this process. Tests of what is loaded, of variables that libraries read when they are loaded,
and of the start itself begin a fresh interpreter instead.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import json
import os
import runpy
import select
import selectors
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

LOADED = (
    "longtail.cli", "longtail.comparison", "longtail.recipe", "longtail.report", "longtail.store",
    "longtail.linear.features.word_counts", "longtail.linear.trees.tree_fit",
    "longtail.nn.dual.dual_fit", "longtail.nn.onevsall.onevsall_fit",
)  # fmt: skip
TEMPLATE = "import sys, forked; forked.become(forked.serve(int(sys.argv[1])))"
INTERRUPTED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD)


class Forked(subprocess.Popen[Any]):
    """`subprocess.Popen` whose command, `-m MODULE ...` or `-c CODE ...`, runs in a fork of the template."""

    def _execute_child(self, args: Any, executable: Any, preexec: Any, close: Any, passed: Any, *rest: Any) -> None:
        (cwd, env, _, _, _, in_read, in_write, out_read, out_write, err_read, err_write, *_, session, _) = rest
        self._status, status = os.pipe()
        with Path(os.devnull).open("r+b") as nothing:
            given = [in_read, out_write, err_write]
            files = [other if one == -1 else one for one, other in zip(given, (nothing.fileno(), 1, 2), strict=True)]
            program = {"words": list(map(str, args)), "cwd": str(cwd or Path.cwd()), "session": session}
            program["env"] = dict(os.environ if env is None else env)
            template = template_of(os.getpid())
            socket.send_fds(template, [json.dumps(program).encode()], [*files, status])
            self.pid = int(template.recv(100))
        self._child_created = True
        os.close(status)
        for one, other in ((in_read, in_write), (out_write, out_read), (err_write, err_read)):
            if one != -1 and other != -1:
                os.close(one)

    def _try_wait(self, flags: int) -> tuple[int, int]:
        """As `os.waitpid`, which knows only the children of this process."""
        if flags & os.WNOHANG and not select.select([self._status], [], [], 0)[0]:
            return 0, 0
        said = os.read(self._status, 100)
        os.close(self._status)
        return self.pid, int(said)

    def _internal_poll(self, *_: Any, **__: Any) -> int | None:
        if self.returncode is None and self._waitpid_lock.acquire(False):
            try:
                pid, status = self._try_wait(os.WNOHANG)
                if pid:
                    self._handle_exitstatus(status)
            finally:
                self._waitpid_lock.release()
        return self.returncode


def run(words: Sequence[str], **options: Any) -> subprocess.CompletedProcess[Any]:
    """`subprocess.run` with `capture_output=True`, in a fork."""
    timeout = options.pop("timeout", None)
    with Forked(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options) as process:
        try:
            out, err = process.communicate(timeout=timeout)
        except BaseException:
            process.kill()
            raise
    return subprocess.CompletedProcess(words, process.returncode, out, err)


@cache
def template_of(owner: int) -> socket.socket:
    """The template of this process, by its number: a fork of this process has one of its own."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    paths = [str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, paths))}
    command = [sys.executable, "-c", TEMPLATE, str(theirs.fileno())]
    subprocess.Popen(command, pass_fds=[theirs.fileno()], env=environment, stdin=subprocess.DEVNULL)
    theirs.close()
    return ours


def serve(number: int) -> dict[str, Any]:
    """In the template: fork for each program that is asked for. Returns in the fork, with the program."""
    for name in LOADED:
        with contextlib.suppress(ImportError):
            __import__(name)
    gc.collect()
    gc.freeze()  # what is loaded is not looked at again, so its pages stay shared
    control, running = socket.socket(fileno=number), selectors.DefaultSelector()
    running.register(control, selectors.EVENT_READ)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    while True:
        for key, _ in running.select():
            if key.fileobj is not control:  # a program has ended
                pid, status = key.data
                running.unregister(key.fileobj)
                os.close(key.fd)
                os.write(status, str(os.waitpid(pid, 0)[1]).encode())
                os.close(status)
                continue
            asked, files, _, _ = socket.recv_fds(control, 1 << 20, 4)
            if not asked:
                os._exit(0)
            pid = os.fork()
            if not pid:
                running.close()
                control.close()
                return {**json.loads(asked), "files": files}
            for one in files[:3]:
                os.close(one)
            running.register(os.pidfd_open(pid), selectors.EVENT_READ, (pid, files[3]))
            control.send(str(pid).encode())


def become(program: dict[str, Any]) -> None:
    """In the fork: be the program, and end as an interpreter does, but for tidying up what the template has loaded."""
    if program["session"]:
        os.setsid()
    for number, file in enumerate(program["files"][:3]):
        os.dup2(file, number)
    for file in program["files"]:
        os.close(file)
    sys.stdin, sys.stdout = os.fdopen(0, closefd=False), os.fdopen(1, "w", closefd=False)
    sys.stderr = os.fdopen(2, "w", buffering=1, errors="backslashreplace", closefd=False)
    for one in INTERRUPTED:
        signal.signal(one, signal.default_int_handler if one is signal.SIGINT else signal.SIG_DFL)
    os.chdir(program["cwd"])
    os.environ.clear()
    os.environ.update(program["env"])
    status = status_of(program["words"])
    threading._shutdown()  # type: ignore[attr-defined]  # waits for threads
    atexit._run_exitfuncs()
    sys.stdout.flush()
    if status < 0:
        signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    os._exit(status)


def status_of(words: list[str]) -> int:
    """Run the program; the status with which it ends."""
    how, what, *others = words
    sys.path[0], sys.argv = "", ["-c" if how == "-c" else what, *others]
    try:
        if how == "-m":
            runpy.run_module(what, run_name="__main__", alter_sys=True)
        else:
            exec(compile(what, "<string>", "exec"), sys.modules["__main__"].__dict__)
    except SystemExit as leave:
        if leave.code is None or isinstance(leave.code, int):
            return leave.code or 0
        print(leave.code, file=sys.stderr)
        return 1
    except BaseException as error:
        sys.excepthook(type(error), error, error.__traceback__)
        return -signal.SIGINT if isinstance(error, KeyboardInterrupt) else 1
    return 0
