"""What the site has besides the pages that stand here: the README as its first page, and the catalogue of methods,
written from the docstrings of the methods themselves."""

from __future__ import annotations

import dataclasses
import inspect
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

from longtail.catalogue import LEARNERS, TAIL_METHODS, learner_class, tail_class
from longtail.grammar import literal
from longtail.seams import seams_of

ROOT = Path(__file__).parent.parent
PARTS = ("Paper", "Needs", "Costs", "Prefer instead", "Example")


def on_files(files: Files, config: Any) -> Files:
    files.append(File.generated(config, "index.md", content=first_page()))
    files.append(File.generated(config, "methods.md", content=catalogue()))
    return files


def first_page() -> str:
    """The README, with links as they are from here. What lies outside the pages is named, not linked."""
    text = (ROOT / "README.md").read_text()
    text = text.replace("](docs/", "](")
    return re.sub(r"\[([^\]]+)\]\((?:src/[^)]*|CONTRIBUTING\.md|CHANGELOG\.md|LICENSE)\)", r"\1", text)


def catalogue() -> str:
    """Every method: what it does, its paper, needs, costs, alternatives, an example, and its settings."""
    lines = [
        "# Methods",
        "",
        "One learner, then tail methods from left to right. This page is written from the methods' own words.",
    ]
    for title, names, find in (("Learners", LEARNERS, learner_class), ("Tail methods", TAIL_METHODS, tail_class)):
        lines += ["", f"## {title}", "", "| name | what it does |", "| --- | --- |"]
        lines += [f"| [`{name}`](#{anchor(title, name)}) | {find(name).summary} |" for name in names]
        for name in names:
            lines += ["", *described(name, find(name), anchor(title, name))]
    return "\n".join(lines) + "\n"


def anchor(title: str, name: str) -> str:
    return f"{title.split()[0].lower()}-{name}"


def described(name: str, method: type[Any], identity: str) -> list[str]:
    said = parts_of(inspect.getdoc(method) or "")
    lines = [f"### `{name}` {{ #{identity} }}", "", said["what"]]
    seams = seams_of(method)
    if seams:
        lines += ["", f"*Acts on*: {', '.join(seams)}."]
    for part in PARTS:
        if part == "Example" and part in said:
            lines += ["", "```sh", said[part], "```"]
        elif part in said:
            lines += ["", f"*{part}*: {said[part]}"]
    fields = settings_of(method)
    if fields:
        lines += ["", "| setting | default | what it is |", "| --- | --- | --- |", *fields]
    return lines


def parts_of(text: str) -> dict[str, str]:
    """A docstring by its parts: what it does, then `Paper: ...` and so on."""
    found: dict[str, str] = {}
    part = "what"
    for line in text.splitlines():
        begins = re.match(rf"({'|'.join(PARTS)}): (.*)", line)
        if begins:
            part, line = begins.group(1), begins.group(2)
        elif part == "what" and not line.strip():
            line = "\n"
        found[part] = (
            f"{found[part]} {line.strip()}" if found.get(part) and line != "\n" else found.get(part, "") + line
        )
    return {name: re.sub(r"\n+ *", "\n\n", said).strip() for name, said in found.items()}


def settings_of(method: type[Any]) -> list[str]:
    """A table row a setting, with the comment that stands behind it in the source."""
    comments: dict[str, str] = {}
    for kind in reversed(method.__mro__[:-1]):
        try:
            source = inspect.getsource(kind)
        except (OSError, TypeError):
            continue
        comments |= dict(re.findall(r"^    (\w+): [^#\n]+  # (.+)$", source, re.MULTILINE))
    return [
        f"| `{field.name}` | `{shown(field.default)}` | {comments.get(field.name, '').replace('|', chr(92) + '|')} |"
        for field in dataclasses.fields(method)
    ]


def shown(value: Any) -> str:
    return "" if value is dataclasses.MISSING else literal(value)
