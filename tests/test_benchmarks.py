"""Benchmarks stand in their page, answer `--help` at once, and import names that exist."""

from __future__ import annotations

import ast
import importlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import longtail
from longtail.catalogue import LEARNERS, TAIL_METHODS, learner_class, tail_class
from longtail.cli.build import app

ROOT = Path(__file__).parent.parent
SOURCE = Path(str(longtail.__file__)).parent
BENCHMARKS = ROOT / "benchmarks"
SCRIPTS = sorted([*BENCHMARKS.glob("*.py"), *(BENCHMARKS / "gpu").glob("*.py")])
SECONDS = 1.5  # of the processor, for help; a script that loads torch or compiles takes longer


def test_every_script_stands_in_the_page_and_no_other() -> None:
    page = (BENCHMARKS / "README.md").read_text()
    listed = re.findall(r"^\| `([a-z0-9_/]+\.py)` \|", page, re.MULTILINE)
    assert sorted(listed) == sorted(str(path.relative_to(BENCHMARKS)) for path in SCRIPTS)


# A process that has loaded what nearly every script begins with, and forks for each: its files, status, output and the
# seconds of the processor that it took.
ASKED_FOR_HELP = """
import argparse, json, os, runpy, sys, tempfile, traceback
import numpy, scipy.sparse

for path in sys.argv[1:]:
    with tempfile.TemporaryFile("w+") as said:
        child = os.fork()
        if not child:
            os.dup2(said.fileno(), 1)
            os.dup2(said.fileno(), 2)
            sys.argv, sys.path[0] = [path, "--help"], os.path.dirname(path)
            code = 1
            try:
                runpy.run_path(path, run_name="__main__")
            except SystemExit as leave:
                code = leave.code or 0
            except BaseException:
                traceback.print_exc()
            finally:
                sys.stdout.flush()
                os._exit(code)
        _, status, used = os.wait4(child, 0)
        said.seek(0)
        answer = [path, os.waitstatus_to_exitcode(status), said.read(), used.ru_utime + used.ru_stime]
    print(json.dumps(answer), flush=True)
"""


def test_every_script_answers_help_at_once() -> None:
    environment = os.environ | {"PYTHONPATH": str(SOURCE.parent)}
    command = [sys.executable, "-c", ASKED_FOR_HELP, *map(str, SCRIPTS)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert [path for path, *_ in answers] == list(map(str, SCRIPTS)), done.stderr[-300:]
    for path, status, said, used in answers:
        assert status == 0 and "usage:" in said, (path, said[-300:])
        assert used < SECONDS, (path, used)


def test_names_that_benchmarks_import_exist() -> None:
    """Those inside functions too, which `--help` never reaches."""
    missing = []
    for path in BENCHMARKS.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "longtail":
                known = names_of(str(node.module))
                missing += [f"{path.name}: {node.module}.{one.name}" for one in node.names if one.name not in known]
    assert missing == []


def test_the_breaks_of_the_mutation_script_still_stand_in_the_source() -> None:
    """A break whose code has moved would be tested by nobody."""
    environment = os.environ | {"PYTHONPATH": str(SOURCE.parent)}
    command = [sys.executable, str(BENCHMARKS / "mutations.py"), "--list"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr


def names_of(module: str) -> set[str]:
    """What can be imported from a module of the package, read from its source: torch need not be loaded."""
    if module == "longtail":
        return set(longtail.__all__) | {path.stem for path in SOURCE.iterdir()}
    path = SOURCE.joinpath(*module.split(".")[1:])
    names = {one.stem for one in path.iterdir()} if path.is_dir() else set()
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    if not file.exists():
        return names
    for node in ast.parse(file.read_text()).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.ImportFrom | ast.Import):
            names |= {alias.asname or alias.name for alias in node.names}
        else:
            names |= {one.id for one in ast.walk(node) if isinstance(one, ast.Name)}
    return names


def test_the_fuzzers_know_every_kind_that_is_saved_and_every_builder(monkeypatch: pytest.MonkeyPatch) -> None:
    """A new kind of model, or a new command that reads raw files, needs a sample there."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    data_sources = importlib.import_module("shared.data_sources")
    model_samples = importlib.import_module("shared.model_samples")
    named = {word for recipe in model_samples.RECIPES.values() for word in re.findall(r"[a-z0-9-]+", recipe)}
    parts = [(name, learner_class(name)) for name in LEARNERS] + [(name, tail_class(name)) for name in TAIL_METHODS]
    kinds: dict[str, set[str]] = {}
    for name, part in parts:
        saved = getattr(part, "reranker", None) or getattr(part, "scorer", None)
        if saved is not None:
            kinds.setdefault(saved.kind, set()).add(name)
    assert {kind: names for kind, names in kinds.items() if not names & named} == {}
    commands = {command.name for command in app.registered_commands} - {"holdout"}  # reads what `load` reads
    assert {f"build {name}" for name in commands} <= data_sources.SOURCES.keys()
