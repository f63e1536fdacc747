"""A process that runs jobs: reads their numbers from standard input, answers each with one line of JSON.

python -m longtail.jobs.worker FOLDER
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

from longtail.errors import LongtailError
from longtail.jobs.folder import JobFolder


def main() -> None:
    """Run jobs until standard input ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the driver, which closes standard input
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what a library prints is not an answer
    folder = JobFolder.read(Path(sys.argv[1]))
    for line in sys.stdin:
        number = int(line)
        try:
            answer: dict[str, object] = {"rows": folder.run(number)}
        except LongtailError as error:
            answer = {"error": str(error)}
        except Exception as error:  # a bug of one job must not take the others with it
            answer = {"error": f"job {number} ({folder.outputs[number].name}) failed: {type(error).__name__}: {error}"}
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main()
