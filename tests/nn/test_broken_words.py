"""What a vocabulary makes of words, against counting by hand; and what `check` says of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

pytest.importorskip("tokenizers", reason="tokenizers is not installed")

from tokenizers import Tokenizer, models, pre_tokenizers, processors

from longtail.cli import app
from longtail.nn.encoders.broken_words import broken_words

PIECES = ("[UNK]", "[CLS]", "apple", "tree", "##tree", "ap", "##fel", "##ba", "##um", "b", "##a", "##u", "##m")


@pytest.fixture
def encoder(tmp_path: Path) -> Path:
    """WordPiece with a special token at the beginning: apple is whole, Apfelbaum is pieces, x is unknown."""
    made = Tokenizer(models.WordPiece({piece: row for row, piece in enumerate(PIECES)}, unk_token="[UNK]"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    made.post_processor = processors.TemplateProcessing(single="[CLS] $A", special_tokens=[("[CLS]", 1)])
    folder = tmp_path / "encoder"
    folder.mkdir()
    (folder / "tokenizer.json").write_text(made.to_str())
    return folder


def test_pieces_and_unknown_words_are_counted(encoder: Path) -> None:
    found = broken_words(encoder, ["apple apple tree", "appletree baum xyxy"])
    assert found is not None  # 1 + 1 + 1, then 2, b ##a ##um: 3, and 1 that is unknown
    assert found.pieces == pytest.approx(9 / 6) and found.unknown == pytest.approx(1 / 6)
    assert found.examples[0] == "baum" and "17% of the words unknown" in (found.warning("E") or "")
    whole = broken_words(encoder, ["apple tree", "tree"])
    assert whole is not None and whole.pieces == 1 and whole.warning("E") is None
    assert broken_words(encoder, ["", "- 1 !"]) is None


def test_check_warns(encoder: Path, tmp_path: Path) -> None:
    data = tmp_path / "d.jsonl"
    rows = [
        {"id": str(row), "text": f"baum baum {word}", "labels": ["a"]} for row, word in enumerate(["apple", "tree"])
    ]
    data.write_text("\n".join(map(json.dumps, rows)))
    shown = CliRunner().invoke(app, ["check", str(data), "--valid-share", "0", "--encoder", str(encoder)])
    assert "breaks the texts to pieces: 2.3 for a word" in " ".join(shown.output.split())
    for other in ("tiny", "auto"):
        told = CliRunner().invoke(app, ["check", str(data), "--encoder", other])
        assert "to pieces" not in told.output or other == "auto"
