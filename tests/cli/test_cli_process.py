"""The command as a process: pipes, full disks, closed streams, signals, terminals."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import longtail
import processes

PYTHON = [sys.executable, "-m", "longtail"]
SCRIPT = [str(Path(sys.executable).parent / "longtail")]
HIDE, SHOW = b"\x1b[?25l", b"\x1b[?25h"


def run(*words: str | Path, shell: str = "", **more: Any) -> subprocess.CompletedProcess[bytes]:
    """`longtail WORDS`, and what the shell shall do with it."""
    command = subprocess.list2cmdline(PYTHON + [str(word) for word in words])
    return subprocess.run(["bash", "-c", command + shell], capture_output=True, timeout=180, check=False, **more)


def test_both_ways_to_call_it() -> None:
    for command in (PYTHON, SCRIPT):
        done = subprocess.run([*command, "--version"], capture_output=True, text=True, check=True)
        assert (done.stdout, done.stderr) == (f"longtail {longtail.__version__}\n", "")
    assert run("--help").stdout.startswith(b"Usage: longtail ")


def test_debug_shows_the_traceback() -> None:
    done = run("check", "nowhere", "--debug")
    assert done.returncode != 0
    assert b"Traceback (most recent call last)" in done.stderr
    assert b"DataError: nowhere: no such file or folder" in done.stderr
    plain = run("check", "nowhere")
    assert plain.returncode == 2
    assert plain.stderr.count(b"\n") == 1


def test_a_reader_that_leaves(model: Path) -> None:
    """`| head -1` is no error: no traceback, no message, and the code that shells know for it."""
    rows = b'{"text": "apple bridge"}\n' * 20_000  # more than a pipe holds
    done = run("predict", model, shell=" | head -1; exit ${PIPESTATUS[0]}", input=rows)
    assert (done.returncode, done.stderr) == (141, b"")
    assert json.loads(done.stdout)["labels"][0]["id"] in ("L0", "L1")
    for words in (["methods"], ["methods", "--json"], ["--help"]):
        left = run(*words, shell=" | true; exit ${PIPESTATUS[0]}")
        assert left.returncode in (141, 0)  # 0: written before the reader left
        assert left.stderr == b""


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full on this system")
def test_a_full_disk_behind_standard_output(model: Path) -> None:
    for words, line in ((["methods"], b""), (["predict", model], b"apple\n"), (["predict", model, "--json"], b"")):
        done = run(*words, shell=" > /dev/full", input=line)
        assert (done.returncode, done.stderr) == (2, b"error: No space left on device; check the disk\n")


def test_closed_streams(model: Path) -> None:
    for shell in (" >&-", " <&-", " 2>&-", " <&- >&- 2>&-"):
        done = run("predict", model, shell=shell, stdin=subprocess.DEVNULL)
        assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert run("check", "nowhere", shell=" 2>&-").returncode == 2


@pytest.mark.parametrize("encoding", ["latin-1", "ascii", "utf-8"])
def test_terminals_of_other_encodings(encoding: str, model: Path) -> None:
    """JSON stays JSON, and tables are drawn with the letters there are."""
    env = {**os.environ, "PYTHONIOENCODING": encoding}
    row = json.dumps({"id": "Zürich 東京", "text": "apple"}, ensure_ascii=False).encode()
    done = run("predict", model, env=env, input=row)
    assert json.loads(done.stdout.decode(encoding))["id"] == "Zürich 東京"
    listed = run("methods", env=env)
    assert (listed.returncode, listed.stderr) == (0, b"")


def test_the_locale_has_no_say_in_what_a_text_is(model: Path) -> None:
    """A locale of plain ASCII lets Python smuggle wrong bytes through; they are refused all the same."""
    done = run("predict", model, env={**os.environ, "LC_ALL": "C"}, input=b"apple\nbri\xffdge\n")
    assert done.returncode == 2
    assert done.stderr.startswith(b"error: standard input:2: byte 0xff is not UTF-8")


MUMBLING = """
import sys, warnings
import longtail.catalogue
warnings.warn("overflow encountered in reduce", RuntimeWarning)  # before anything is asked: shown
import longtail.cli
real = longtail.catalogue.Parts.load
def mumble(parts, name):
    warnings.warn("overflow encountered in reduce", RuntimeWarning)
    return real(parts, name)
longtail.catalogue.Parts.load = mumble
longtail.cli.main()
"""


@pytest.mark.parametrize("option", [[], ["--debug"]])
def test_warnings_are_for_those_who_debug(option: list[str]) -> None:
    command = [sys.executable, "-c", MUMBLING, "methods", *option]
    done = subprocess.run(command, capture_output=True, text=True, timeout=180, check=True)
    shown = done.stderr.count("RuntimeWarning")
    assert shown > 1 if option else shown == 1


class Terminal:
    """A process with a pseudo-terminal for its standard error and, if wanted, for the rest."""

    def __init__(self, *words: str | Path, stdin: bool = False, stdout: bool = True, code: str = "") -> None:
        self.ours, theirs = pty.openpty()
        command = [sys.executable, "-c", code, *words] if code else [*PYTHON, *words]
        self.process = processes.popen(
            [str(word) for word in command],
            stdin=theirs if stdin else subprocess.DEVNULL,
            stdout=theirs if stdout else subprocess.PIPE,
            stderr=theirs,
            env={**os.environ, "TERM": "xterm", "COLUMNS": "100"},
        )
        os.close(theirs)
        self.seen = b""

    def read(self, until: bytes | None = None) -> bytes:
        """Everything up to the word, or to the end."""
        deadline = time.monotonic() + 180
        while until is None or until not in self.seen:
            assert time.monotonic() < deadline, self.seen
            if not select.select([self.ours], [], [], 0.1)[0]:
                continue
            try:
                piece = os.read(self.ours, 65536)
            except OSError:  # the other side is closed
                piece = b""
            if not piece:
                break
            self.seen += piece
        return self.seen

    def end(self) -> int:
        """Read on to the end; the exit code."""
        self.read()
        out = self.process.communicate(timeout=180)[0]
        self.out = out or b""
        os.close(self.ours)
        return self.process.returncode


# Work that lasts as long as the test wants, announced in the terminal: the first call waits to be interrupted.
SLOW = """
import os, sys, time
os.environ["NUMBA_DISABLE_ERROR_MESSAGE_HIGHLIGHTING"] = "1"  # the command sets this before it imports Numba
import longtail.cli, longtail.linear.features.sparse_top as top
real = top.sparse_top
def slow(*words):
    deadline = time.time() + 120
    print("now working", file=sys.stderr, flush=True)
    while time.time() < deadline:
        time.sleep(0.01)
    return real(*words)
top.sparse_top = slow
sys.argv[0] = "longtail"
longtail.cli.main()
"""


def test_compare_draws_its_stages_and_cleans_up(tmp_path: Path) -> None:
    rows = [{"id": str(row), "text": f"book {row} of {row % 7}", "labels": [f"l{row % 50}"]} for row in range(30_000)]
    (tmp_path / "d.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    terminal = Terminal("compare", "d.jsonl", "centroid")
    assert terminal.end() == 0
    shown = terminal.seen.decode()
    bars, _, rest = shown.rpartition(SHOW.decode())
    plain = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", bars)
    for stage in ("reading d", "centroid", "predicting"):
        assert re.search(rf"{stage} ━+ 0:00:\d\d .*peak \d+ MB", plain), stage
    assert terminal.seen.count(HIDE) == terminal.seen.count(SHOW) == 1
    # what stays on the screen is the notes, the table and the report's path
    text = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", rest)
    assert "peak" not in text
    assert "note: no test split was given" in text
    assert re.search(r"centroid +\d", text)
    assert text.rstrip().endswith("report: report.html")


def test_results_go_where_the_shell_sends_them(model: Path, rows_file: Path) -> None:
    """Bars on the terminal must not take the output with them."""
    terminal = Terminal("predict", model, rows_file, stdout=False)
    assert terminal.end() == 0
    assert [json.loads(line)["id"] for line in terminal.out.splitlines()] == [f"test-{row}" for row in range(60)]
    assert b'"labels"' not in terminal.seen
    Path("edges.tsv").write_text("".join(f"n{node}\tn{node // 2}\n" for node in range(1, 40)))
    builder = Terminal("build", "hierarchy", "edges", "edges.tsv", "--out", "built", stdout=False)
    assert builder.end() == 0
    assert builder.out.startswith(b"wrote built: ")


def test_no_bars_among_the_answers(model: Path, rows_file: Path) -> None:
    terminal = Terminal("predict", model, rows_file)
    assert terminal.end() == 0
    assert b"\x1b" not in terminal.seen
    assert len(terminal.seen.splitlines()) == 60


def test_typing_texts_gets_answers_line_by_line(model: Path) -> None:
    terminal = Terminal("predict", model, "-k", "1", stdin=True)
    terminal.read(until=b"end with Ctrl-D")
    for word, label in (("apple", b'"L0"'), ("dragon", b'"L3"')):
        os.write(terminal.ours, word.encode() + b"\n")
        terminal.read(until=label)
    os.write(terminal.ours, b"\x04")
    assert terminal.end() == 0


@pytest.mark.parametrize("command", ["train", "compare"])
@pytest.mark.parametrize(("what", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_stopped_in_the_middle_of_work(what: signal.Signals, code: int, command: str, data: Path) -> None:
    words = {
        "train": ["train", data, "centroid + rerank", "--out", "out/model"],
        "compare": ["compare", data, "centroid", "--report", "out/report.html"],
    }[command]
    terminal = Terminal(*words, code=SLOW)
    terminal.read(until=b"now working")
    terminal.process.send_signal(what)
    begin = time.monotonic()
    assert terminal.end() == code
    assert time.monotonic() - begin < 100  # the work itself lasts 120 s
    assert b"Traceback" not in terminal.seen
    assert terminal.seen.count(HIDE) == terminal.seen.count(SHOW) == 1
    if what == signal.SIGINT:
        assert terminal.seen.endswith(b"interrupted\r\n")
    assert list(Path().iterdir()) == []


def test_ctrl_c_twice_and_while_reading(model: Path) -> None:
    """Waiting for standard input is work too, and impatience changes nothing."""
    process = processes.popen(
        [*PYTHON, "predict", str(model), "--out", "out.jsonl"], stdin=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdin is not None
    process.stdin.write(b"apple\n")
    process.stdin.flush()
    deadline = time.monotonic() + 120
    while not any(Path().iterdir()):  # until the temporary file is there
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=120)
    assert process.returncode in (130, -signal.SIGINT)
    assert b"Traceback" not in errors
    assert list(Path().iterdir()) == []
