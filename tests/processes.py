"""Child processes that a test can interrupt."""

from __future__ import annotations

import signal
import subprocess
from typing import Any


def popen(command: list[str], **options: Any) -> subprocess.Popen[Any]:
    """`subprocess.Popen` for a child that SIGINT interrupts, also where this process ignores SIGINT.

    A shell script starts its background jobs with SIGINT ignored, and every child of such a job would inherit that:
    the test's signal would do nothing. A handler of this process is reset to the default in the child.
    """
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        return subprocess.Popen(command, **options)
    finally:
        signal.signal(signal.SIGINT, before)
