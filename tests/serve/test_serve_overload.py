"""The short form of benchmarks/serve_overload.py: four times the rate for some seconds, a tenth of the clients slow."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path

import pytest

from longtail.data import Corpus

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.mark.skipif(sys.platform != "linux", reason="the benchmark reads /proc")
def test_overload_costs_little_and_nothing_is_wrong(
    trained: Path, tiny: Corpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    benchmark = import_module("serve_overload")
    texts = list(tiny.test.texts or ())
    shares = []
    for _ in range(3):  # other tests on the machine take processor time away, more in one moment than in another
        found = benchmark.overload(trained / "towers.longtail", texts, seconds=5, times=4, windows=1, quiet=4)
        assert found.wrong == 0 and found.capacity > 0
        assert found.longest < 10  # --timeout
        assert set(found.statuses) <= {200, 408, 429, 503}
        shares.append(found.share)
        if found.share > 0.5:  # the benchmark asks for 0.8; a machine that runs other tests may not reach it
            break
    assert max(shares) > 0.5
