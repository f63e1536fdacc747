"""`longtail export`: the forms, and what it refuses."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from cli_calls import call


def test_arrays_of_an_encoder(data: Path, tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    recipe = 'dpr(encoder="bag", dimension=16, batch_size=64, epochs=1) + rerank'
    assert call("train", data, recipe, "--out", "m").code == 0
    done = call("export", "m", "--to", "numpy", "--out", "vectors")
    assert done.code == 0, done
    assert done.out.startswith("wrote vectors (")
    assert "rerank.v1 is not exported" in done.err
    assert np.load("vectors/vectors.npy").shape == (10, 16)
    assert "exists" in call("export", "m", "--to", "numpy", "--out", "vectors").error
    assert call("export", "m", "--to", "numpy", "--out", "vectors", "--overwrite").code == 0


def test_wrong_forms_and_models_are_errors(model: Path, tmp_path: Path) -> None:
    assert "did you mean 'numpy'" in call("export", model, "--to", "nunpy", "--out", "x").error
    pytest.importorskip("torch", reason="torch is not installed")
    assert "such as dpr" in call("export", model, "--to", "numpy", "--out", "x").error
    assert not Path("x").exists()
