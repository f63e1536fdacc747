"""The house rules that a machine can check: which room may import which, what loads when, how fast help answers."""

from __future__ import annotations

import ast
import re
import resource
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import longtail

SOURCE = Path(str(longtail.__file__)).parent
FILES = sorted(SOURCE.rglob("*.py"))
NESTED = ("linear", "nn")  # folders whose subfolders and files are rooms of their own
INNER = ("data/builders",)  # a room inside another
# A room may import itself and the rooms named here, in functions too; a room that is not named imports none. Files at
# the top are rooms of their own.
ARROWS: dict[str, set[str]] = {
    "__init__": {
        "automatic",
        "comparison",
        "data",
        "metrics",
        "model",
        "predictions",
        "frame_predictor",
        "recipe",
        "reproduction",
        "store",
        "tuning",
        "version",
    },
    "__main__": {"cli"},
    "answers": {"arrays", "data", "errors", "model", "progress"},
    "atomic": {"errors"},
    "automatic": {
        "arrays",
        "data",
        "drawing",
        "errors",
        "grammar",
        "linear/features",
        "linear/fusion",
        "memory",
        "metrics",
        "model",
        "plan",
        "predictions",
        "progress",
        "recipe",
        "reuse",
        "seams",
        "version",
        "warmup",
    },
    "callbacks": {"errors", "progress"},
    "batch_prediction": {
        "answers",
        "atomic",
        "data",
        "errors",
        "jobs",
        "model_bytes",
        "model_files",
        "frame_predictor",
    },
    "catalogue": {"errors", "grammar"},
    "citations": {"catalogue", "errors", "grammar", "nn/extra", "papers"},
    "cli": {
        "answers",
        "atomic",
        "automatic",
        "batch_prediction",
        "catalogue",
        "comparison",
        "cutoff",
        "data",
        "data/builders",
        "dial",
        "errors",
        "export",
        "grammar",
        "inspection",
        "jobs",
        "memory",
        "method_help",
        "metrics",
        "model",
        "model_files",
        "neighbours",
        "nn/dual",
        "nn/encoders",
        "nn/extra",
        "nn/label_tree",
        "nn/onevsall",
        "nn/shallow",
        "nn/training",
        "plan",
        "predictions",
        "predictions_file",
        "progress",
        "recipe",
        "report",
        "reproduction",
        "seams",
        "search",
        "serve",
        "soft_targets",
        "store",
        "tuning",
    },
    "comparison": {
        "arrays",
        "atomic",
        "data",
        "dial",
        "drawing",
        "errors",
        "grammar",
        "inspection",
        "jobs",
        "memory",
        "metrics",
        "model",
        "model_files",
        "nn/training",
        "predictions",
        "predictions_file",
        "progress",
        "read_back",
        "recipe",
        "report",
        "reuse",
        "search",
        "store",
        "version",
        "warmup",
    },
    "cutoff": {"errors"},
    "data": {"arrays", "atomic", "errors", "memory", "progress", "threads", "version"},
    "data/builders": {"arrays", "atomic", "data", "errors", "memory", "progress", "read_back"},
    "dial": {"data", "errors", "metrics", "predictions"},
    "doubts": {"arrays", "linear/features", "seams"},
    "export": {
        "arrays",
        "atomic",
        "data",
        "errors",
        "linear/solvers",
        "model",
        "nn/dual",
        "nn/encoders",
        "nn/extra",
        "nn/hashed",
        "nn/onevsall",
        "nn/pool",
        "predictions",
        "progress",
        "seams",
        "search",
    },
    "grammar": {"errors"},
    "fold_jobs": {"arrays", "atomic", "data", "errors", "jobs", "read_back"},
    "fold_training": {"read_back", "arrays", "atomic", "catalogue", "data", "errors", "predictions", "recipe"},
    "held_out": {"arrays", "data", "errors", "fold_jobs", "model", "predictions", "progress", "reuse"},
    "inspection": {"arrays", "data", "errors", "metrics"},
    "jobs": {"atomic", "errors", "progress", "read_back", "threads", "version"},
    "learners": {
        "arrays",
        "data",
        "errors",
        "fold_jobs",
        "jobs",
        "linear/features",
        "linear/fusion",
        "linear/lexical",
        "linear/solvers",
        "linear/trees",
        "metrics",
        "nn/dual",
        "nn/encoder_fit",
        "nn/encoders",
        "nn/extra",
        "nn/hashed",
        "nn/label_tree",
        "nn/onevsall",
        "nn/pool",
        "nn/shallow",
        "nn/training",
        "papers",
        "plan",
        "predictions",
        "predictions_file",
        "progress",
        "seams",
        "search",
        "threads",
    },
    "linear/csr_arrays": {"arrays"},
    "linear/features": {
        "arrays",
        "atomic",
        "data",
        "errors",
        "jobs",
        "linear/csr_arrays",
        "linear/solvers",
        "plan",
        "progress",
        "read_back",
        "seams",
        "threads",
    },
    "linear/fusion": {
        "arrays",
        "data",
        "errors",
        "linear/csr_arrays",
        "linear/features",
        "linear/solvers",
        "predictions",
        "progress",
        "seams",
        "threads",
    },
    "linear/lexical": {
        "arrays",
        "data",
        "errors",
        "linear/features",
        "linear/fusion",
        "linear/solvers",
        "seams",
        "threads",
    },
    "linear/graph": {"arrays", "errors", "linear/csr_arrays", "threads"},
    "linear/solvers": {
        "linear/operation_counts",
        "arrays",
        "seams",
        "selection",
        "threads",
        "linear/csr_arrays",
        "progress",
    },
    "linear/trees": {
        "linear/operation_counts",
        "arrays",
        "atomic",
        "data",
        "errors",
        "jobs",
        "linear/csr_arrays",
        "linear/features",
        "linear/solvers",
        "memory",
        "plan",
        "progress",
        "seams",
        "selection",
        "threads",
    },
    "method_help": {"grammar", "seams"},
    "metrics": {"arrays", "cutoff", "data", "errors", "predictions", "threads"},
    "model": {
        "arrays",
        "cutoff",
        "data",
        "dial",
        "doubts",
        "errors",
        "model_files",
        "predictions",
        "progress",
        "report",
        "seams",
    },
    "model_bytes": {"arrays", "errors"},
    "model_files": {
        "arrays",
        "atomic",
        "catalogue",
        "cutoff",
        "data",
        "doubts",
        "errors",
        "grammar",
        "model_bytes",
        "seams",
        "version",
    },
    "model_loading": {
        "arrays",
        "catalogue",
        "cutoff",
        "data",
        "doubts",
        "errors",
        "grammar",
        "memory",
        "model_bytes",
        "model_files",
        "seams",
    },
    "neighbours": {"data", "errors", "tail"},
    "pairs": {"catalogue", "errors", "grammar", "seams"},
    "soft_targets": {"arrays", "data", "tail"},
    "nn/distill": {
        "arrays",
        "data",
        "errors",
        "linear/solvers",
        "metrics",
        "nn/dual",
        "nn/training",
        "predictions",
        "progress",
        "seams",
        "search",
    },
    "nn/dual": {
        "arrays",
        "data",
        "errors",
        "linear/solvers",
        "nn/encoder_fit",
        "nn/encoders",
        "nn/extra",
        "nn/training",
        "plan",
        "predictions",
        "progress",
        "seams",
        "search",
        "selection",
        "threads",
    },
    "nn/encoder_fit": {
        "arrays",
        "data",
        "errors",
        "linear/solvers",
        "metrics",
        "nn/encoders",
        "nn/training",
        "predictions",
        "progress",
        "seams",
    },
    "nn/encoders": {
        "arrays",
        "atomic",
        "errors",
        "memory",
        "nn/extra",
        "nn/kernels",
        "nn/training",
        "progress",
        "read_back",
        "seams",
        "search",
        "threads",
    },
    "nn/extra": {"errors"},
    "nn/hashed": {
        "arrays",
        "atomic",
        "data",
        "errors",
        "jobs",
        "linear/solvers",
        "metrics",
        "nn/encoders",
        "nn/onevsall",
        "predictions",
        "read_back",
        "seams",
        "search",
        "threads",
    },
    "nn/label_tree": {
        "arrays",
        "data",
        "errors",
        "linear/features",
        "linear/solvers",
        "linear/trees",
        "nn/dual",
        "nn/encoder_fit",
        "nn/encoders",
        "nn/extra",
        "nn/kernels",
        "nn/onevsall",
        "nn/training",
        "plan",
        "predictions",
        "progress",
        "seams",
    },
    "nn/onevsall": {
        "arrays",
        "data",
        "errors",
        "linear/solvers",
        "metrics",
        "nn/dual",
        "nn/encoder_fit",
        "nn/encoders",
        "nn/extra",
        "nn/training",
        "plan",
        "predictions",
        "progress",
        "seams",
        "search",
    },
    "nn/pool": {
        "arrays",
        "data",
        "errors",
        "linear/solvers",
        "memory",
        "nn/dual",
        "nn/encoders",
        "nn/onevsall",
        "nn/training",
        "plan",
        "progress",
        "seams",
        "search",
    },
    "nn/shallow": {
        "arrays",
        "data",
        "errors",
        "linear/graph",
        "linear/solvers",
        "linear/trees",
        "memory",
        "nn/dual",
        "nn/encoder_fit",
        "nn/encoders",
        "nn/extra",
        "nn/kernels",
        "nn/onevsall",
        "nn/training",
        "plan",
        "predictions",
        "progress",
        "seams",
        "search",
    },
    "nn/training": {"arrays", "atomic", "drawing", "errors", "memory", "progress", "read_back", "threads"},
    "plan": {"arrays", "data", "memory"},
    "predictions": {"arrays", "data", "errors", "saved_predictions"},
    "predictions_file": {"data", "errors", "predictions"},
    "frame_predictor": {"data", "errors", "model", "store"},
    "read_back": {"errors"},
    "recipe": {
        "catalogue",
        "data",
        "errors",
        "grammar",
        "held_out",
        "memory",
        "model",
        "nn/extra",
        "pairs",
        "plan",
        "progress",
        "reuse",
        "seams",
        "store",
    },
    "reuse": {"data", "model", "predictions"},
    "recipe_settings": {"catalogue", "errors", "grammar", "recipe"},
    "report": {
        "arrays",
        "atomic",
        "catalogue",
        "citations",
        "data",
        "dial",
        "drawing",
        "errors",
        "grammar",
        "metrics",
        "model_files",
        "predictions",
        "seams",
        "version",
    },
    "reproduction": {
        "catalogue",
        "comparison",
        "data",
        "drawing",
        "errors",
        "grammar",
        "nn/encoders",
        "plan",
        "progress",
        "recipe",
        "report",
    },
    "saved_predictions": {"arrays", "atomic", "data", "errors"},
    "seams": {"arrays", "data", "errors", "plan", "predictions"},
    "search": {"arrays", "errors", "progress", "selection", "threads"},
    "serve": {
        "arrays",
        "data",
        "dial",
        "errors",
        "linear/features",
        "memory",
        "metrics",
        "model",
        "read_back",
        "seams",
        "store",
    },
    "sklearn": {"arrays", "data", "errors", "predictions", "recipe", "recipe_settings"},
    "store": {"data", "model", "model_files", "model_loading", "report"},
    "tail": {
        "arrays",
        "data",
        "errors",
        "linear/features",
        "linear/fusion",
        "linear/graph",
        "linear/solvers",
        "metrics",
        "nn/distill",
        "nn/dual",
        "nn/encoders",
        "nn/extra",
        "nn/onevsall",
        "nn/training",
        "papers",
        "plan",
        "predictions",
        "progress",
        "seams",
        "search",
        "threads",
    },
    "threads": {"errors"},
    "tuning": {
        "atomic",
        "catalogue",
        "data",
        "drawing",
        "errors",
        "grammar",
        "jobs",
        "metrics",
        "progress",
        "read_back",
        "recipe",
        "report",
        "threads",
        "version",
    },
    "warmup": {"data", "errors", "linear/features", "progress", "recipe", "seams"},
}


def room_of(path: Path) -> str:
    parts = path.relative_to(SOURCE).with_suffix("").parts
    nested = parts[0] in NESTED or "/".join(parts[:2]) in INNER
    return "/".join(parts[:2]) if nested and len(parts) > 1 else parts[0]


@cache
def tree_of(path: Path) -> ast.Module:
    """What a file says, parsed once for all rules."""
    return ast.parse(path.read_text())


@pytest.fixture(autouse=True, scope="module")
def _forgotten_afterwards() -> Iterator[None]:
    """Half a million nodes would be looked at by every collection of garbage."""
    yield
    tree_of.cache_clear()


@cache
def imports(path: Path) -> set[str]:
    """The rooms of longtail that a file imports, in functions too."""
    found: set[str] = set()
    for node in ast.walk(tree_of(path)):
        names: list[str] = []
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "longtail":
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names if alias.name.startswith("longtail.")]
        for name in names:
            path = SOURCE.joinpath(*name.split(".")[1:])
            known = [one for one in (path, path.parent) if one.with_suffix(".py").exists() or one.is_dir()]
            if known and known[0] != SOURCE:
                found.add(room_of(known[0].with_suffix(".py")))
    return found


def test_arrows_go_one_way() -> None:
    for path in FILES:
        room = room_of(path)
        crossed = imports(path) - ARROWS.get(room, set()) - {room}
        assert not crossed, f"{path.relative_to(SOURCE)} imports {crossed}, which {room} may not"


def test_every_arrow_is_used_and_none_leads_back() -> None:
    """What nobody imports is no arrow, and whoever follows the arrows never comes back."""
    rooms = {room_of(path) for path in FILES}
    used: dict[str, set[str]] = defaultdict(set)
    for path in FILES:
        used[room_of(path)] |= imports(path) - {room_of(path)}
    for room, allowed in ARROWS.items():
        assert room in rooms and allowed == used[room], room
    seen: set[str] = set()

    def visit(room: str, above: tuple[str, ...]) -> None:
        assert room not in above, " -> ".join((*above, room))
        if room not in seen:
            for below in ARROWS.get(room, set()):
                visit(below, (*above, room))
            seen.add(room)

    for room in rooms:
        visit(room, ())


def test_every_room_has_a_sign() -> None:
    """What lives here, and where to start reading."""
    for path in SOURCE.rglob("__init__.py"):
        if path.parent != SOURCE and any(path.parent.glob("[a-z]*.py")):
            sign = ast.get_docstring(tree_of(path)) or ""
            assert len(sign.splitlines()) >= 4, f"{path.parent.relative_to(SOURCE)}/__init__.py says too little"


def test_no_two_classes_share_a_name() -> None:
    homes: dict[str, list[str]] = defaultdict(list)
    for path in FILES:
        for node in ast.walk(tree_of(path)):
            if isinstance(node, ast.ClassDef):
                homes[node.name].append(str(path.relative_to(SOURCE)))
    assert {name: found for name, found in homes.items() if len(found) > 1} == {}


def test_a_files_name_says_what_it_holds() -> None:
    """No two files of one name. Commands, methods and exports are called what users type, and a page is a page."""
    homes: dict[str, list[str]] = defaultdict(list)
    for path in FILES:
        if room_of(path) not in ("cli", "learners", "tail", "export") and path.name not in ("__init__.py", "page.py"):
            homes[path.name].append(str(path.relative_to(SOURCE)))
    assert {name: found for name, found in homes.items() if len(found) > 1} == {}


def test_public_functions_document_arguments_results_and_errors() -> None:
    """In Google form. Commands are left out: their docstrings are the help on the screen."""
    lacking = []
    for path in FILES:
        for node in tree_of(path).body:
            if not isinstance(node, ast.FunctionDef) or node.name.startswith("_") or room_of(path) == "cli":
                continue
            text = ast.get_docstring(node) or ""
            wanted = ["Args:"] if node.args.args or node.args.kwonlyargs or node.args.vararg else []
            if node.returns is not None and ast.unparse(node.returns) != "None":
                wanted.append("Yields:" if "Yields:" in text else "Returns:")
            if any(isinstance(one, ast.Raise) and one.exc is not None for one in own_statements(node)):
                wanted.append("Raises:")
            missing = [heading for heading in wanted if heading not in text]
            if missing or not text:
                lacking.append(f"{path.relative_to(SOURCE)}:{node.lineno} {node.name}: {missing or 'docstring'}")
    assert lacking == []


def test_public_methods_document_arguments_and_results() -> None:
    """Of protocols, and of the classes that a room's `__init__.py` exports."""
    exported: set[str] = set()
    for path in SOURCE.rglob("__init__.py"):
        for node in tree_of(path).body:
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
                exported |= set(ast.literal_eval(node.value))
    lacking, seen = [], 0
    for path in FILES:
        for kind in tree_of(path).body:
            if not isinstance(kind, ast.ClassDef):
                continue
            if kind.name not in exported and "Protocol" not in map(ast.unparse, kind.bases):
                continue
            for node in kind.body:
                text = ast.get_docstring(node) or "" if isinstance(node, ast.FunctionDef) else "See `"
                if not isinstance(node, ast.FunctionDef) or node.name.startswith("_") or text.startswith("See `"):
                    continue
                is_property = any("property" in ast.unparse(one) for one in node.decorator_list)
                if is_property and ast.unparse(node.body[-1]) == "...":
                    continue  # a setting: its class documents it
                seen += 1
                given = {one.arg for one in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)}
                wanted = ["Args:"] if given - {"self", "cls"} else []
                if node.returns is not None and ast.unparse(node.returns) != "None" and not is_property:
                    wanted.append("Yields:" if "Yields:" in text else "Returns:")
                if not text or any(heading not in text for heading in wanted):
                    lacking.append(f"{path.relative_to(SOURCE)}:{node.lineno} {kind.name}.{node.name}")
    assert lacking == [] and seen > 100


def own_statements(node: ast.AST) -> Iterator[ast.AST]:
    """What a function does itself, not what functions inside it do."""
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, ast.FunctionDef | ast.Lambda | ast.ClassDef):
            yield child
            yield from own_statements(child)


def test_the_fields_words_are_used() -> None:
    """Words that stood for something else before, and would not be searched for."""
    private = re.compile(
        r"\b(slopes?|lent|by_chance|lengthy|hearing|nobody's|(?:is|are) told)\b"
        r"|\bclass (Course|Paced|Place|Lent|Lesson|Wanted|Taught|Ready|Given|Picker|Odds|Halfway|Steps|Chances|Ranks)\b"
    )
    found = [
        f"{path.relative_to(SOURCE)}:{number}"
        for path in FILES
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if private.search(line)
    ]
    assert found == []


def test_what_belongs_together_is_one_argument() -> None:
    """Named tuples, where a call would be a row of names. Commands have an option an argument, and a kernel of Triton
    takes every pointer by itself."""
    long = []
    for path in FILES:
        for node in ast.walk(tree_of(path)):
            if isinstance(node, ast.FunctionDef) and room_of(path) != "cli":
                triton = any("triton.jit" in ast.unparse(one) for one in node.decorator_list)
                if len(node.args.posonlyargs) + len(node.args.args) > 12 and not triton:
                    long.append(f"{path.relative_to(SOURCE)}:{node.lineno} {node.name}")
    assert long == []


def run(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("code", ["import longtail", "import longtail.cli", "import longtail.data"])
def test_importing_loads_nothing_heavy(code: str) -> None:
    heavy = "{'torch', 'numba', 'pandas', 'polars', 'pyarrow', 'transformers', 'sklearn', 'optuna'}"
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
