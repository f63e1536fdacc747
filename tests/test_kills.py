"""The short form of `benchmarks/crash_save.py`: SIGKILL at random moments of save."""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import time
from pathlib import Path

from longtail.data import Corpus
from longtail.recipe import Recipe
from longtail.store import save

KILLS = 40


def test_a_save_that_is_killed_breaks_nothing_and_the_next_one_leaves_nothing(tiny: Corpus, tmp_path: Path) -> None:
    models = [Recipe.parse(name).fit(tiny.train, tiny.valid) for name in ("bm25", "centroid")]
    path = tmp_path / "models" / "model"

    def contents() -> dict[str, bytes]:
        return {file.name: file.read_bytes() for file in path.iterdir()}

    parent = os.getpid()

    def save_again_and_again() -> None:
        while os.getppid() == parent:
            for model in models:
                save(model, path, overwrite=True)

    begin, wanted = time.monotonic(), []
    for model in models:
        save(model, path, overwrite=True)
        wanted.append(contents())
    seconds, rng, within = time.monotonic() - begin, random.Random(1), 0
    for kill in range(KILLS):
        child = multiprocessing.get_context("fork").Process(target=save_again_and_again, daemon=True)
        child.start()
        until = time.monotonic() + 10
        while kill % 2 and len(list(path.parent.iterdir())) < 2 and time.monotonic() < until:
            pass  # every second kill waits for a save that is under way, however busy the machine is
        time.sleep(rng.uniform(0, 0.2 * seconds if kill % 2 else seconds))
        assert child.pid is not None
        os.kill(child.pid, signal.SIGKILL)
        child.join()
        within += len(list(path.parent.iterdir())) > 1
        assert contents() in wanted
        save(models[0], path, overwrite=True)
        assert [place.name for place in path.parent.iterdir()] == ["model"]
    assert within > 0  # some kills came in the middle of a save
