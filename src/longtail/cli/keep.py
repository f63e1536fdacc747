"""`--keep FOLDER`: checkpoints of encoders in training, so that a command that was stopped goes on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from longtail.cli.shared import ready_to_write, say, speaks

if TYPE_CHECKING:
    from longtail.recipe import Recipe

Keep = Annotated[
    Path | None,
    typer.Option(
        "--keep",
        metavar="FOLDER",
        help="Keep checkpoints and histories of encoders in training there; the same command goes on from them.",
    ),
]


@contextmanager
def kept(recipes: Sequence[Recipe], keep: Path | None) -> Iterator[None]:
    """Say where each recipe stands: before it goes on, when it is stopped, and what is left at the end."""
    if keep is None or not speaks():
        yield
        return
    from longtail.comparison import kept_at
    from longtail.errors import DataError
    from longtail.nn.checkpoint import standing
    from longtail.nn.history import PICTURE

    if keep.exists() and not keep.is_dir():
        raise DataError("is a file; give a folder for --keep", keep)
    ready_to_write(keep, folder=True)
    folders = {str(recipe): kept_at(recipe, keep) for recipe in recipes}
    for name, folder in folders.items():
        for place, words in standing(folder):
            say(f"{name} goes on from {place}: {words}")
    try:
        yield
    except (KeyboardInterrupt, SystemExit):
        for folder in folders.values():
            for place, words in standing(folder):
                say(f"kept in {place}: {words}; the same command goes on from there")
        raise
    for name, folder in folders.items():
        pictures = sorted(folder.glob(f"*/{PICTURE}"))
        for picture in pictures:
            say(f"history: {picture}")
        if not pictures:
            say(f"note: {name} kept nothing; only encoders in training do")
