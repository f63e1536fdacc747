"""What the site has besides the pages that stand here: the README as its first page, and the catalogue of methods,
written from the docstrings of the methods themselves."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

from longtail.catalogue import LEARNERS, TAIL_METHODS, learner_class, tail_class
from longtail.method_help import describe_method

ROOT = Path(__file__).parent.parent


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
    found = describe_method(name, method)
    lines = [f"### `{name}` {{ #{identity} }}", "", found.what]
    if found.seams:
        lines += ["", f"*Acts on*: {', '.join(found.seams)}."]
    for paper in found.papers:
        lines += ["", f"*Paper*: {paper}"]
    for heading, text in found.sections.items():
        lines += ["", "```sh", text, "```"] if heading == "Example" else ["", f"*{heading}*: {text}"]
    if found.settings:
        lines += ["", "| setting | default | what it is |", "| --- | --- | --- |"]
        lines += [f"| `{one.name}` | `{one.default}` | {escaped(one.meaning)} |" for one in found.settings]
    return lines


def escaped(text: str) -> str:
    """As a cell of a table takes it."""
    return text.replace("|", "\\|")
