"""`--checkpoint-dir FOLDER`: what is finished, and checkpoints of encoders in training: a stopped command goes on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from longtail.cli.shared import ready_to_write, say, speaks
from longtail.errors import counted

if TYPE_CHECKING:
    from longtail.recipe import Recipe

CheckpointDir = Annotated[
    Path | None,
    typer.Option(
        "--checkpoint-dir",
        metavar="FOLDER",
        help="Write checkpoints of encoders in training there; the same command resumes from them.",
    ),
]
ComparisonDir = Annotated[
    Path | None,
    typer.Option(
        "--checkpoint-dir",
        metavar="FOLDER",
        help="Keep everything that is finished there; the same command resumes from it.",
    ),
]


@contextmanager
def checkpoint_messages(recipes: Sequence[Recipe], checkpoint_dir: Path | None) -> Iterator[None]:
    """Print where each recipe stands: before it resumes, when it is stopped, and which histories it leaves."""
    if checkpoint_dir is None or not speaks():
        yield
        return
    from longtail.comparison import checkpoint_dir_of
    from longtail.nn.training.checkpoint import checkpoint_status
    from longtail.nn.training.history import PICTURE

    _ready(checkpoint_dir)
    folders = {str(recipe): checkpoint_dir_of(recipe, checkpoint_dir) for recipe in recipes}
    for name, folder in folders.items():
        for place, words in checkpoint_status(folder):
            say(f"{name} resumes from {place}: {words}")
    try:
        yield
    except (KeyboardInterrupt, SystemExit):
        for folder in folders.values():
            for place, words in checkpoint_status(folder):
                say(f"checkpoint in {place}: {words}; the same command resumes from there")
        raise
    for name, folder in folders.items():
        pictures = sorted(folder.glob(f"*/{PICTURE}"))
        for picture in pictures:
            say(f"history: {picture}")
        if not pictures:
            say(f"note: {name} kept nothing; only encoders in training do")


@contextmanager
def comparison_messages(checkpoint_dir: Path | None) -> Iterator[None]:
    """Print what a comparison finds in its folder, what it leaves there when it is stopped, and its histories."""
    if checkpoint_dir is None:
        yield
        return
    from longtail.comparison.finished import RESULTS
    from longtail.nn.training.checkpoint import checkpoint_status
    from longtail.nn.training.history import PICTURE

    _ready(checkpoint_dir)

    def finished() -> int:
        return len(list((checkpoint_dir / RESULTS).glob("*.safetensors")))

    def loops() -> Iterator[tuple[Path, str]]:
        for folder in sorted(path for path in checkpoint_dir.glob("*") if path.is_dir()):
            yield from checkpoint_status(folder)

    if finished():
        say(
            f"{checkpoint_dir} has {counted(finished(), 'finished training')}; "
            "those of this comparison are not trained again"
        )
    for place, words in loops():
        say(f"resumes from {place}: {words}")
    try:
        yield
    except (KeyboardInterrupt, SystemExit):
        say(f"{checkpoint_dir} has {counted(finished(), 'finished training')}; the same command goes on from there")
        for place, words in loops():
            say(f"checkpoint in {place}: {words}")
        raise
    for picture in sorted(checkpoint_dir.glob(f"*/*/{PICTURE}")):
        say(f"history: {picture}")


def _ready(checkpoint_dir: Path) -> None:
    from longtail.errors import DataError

    if checkpoint_dir.exists() and not checkpoint_dir.is_dir():
        raise DataError("is a file; give a folder for --checkpoint-dir", checkpoint_dir)
    ready_to_write(checkpoint_dir, folder=True)
