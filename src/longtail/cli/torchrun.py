"""Several processes that train one model together, as torchrun starts them."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

Patience = Annotated[
    float,
    typer.Option(
        "--patience",
        metavar="SECONDS",
        min=1.0,
        envvar="LONGTAIL_PATIENCE",
        help="With torchrun: end when another process has given no sign of life for so long.",
    ),
]


@contextmanager
def joined(patience: float) -> Iterator[None]:
    """Joins the other processes that torchrun started, if there are any."""
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        yield
        return
    from longtail.nn.training.process_group import join_process_group

    with join_process_group(patience):
        yield


def written_by_an_earlier_attempt(out: Path) -> bool:
    """Whether this job wrote the model itself, and torchrun restarted it because a process was killed just after.

    The first attempt refuses a model that is there already. So one that is younger than torchrun is the job's own.
    """
    if int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")) == 0 or not out.exists():
        return False
    try:
        ticks = int(Path(f"/proc/{os.getppid()}/stat").read_text().rpartition(")")[2].split()[19])
        age = time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, AttributeError):  # not Linux
        return False
    return out.stat().st_ctime > time.time() - age
