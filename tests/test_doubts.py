"""Texts that are like nothing seen in training are flagged: against plain counting, and through save and command."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import longtail
from longtail.cli import app
from longtail.doubts import Doubts
from stored import check

WORDS = [a + b + c for a in ("red", "old", "wide", "lost") for b in ("sea", "king", "hill") for c in ("", "s", "er")]


def made(number: int, seed: int, noise: float = 0.0) -> list[str]:
    """Texts of known words, and of nonsense with this probability a word."""
    rng = random.Random(seed)
    return [
        " ".join(f"q{rng.random():.9f}x" if rng.random() < noise else rng.choice(WORDS) for _ in range(8))
        for _ in range(number)
    ]


@pytest.mark.parametrize("noise", [0.0, 0.3, 1.0])
def test_shares_are_those_of_plain_counting(noise: float) -> None:
    seen, asked = made(50, 1), made(40, 2, noise)
    known = {word for text in seen for word in re.findall(r"\w+", text.lower())}
    counted = [[word in known for word in re.findall(r"\w\w+", text)] for text in asked]
    assert Doubts.of(seen).shares(asked) == pytest.approx([np.mean(one) for one in counted])


def test_limits_flag_at_most_the_promised_share_of_documents_like_those_held_out() -> None:
    doubts = Doubts.of(made(500, 1), made(1000, 2, 0.1), np.linspace(0.1, 1, 1000, dtype=np.float32))
    flagged = np.array([why is not None for why in doubts.reasons(made(1000, 3, 0.1))])
    assert flagged.mean() < 0.02
    assert all(doubts.reasons(made(100, 4, 0.95)))
    far, near = doubts.reasons([WORDS[0]] * 2, np.array([0.05, 0.5], np.float32))
    assert far is not None and "near" in far and near is None


def test_held_out_documents_without_a_word_set_no_limit() -> None:
    best = np.linspace(0.1, 1, 300, dtype=np.float32)
    with_words = Doubts.of(made(500, 1), made(300, 2, 0.1), best)
    blanks = Doubts.of(made(500, 1), ["", "...", *made(300, 2, 0.1)], np.concatenate([[-np.inf, np.nan], best]))
    assert check(Doubts, blanks.state()).state().settings == with_words.state().settings


@pytest.mark.parametrize("text", ["", " \n", "...", "zzzz qqqq", "Война и мир", "三国演义", "חלום"])
def test_nothing_known_is_flagged_without_held_out_documents(text: str) -> None:
    first, second = Doubts.of(["the old king"]).reasons([text, "old"])
    assert first in ("the text has no word", "none of its words was seen in training") and second is None


@pytest.mark.parametrize("text", ["книга о войне", "a zzzz qqqq", "ни о чём, а и о"])
def test_a_known_letter_makes_no_text_known(text: str) -> None:
    doubts = Doubts.of(["о the old king, a 三", "и 三国"])
    assert doubts.reasons([text]) == ["none of its words was seen in training"]
    assert doubts.reasons(["a", "о", "三", "三国", "b"]) == [None] * 4 + ["none of its words was seen in training"]


@pytest.mark.parametrize("first", ["一", "ぁ", "ก"])
def test_scripts_without_spaces_are_known_by_their_pairs(first: str) -> None:
    def texts(number: int, seed: int, letters: int) -> list[str]:
        rng = random.Random(seed)
        return ["".join(chr(ord(first) + rng.randrange(letters)) for _ in range(30)) + "。" for _ in range(number)]

    doubts = Doubts.of(texts(800, 1, 40), texts(400, 2, 40))
    assert np.mean([why is not None for why in doubts.reasons(texts(400, 3, 40))]) < 0.02
    far = ["".join(chr(ord(letter) + 0x2000) for letter in text) for text in texts(400, 4, 40)]
    assert all(doubts.reasons(far))


def test_words_of_new_texts_are_known_and_state_comes_back() -> None:
    doubts = Doubts.of(["the old king"], made(200, 1), np.ones(200, np.float32)).with_texts(["queen"])
    again = check(Doubts, doubts.state())
    assert again.reasons(["queen", "prince"]) == doubts.reasons(["queen", "prince"])
    assert doubts.shares(["queen", "prince"]).tolist() == [1, 0]


def test_train_stores_doubts_and_predict_shows_them(tmp_path: Path) -> None:
    rows = [{"id": str(n), "text": text, "labels": [text.split()[0]]} for n, text in enumerate(made(600, 5))]
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "texts.txt").write_text(f"{rows[0]['text']}\nzzzz qqqq\n\nВойна и мир\n")
    run = CliRunner().invoke(app, ["train", str(tmp_path / "data"), "knn", "--out", str(tmp_path / "model")])
    assert run.exit_code == 0, run.output
    run = CliRunner().invoke(
        app, ["predict", str(tmp_path / "model"), str(tmp_path / "texts.txt"), "-o", str(tmp_path / "out.jsonl")]
    )
    assert run.exit_code == 0, run.output
    found = [json.loads(line).get("unsure") for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert found == [
        None,
        "none of its words was seen in training",
        "the text has no word",
        "none of its words was seen in training",
    ]
    model = longtail.load_model(tmp_path / "model")
    assert model.unsure(["zzzz"]) == [found[1]]
    grown = model.with_rows(["zzzz qqqq"], [["new"]])
    assert grown.unsure(["zzzz"]) == [None]
