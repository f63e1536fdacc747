"""`train` writes a card with figures on valid; `evaluate --card` adds what it measured."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from cli_calls import call

from longtail.store import load


def test_train_measures_on_valid_and_evaluate_adds_test(model: Path, data: Path, tmp_path: Path) -> None:
    mine = tmp_path / "model"
    shutil.copytree(model, mine)
    text = (mine / "README.md").read_text()
    assert "of the valid split" in text and "| data set | tiny |" in text
    valid = call("evaluate", mine, data, "--split", "valid", "--json").json
    assert f"| P | {valid['P@1']:.1f} |" in text
    assert (mine / "README.md").read_text() == text  # unasked, nothing is written
    test = call("evaluate", mine, data, "--card", "--json").json
    after = (mine / "README.md").read_text()
    assert "of the test split" in after and f"| P | {test['P@1']:.1f} |" in after
    assert set(json.loads((mine / "card.json").read_text())["measured"]) == {"valid", "test"}
    assert "to train" in after  # what training knew is kept
    load(mine)


def test_a_file_of_predictions_has_no_card(data: Path, tmp_path: Path) -> None:
    file = tmp_path / "predictions.jsonl"
    file.write_text("")
    assert "writes into a model folder" in call("evaluate", file, data, "--card").error
