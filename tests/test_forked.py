"""Processes that are forked from one that has loaded the libraries behave as fresh interpreters do."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import forked

PROGRAMS = {
    "output": "import sys; print(sys.argv[1:], __name__); print('aside', file=sys.stderr)",
    "status": "import sys; sys.exit(7)",
    "message": "import sys; sys.exit('a reason')",
    "error": "raise ValueError('wrong')",
    "interrupt": "raise KeyboardInterrupt",
    "at the end": "import atexit, threading; atexit.register(print, 'last'); threading.Thread(target=print).start()",
    "killed": "import os, signal; os.kill(os.getpid(), signal.SIGKILL)",
    "place": "import os; print(os.getcwd(), os.environ['ONE'], 'HOME' in os.environ)",
    "spawned": "import multiprocessing as m; print(m.get_context('spawn').Pool(1).map(abs, [-1]))",
    "input": "print(input())",
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_fork_is_as_a_fresh_interpreter(name: str, tmp_path: Path) -> None:
    words = ["-c", PROGRAMS[name], "a", "b c"]
    options = {"cwd": tmp_path, "env": {"ONE": "1", "PATH": os.environ["PATH"]}, "text": True}
    (tmp_path / "in").write_text("a line\n")
    with (tmp_path / "in").open() as first, (tmp_path / "in").open() as second:
        fresh = subprocess.run([sys.executable, *words], stdin=first, capture_output=True, check=False, **options)
        fork = forked.run(words, stdin=second, **options)
    assert (fork.returncode, fork.stdout) == (fresh.returncode, fresh.stdout)
    assert fork.stderr.splitlines()[-1:] == fresh.stderr.splitlines()[-1:]


def test_it_can_be_waited_for_and_killed() -> None:
    code = "import time; print('ready', flush=True); time.sleep(60)"
    with forked.Forked(["-c", code], stdout=subprocess.PIPE, start_new_session=True) as process:
        assert process.stdout is not None and process.stdout.readline() == b"ready\n"
        assert os.getsid(process.pid) == process.pid != os.getsid(0)
        assert process.poll() is None
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.01)
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == -signal.SIGINT
        assert process.poll() == -signal.SIGINT


def test_the_command_is_there(tmp_path: Path) -> None:
    done = forked.run(["-m", "longtail", "--version"], text=True)
    assert done.returncode == 0 and done.stdout.split()[0] == "longtail"
