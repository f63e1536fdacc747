"""What an earlier run wrote is read with the same care as data: it may be a pipe, a device, or anything."""

from __future__ import annotations

import ast
from pathlib import Path

import longtail

SOURCE = Path(longtail.__file__).parent
READS = {"read_text", "read_bytes", "fromfile", "load_file", "safe_open", "memmap"}
LOOKS = {"reading_back", "check_regular", "read_regular", "file_size", "is_file", "open_file", "S_ISREG"}  # at the type
SYSTEM = ("/proc", "resources.files", "os.devnull")  # what the system and the package themselves hold
LOOKED_AT = {  # functions that get what another one has looked at
    "comparison/finished.py": {"result_file"},  # an entry, which is told from a recipe by its file
    "data/numpy_files.py": {"_array"},
    "data/store_reader.py": {"_array"},
    "memory.py": {"_cached", "_number", "_room_in_groups"},  # of the control group
    "nn/dual/vector_bank.py": {"of"},  # a file that has no name
    "nn/encoders/pretrained.py": {"_read_weights"},
    "nn/training/checkpoint.py": {"read"},
    "nn/training/heartbeat.py": {"_child_of"},
    "reproduction/paper_tables.py": {"_toml"},  # of the package
    "serve/journal.py": {"_replay"},
}
OF_THIS_RUN = (
    "data/builders/",
    "data/store_writer.py",
    "linear/trees/tree_jobs.py",
    "serve/totals.py",
)  # its own parts


def calls_in(function: ast.AST) -> list[ast.Call]:
    return [node for node in ast.walk(function) if isinstance(node, ast.Call)]


def name_of(call: ast.Call) -> str:
    return getattr(call.func, "attr", getattr(call.func, "id", ""))


def reads(call: ast.Call) -> bool:
    name = name_of(call)
    if name not in READS | {"open", "load"}:
        return False
    whole = ast.unparse(call)
    writes = any(f"'{mode}'" in whole for mode in ("w", "wb", "a", "ab", "x"))
    opens = name == "open" and not writes and not whole.startswith(("os.open", "StoredIds"))
    return (name in READS or opens or whole.startswith("np.load(")) and not any(word in whole for word in SYSTEM)


def test_every_function_that_reads_a_file_looks_at_its_type_first() -> None:
    found = []
    for path in sorted(SOURCE.rglob("*.py")):
        name = path.relative_to(SOURCE).as_posix()
        if name.startswith(OF_THIS_RUN):
            continue
        for function in ast.walk(ast.parse(path.read_text())):
            if not isinstance(function, ast.FunctionDef) or function.name in LOOKED_AT.get(name, ()):
                continue
            calls = calls_in(function)
            if any(map(reads, calls)) and not LOOKS & set(map(name_of, calls)):
                found.append(f"{name}: {function.name}")
    assert not found, f"use longtail.read_back, longtail.data.opening or longtail.model_bytes: {found}"


def test_the_rule_sees_what_it_is_for() -> None:
    """The token of a service was once read without a look, and so was the journal of a search."""
    for line in ("path.read_text()", "file.read_bytes()", "path.open()", "open(path, 'rb')", "np.load(path)"):
        assert any(map(reads, calls_in(ast.parse(line)))), line
    assert not any(map(reads, calls_in(ast.parse("path.open('w'); os.open(path, FLAGS)"))))
