"""Tables of the result pages, read back so that a picture is drawn from the figures beside it."""

from __future__ import annotations

MARKS = str.maketrans("", "", "`*")  # of Markdown


def read_table(text: str, header: str) -> list[dict[str, str]]:
    """The rows of the first table whose header starts with these cells, by column: the first of a name."""
    lines = iter(text.splitlines())
    names = cells(next(line for line in lines if line.startswith(f"| {header} |")))
    next(lines)  # the rule under the header
    rows = []
    for line in lines:
        if not line.startswith("|"):
            break
        rows.append(dict(reversed([*zip(names, cells(line), strict=True)])))
    return rows


def cells(line: str) -> list[str]:
    """The cells of a line."""
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def plain(cell: str) -> str:
    """A cell without Markdown."""
    return cell.translate(MARKS)
