"""Claim: a step on a GPU takes little longer than the GPU works for it.

    PYTHONPATH=src python benchmarks/gpu/waits.py --data FOLDER [--rows N] RECIPE [RECIPE ...]

Nothing else is to run on the GPU. Trains each recipe over texts for six epochs or more and prints the milliseconds of a
step in its fastest epoch of the first three, and of the fifth, which is watched: for how long the device worked, in how
many kernels, and how often the host launched one, or many together. The watching itself makes that epoch slow.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

from splits import splits

LAUNCHES = ("cudaLaunchKernel", "cuLaunchKernelEx", "cudaLaunchKernelExC", "cudaGraphLaunch")
WATCHED = 4  # epoch


def watched(recipe: str, data: str, rows: int | None) -> dict[str, float]:
    """Of a step: milliseconds, those the device worked, its kernels, and launches."""
    import torch
    from torch.profiler import ProfilerActivity, profile

    import longtail
    from longtail.nn import loop

    train, valid, _ = splits(data, rows)
    whole, times, found = loop._Run.one_epoch, [], {}
    fast = torch.cuda.is_available()

    def one_epoch(run: Any) -> None:
        begun = time.perf_counter()
        if run.epoch != WATCHED:
            whole(run)  # which waits for the device at its end
            times.append((time.perf_counter() - begun) / run.steps)
            return
        kinds = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if fast else [])]
        with profile(activities=kinds, acc_events=True) as seen:
            whole(run)
        events = seen.key_averages()
        there = [event for event in events if event.device_type == torch.autograd.DeviceType.CUDA]
        found["work"] = sum(event.self_device_time_total for event in there) / 1000 / run.steps
        found["kernels"] = sum(event.count for event in there) / run.steps
        found["launches"] = sum(event.count for event in events if event.key in LAUNCHES) / run.steps

    loop._Run.one_epoch = one_epoch  # type: ignore[method-assign]
    try:
        longtail.Recipe.parse(recipe).fit(train, valid.take([]))
    finally:
        loop._Run.one_epoch = whole  # type: ignore[method-assign]
    return {"step": 1000 * min(times[:3]), **found}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True)
    parser.add_argument("--rows", type=int, help="take only so many rows of each split: a rehearsal")
    parser.add_argument("recipes", nargs="+")
    options = parser.parse_args()
    from longtail.nn.read_once import reading_once

    lines = []
    with reading_once():
        for recipe in options.recipes:
            found = watched(recipe, options.data, options.rows)
            cells = [f"{found[name]:.2f}" for name in ("step", "work")]
            cells += [f"{found[name]:.0f}" for name in ("kernels", "launches")]
            lines.append(f"| `{recipe}` | {' | '.join(cells)} |")
    print("| recipe | ms a step | of them the device works | kernels | launches |\n| --- | --: | --: | --: | --: |")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
