"""Failures of the disk, injected: the n-th call that writes, flushes, opens, closes, renames or creates fails."""

from __future__ import annotations

import builtins
import io
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from longtail import atomic

FULL = ("write", "fsync", "mkdir", "create")  # what a full disk refuses


class Faults:
    """Counts the calls, and lets one of them fail.

    Args:
        fail_at: the number of the call that fails, from 0; -1: none.
        number: of the system's error, such as errno.ENOSPC.
        lasting: every later call that needs space fails, too.
    """

    def __init__(self, fail_at: int = -1, number: int = 0, lasting: bool = False) -> None:
        self.fail_at, self.number, self.lasting = fail_at, number, lasting
        self.calls: list[str] = []
        self.failed: list[str] = []

    def fails(self, name: str) -> bool:
        """Counts a call; whether it is to fail."""
        self.calls.append(name)
        now = len(self.calls) - 1
        failing = now == self.fail_at or (self.lasting and 0 <= self.fail_at < now and name in FULL)
        if failing:
            self.failed.append(name)
        return failing

    def error(self) -> OSError:
        return OSError(self.number, os.strerror(self.number))

    def check(self, name: str) -> None:
        if self.fails(name):
            raise self.error()


@contextmanager
def injected(faults: Faults) -> Iterator[Faults]:
    """Within this block the calls of the whole process go through `faults`."""
    real_open, real_os_open, real_write, real_close = io.open, os.open, os.write, os.close

    class File(io.FileIO):
        def write(self, data: Any) -> int:
            if faults.fails("write"):
                super().write(bytes(data)[: len(data) // 2])  # a disk fills in the middle of a write
                raise faults.error()
            return super().write(data)

        def close(self) -> None:
            closed = self.closed
            super().close()
            if not closed:
                faults.check("close")

    def opened(file: Any, mode: str = "r", *rest: Any, **options: Any) -> Any:
        if not set(mode) & set("wxa") or isinstance(file, int):
            return real_open(file, mode, *rest, **options)
        faults.check("create")
        buffered = io.BufferedWriter(File(file, mode.replace("t", "").replace("b", "")))
        if "b" in mode:
            return buffered
        names = ("buffering", "encoding", "errors", "newline")
        given = dict(zip(names, rest, strict=False)) | options
        return io.TextIOWrapper(buffered, given.get("encoding"), given.get("errors"), given.get("newline"))

    def os_open(path: Any, flags: int, *rest: Any, **options: Any) -> int:
        faults.check("create" if flags & os.O_CREAT else "open")
        return real_os_open(path, flags, *rest, **options)

    def os_write(handle: int, data: bytes) -> int:
        if faults.fails("write"):
            real_write(handle, data[: len(data) // 2])
            raise faults.error()
        return real_write(handle, data)

    def os_close(handle: int) -> None:
        real_close(handle)
        faults.check("close")

    def checked(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*given: Any, **options: Any) -> Any:
            faults.check(name)
            return real(*given, **options)

        return call

    exchange = atomic._exchange
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(io, "open", opened)
        patch.setattr(builtins, "open", opened)
        patch.setattr(os, "open", os_open)
        patch.setattr(os, "write", os_write)
        patch.setattr(os, "close", os_close)
        patch.setattr(os, "fsync", checked("fsync", os.fsync))
        patch.setattr(os, "rename", checked("rename", os.rename))
        patch.setattr(os, "replace", checked("replace", os.replace))
        patch.setattr(os, "mkdir", checked("mkdir", os.mkdir))
        patch.setattr(os, "ftruncate", checked("truncate", os.ftruncate))
        patch.setattr(atomic, "_exchange", lambda *names: not faults.fails("exchange") and exchange(*names))
        yield faults
