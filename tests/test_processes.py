"""The children of the tests can be interrupted, however the tests were started."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

import processes


@pytest.fixture
def ignored() -> Iterator[None]:
    """This process ignores SIGINT, as the background job of a shell script does."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("ignored")
def test_a_child_of_a_background_job_can_be_interrupted() -> None:
    waiting = "import time; print('ready', flush=True); time.sleep(60)"
    process = processes.popen([sys.executable, "-c", waiting], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert process.stdout is not None and process.stdout.readline() == b"ready\n"
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode == -signal.SIGINT
    assert signal.getsignal(signal.SIGINT) == signal.SIG_IGN
