"""Claim: a step on a GPU takes little longer than the GPU works for it.

    python benchmarks/gpu/waits.py --data FOLDER [--rows N] RECIPE [RECIPE ...]

Nothing else may run on the GPU. Trains each recipe over texts for six epochs or more. Prints the milliseconds of a step
in the fastest of the first three epochs, and from a profile of the fifth: how long the device worked for a step, in how
many kernels, and how often the host launched one kernel or a graph of them. The profiler makes that epoch slow.
"""

from __future__ import annotations

import re
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from shared.command import parser_for
from shared.splits import splits
from shared.tables import table
from shared.timing import synchronize

LAUNCHES = ("cudaLaunchKernel", "cuLaunchKernelEx", "cudaLaunchKernelExC", "cudaGraphLaunch")
PROFILED = 5  # epoch


class Epochs:
    """A listener for a training: seconds of a step in each epoch, and a profile of one epoch.

    An epoch lasts from the end of the one before, so that what is renewed between epochs counts.
    """

    def __init__(self) -> None:
        self.times: list[float] = []
        self.found: dict[str, float] = {}
        self.epoch = self.steps = 0
        self.begin = 0.0
        self.profile: Any = None
        self.open: list[bool] = []

    def start(self, name: str, total: int | None) -> int:
        epoch = re.match(r"training .*: epoch (\d+) of", name)
        if epoch:
            self.epoch, self.steps = int(epoch[1]), 0
            if self.epoch == 1:
                self.begin = time.perf_counter()
        self.open.append(epoch is not None)
        return len(self.open) - 1

    def advance(self, handle: int, amount: int) -> None:
        self.steps += self.open[handle]

    def finish(self, handle: int) -> None:
        if not self.open.pop():
            return
        synchronize()
        if self.profile is not None:
            self.profile.stop()
            self._read(self.profile)
            self.profile = None
        else:
            self.times.append((time.perf_counter() - self.begin) / self.steps)
        if self.epoch + 1 == PROFILED:
            self._profile()
        self.begin = time.perf_counter()

    def note(self, line: str) -> None: ...

    def _profile(self) -> None:
        import torch
        from torch.profiler import ProfilerActivity, profile

        kinds = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if torch.cuda.is_available() else [])]
        self.profile = profile(activities=kinds, acc_events=True)
        self.profile.start()

    def _read(self, profile: Any) -> None:
        """Of a step: the milliseconds that the device worked, its kernels, and launches."""
        import torch

        events = profile.key_averages()
        device = [event for event in events if event.device_type == torch.autograd.DeviceType.CUDA]
        self.found["work"] = sum(event.self_device_time_total for event in device) / 1000 / self.steps
        self.found["kernels"] = sum(event.count for event in device) / self.steps
        self.found["launches"] = sum(event.count for event in events if event.key in LAUNCHES) / self.steps


def measure(recipe: str, data: str, rows: int | None) -> dict[str, float]:
    """Of a step: milliseconds, those that the device worked, its kernels, and launches."""
    import longtail
    from longtail.progress import listening

    train, valid, _ = splits(data, rows)
    epochs = Epochs()
    with listening(epochs):
        longtail.Recipe.parse(recipe).fit(train, valid.take([]))
    if not epochs.found:
        raise SystemExit(f"{recipe} trains for fewer than {PROFILED} epochs; ask for six or more")
    return {"step": 1000 * min(epochs.times[:3]), **epochs.found}


def main() -> None:
    parser = parser_for(__doc__)
    parser.add_argument("--data", required=True, help="folder of a data set")
    parser.add_argument("--rows", type=int, help="only the first rows of each split, to try the script")
    parser.add_argument("recipes", nargs="+", help="recipes over texts")
    options = parser.parse_args()
    from longtail.nn.encoders.token_cache import sharing_tokens

    lines = []
    with sharing_tokens():
        for recipe in options.recipes:
            found = measure(recipe, options.data, options.rows)
            cells = [f"{found[name]:.2f}" for name in ("step", "work")]
            cells += [f"{found[name]:.0f}" for name in ("kernels", "launches")]
            lines.append([f"`{recipe}`", *cells])
    print(table(["recipe", "ms a step", "of them the device works", "kernels", "launches"], lines))


if __name__ == "__main__":
    main()
