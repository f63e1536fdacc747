"""Values of dataclasses that come back from JSON."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

import pytest

from longtail.dial import DialPoint
from longtail.metrics.calibration import Teaching
from longtail.metrics.curves import ScoreBin
from longtail.read_back import typed
from longtail.report.result import SharedStage


def test_what_was_written_comes_back() -> None:
    point, stage = DialPoint(0.3, {"P@1": 50.0}), SharedStage("parabel", 1.5)
    for one in (point, stage):
        assert typed(type(one), json.loads(json.dumps(asdict(one)))) == one
    assert typed(tuple[SharedStage, ...], [asdict(stage)] * 2) == (stage, stage)
    teaching = Teaching("dpr", chosen={"tau": 15, "excluded_is_self": False})
    assert typed(Teaching | None, json.loads(json.dumps(asdict(teaching)))) == teaching
    assert typed(SharedStage | None, None) is None
    assert typed(SharedStage | None, {"recipe": "knn", "seconds": 2}) == SharedStage("knn", 2)


@pytest.mark.parametrize(
    ("kind", "stored"),
    [
        (SharedStage, {"recipe": "parabel", "seconds": []}),
        (SharedStage, {"recipe": 3, "seconds": 1.0}),
        (SharedStage, {"recipe": "parabel", "seconds": 1.0, "more": 1}),
        (SharedStage, {"recipe": "parabel"}),
        (SharedStage, "parabel"),
        (tuple[SharedStage, ...], {"recipe": "parabel", "seconds": 1.0}),
        (tuple[str, ...], ["a", 1]),
        (dict[str, float], {"P@1": "50"}),
        (dict[str, float], [1.0]),
        (DialPoint, {"dial": None, "values": {}}),
        (Teaching | None, 0),
        (ScoreBin, {"low": 0.0, "high": 1.0, "count": 1.5, "mean_score": 0.5, "hit_rate": 0.5}),
    ],
)
def test_other_types_are_refused(kind: Any, stored: Any) -> None:
    with pytest.raises(TypeError):
        typed(kind, stored)
