"""The code in the documents: which lines there are, and what stands in for what a test does not have."""

from __future__ import annotations

import importlib.util
import re
import shlex
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).parent.parent.parent
PAGES = {
    str(page.relative_to(ROOT)): page
    for page in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *(ROOT / "docs").rglob("*.md"))
}
# Small data, small networks and one epoch instead of what the guides name.
INSTEAD = (
    (r"\bwordnet(?=\s+\")|(?<=model )wordnet\b", "my-data"),
    (r"/usr/share/wordnet", "some-wordnet"),
    (r"\bDATA\b", "my-data"),
    (r"my-data(?= \"parabel\" \"parabel\(feature_weight)", "my-vectors"),
    (r"epochs=\d+", "epochs=1"),
    (r"\bngame\(", r'ngame(encoder=\\"tiny\\", batch_size=64, '),
    (r"\"renee\"", "\"renee(encoder='tiny', epochs=1, batch_size=64)\""),
    (r"renee\(warm", "renee(batch_size=64, warm"),
)


@dataclass(frozen=True)
class Line:
    """One line of an indented block, continued ones joined."""

    page: str
    text: str

    @cached_property
    def program(self) -> str:
        """The first word that is not a variable's value, nor feeds the next."""
        words = re.sub(r"^echo .*?\| |^([A-Z_]+=\S+ )+", "", self.text).split()
        return words[0]

    @cached_property
    def stdin(self) -> str:
        """What is put in."""
        found = re.match(r'echo "(.*)" \| ', self.text)
        return found.group(1) if found else ""

    @cached_property
    def words(self) -> list[str]:
        """The line as a test runs it, after its program."""
        line = re.sub(r"^echo .*?\| ", "", self.text)
        line = re.sub(r"\s+#.*$", "", line)
        for what, instead in INSTEAD:
            line = re.sub(what, instead, line)
        return shlex.split(line)[1:]


def lines(page: str) -> list[Line]:
    """The lines of all indented blocks."""
    text = re.sub(r"^```.*?^```", "", PAGES[page].read_text(), flags=re.DOTALL | re.MULTILINE)
    blocks = re.findall(r"(?:\A|(?<=\n\n))((?: {4}.*\n?)+)", text)
    found: list[str] = []
    for line in (line.strip() for block in blocks for line in block.splitlines() if line.strip()):
        if found and (found[-1].endswith("\\") or found[-1].count('"') % 2):  # it goes on, or its quotes are open
            found[-1] = f"{found[-1].removesuffix(chr(92)).rstrip()} {line}"
        else:
            found.append(line)
    return [Line(page, line) for line in found]


def borrowed(path: str) -> ModuleType:
    """Another test's files, for what they make."""
    place = ROOT / "tests" / path
    spec = importlib.util.spec_from_file_location(f"borrowed_{place.stem}", place)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
