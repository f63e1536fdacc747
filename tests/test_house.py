"""The house rules that a machine can check: which room may import which, what loads when, how fast help answers."""

from __future__ import annotations

import ast
import resource
import subprocess
import sys
from pathlib import Path

import pytest

import longtail

SOURCE = Path(str(longtail.__file__)).parent
# A room may import itself and the rooms named here. Files at the top are rooms of their own.
ARROWS = {
    "errors": set(),
    "arrays": set(),
    "progress": set(),
    "memory": set(),
    "threads": {"errors"},
    "atomic": set(),
    "selection": set(),
    "data": {"errors", "arrays", "progress", "atomic"},
    "predictions": {"data", "errors", "arrays"},
    "predictions_file": {"predictions", "data", "errors", "arrays"},
    "metrics": {"data", "predictions", "threads", "errors", "arrays"},
    "plan": {"data", "memory", "arrays"},
    "seams": {"data", "plan", "predictions", "errors", "arrays"},
    "linear": {
        "data",
        "seams",
        "plan",
        "predictions",
        "progress",
        "threads",
        "memory",
        "errors",
        "arrays",
        "selection",
    },
    "search": {"progress", "threads", "memory", "errors", "arrays", "selection"},
    "nn": {
        "search",
        "linear",
        "data",
        "metrics",
        "plan",
        "seams",
        "predictions",
        "report",
        "progress",
        "threads",
        "memory",
        "atomic",
        "errors",
        "arrays",
        "selection",
    },
    "learners": {
        "nn",
        "search",
        "linear",
        "data",
        "metrics",
        "plan",
        "seams",
        "predictions",
        "progress",
        "threads",
        "errors",
        "arrays",
    },
    "tail": {
        "nn",
        "search",
        "linear",
        "data",
        "metrics",
        "plan",
        "seams",
        "predictions",
        "progress",
        "threads",
        "errors",
        "arrays",
    },
    "grammar": {"errors"},
    "catalogue": {"errors", "grammar"},
    "serve": {"__version__", "data", "metrics", "linear", "seams", "model", "store", "memory", "errors", "arrays"},
    "model": {"seams", "data", "predictions", "progress", "errors", "arrays", "store"},
}


def imports(path: Path) -> set[str]:
    """The rooms of longtail that a file imports, in functions too."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        names = []
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module]
            if node.module == "longtail":
                names = [f"longtail.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        found |= {name.split(".")[1] for name in names if name.startswith("longtail.")}
    return found


@pytest.mark.parametrize("room", ARROWS)
def test_arrows_go_one_way(room: str) -> None:
    files = [SOURCE / f"{room}.py"] if (SOURCE / f"{room}.py").exists() else sorted((SOURCE / room).rglob("*.py"))
    assert files
    for path in files:
        assert imports(path) - {room} <= ARROWS[room], path


def run(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("code", ["import longtail", "import longtail.cli", "import longtail.data"])
def test_importing_loads_nothing_heavy(code: str) -> None:
    heavy = "{'torch', 'numba', 'pandas', 'pyarrow', 'transformers', 'sklearn'}"
    assert run(f"{code}\nimport sys\nprint(sorted({heavy} & set(sys.modules)))").strip() == "[]"


def test_help_answers_in_half_a_second() -> None:
    """Of the processor, which other work on the machine does not take away: it waits for nothing else."""
    command = [str(Path(sys.executable).parent / "longtail"), "--help"]
    times = []
    for _ in range(5):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        times.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
        assert "compare" in done.stdout
    assert 0 < min(times) < 0.5, times


def test_no_file_is_longer_than_it_should_be() -> None:
    long = {path.name: lines for path in SOURCE.rglob("*.py") if (lines := len(path.read_text().splitlines())) > 400}
    assert not long


def test_public_names_resolve() -> None:
    for name in longtail.__all__:
        assert getattr(longtail, name) is not None
    assert set(longtail.__all__) <= set(dir(longtail))
    with pytest.raises(AttributeError, match="nonsense"):
        longtail.nonsense  # noqa: B018
