"""A listener to the library's progress, for tests of what is said on the way."""

from __future__ import annotations


class Lines:
    """Hears everything and keeps the lines that stay."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def start(self, name: str, total: int | None) -> int:
        return 0

    def advance(self, handle: int, amount: int) -> None: ...

    def finish(self, handle: int) -> None: ...

    def note(self, line: str) -> None:
        self.lines.append(line)
