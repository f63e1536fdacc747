"""Long texts read in parts: against joining one part at a time, and on books that name their subject at the end."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from longtail.data import Corpus
from longtail.data.dataset import Rows
from longtail.errors import RecipeError
from longtail.recipe import Recipe
from longtail.store import load
from longtail.tail.parts import SLACK, PartsScorer, cut_text, join_answers

NET = "dpr(encoder='bag', dimension=64, batch_size=64, epochs=5, max_tokens=12)"
FILLER = "whatever the weather may bring to the harbour this evening "


@given(st.text(alphabet="ab  \nxé三", max_size=300), st.integers(1, 60), st.integers(1, 8))
def test_parts_are_the_text_as_far_as_they_reach(text: str, size: int, most: int) -> None:
    parts = cut_text(text, size, most)
    assert 1 <= len(parts) <= most and all(part in text for part in parts)
    assert all(len(part) <= size * (1 + SLACK) + 1 for part in parts)
    if -(-len(text) // size) <= most:
        assert "".join(parts).split() == text.split() or not text.strip()
    words = " ".join(f"w{number}" for number in range(100))
    assert {word for part in cut_text(words, 60, 99) for word in part.split()} == set(words.split())


@given(st.integers(0, 300), st.sampled_from(["max", "mean"]), st.integers(1, 6))
def test_answers_are_joined_as_one_part_after_the_other(seed: int, join: str, k: int) -> None:
    rng = np.random.default_rng(seed)
    owners = np.sort(np.concatenate([np.arange(4), rng.integers(0, 4, 5)]))
    labels = np.array([rng.permutation(7)[:4] for _ in owners], dtype=np.int32)
    scores = (rng.integers(1, 9, labels.shape) / 8).astype(np.float32)
    empty = rng.random(labels.shape) < 0.2
    labels[empty], scores[empty] = -1, 0
    found, values = join_answers(labels, scores, owners, k, join)
    for text in range(4):
        given_scores: dict[int, list[float]] = {}
        for part in np.flatnonzero(owners == text):
            for label, score in zip(labels[part].tolist(), scores[part].tolist(), strict=True):
                if label >= 0:
                    given_scores.setdefault(label, []).append(score)
        parts = (owners == text).sum()
        worth = {label: max(all_) if join == "max" else sum(all_) / parts for label, all_ in given_scores.items()}
        expected = sorted(worth.items(), key=lambda one: (-np.float32(one[1]), one[0]))[:k]
        shown = [(a, b) for a, b in zip(found[text].tolist(), values[text].tolist(), strict=True) if a >= 0]
        assert [label for label, _ in shown] == [label for label, _ in expected]
        assert [score for _, score in shown] == pytest.approx([score for _, score in expected])


@pytest.fixture(scope="module")
def late(tiny: Corpus) -> Corpus:
    """Documents of valid and test name their subjects far behind what the encoder reads; every other one of valid does
    so at its beginning."""

    def made(data: Any, before: tuple[int, int]) -> Any:
        texts = (FILLER * before[row % 2] + text + " " + FILLER for row, text in enumerate(data.texts))
        return replace(data, texts=tuple(texts))

    return replace(tiny, train=made(tiny.train, (0, 0)), valid=made(tiny.valid, (0, 4)), test=made(tiny.test, (4, 4)))


def test_what_stands_at_the_end_is_found(late: Corpus, tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="torch is not installed")

    def right(model: Any, data: Any) -> float:
        return float(model.predict(data.rows, 1).hits(data.targets).mean())

    first = Recipe.parse(NET).fit(late.train, late.valid)
    parts = Recipe.parse(f"{NET} + parts").fit(late.train, late.valid)
    assert right(parts, late.test) > max(0.85, right(first, late.test) + 0.15)
    assert isinstance(parts.scorer, PartsScorer)
    short = Rows(texts=("an apple", "the dragon castle"))
    assert np.array_equal(parts.predict(short, 3).scores, first.predict(short, 3).scores)  # as they were
    again = load(parts.save(tmp_path / "model"))
    assert np.array_equal(again.predict(late.test.rows, 5).scores, parts.predict(late.test.rows, 5).scores)


def test_the_better_way_to_join_is_chosen(late: Corpus) -> None:
    scores = {}
    for join in ("max", "mean"):
        model = Recipe.parse(f"centroid + parts(words_per_part=4, join='{join}')").fit(late.train, late.valid)
        scores[join] = model.predict(late.valid.rows, 1).hits(late.valid.targets).mean()
    chosen = Recipe.parse("centroid + parts(words_per_part=4)").fit(late.train, late.valid).scorer
    assert isinstance(chosen, PartsScorer) and scores[chosen.join] == max(scores.values())


def test_a_book_costs_bounded_time_and_memory(tiny: Corpus) -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    model = Recipe.parse(f"{NET} + parts(max_parts=32)").fit(tiny.train, tiny.valid)
    asked: list[int] = []
    inner = model.scorer.whole  # type: ignore[attr-defined]

    class Counted:
        def top(self, rows: Rows, k: int) -> Any:
            asked.append(sum(map(len, rows.texts or ())))
            return inner.top(rows, k)

    counted = replace(model, scorer=replace(model.scorer, whole=Counted()))  # type: ignore[type-var]
    book = FILLER * 35_000  # two million characters
    counted.predict([book], 5)
    begin = time.process_time()
    counted.predict([book], 5)
    assert time.process_time() - begin < 5
    assert asked[0] < 32 * 12 * 6 * 2  # characters that the encoder saw, of two million


def test_wrong_settings_are_errors() -> None:
    with pytest.raises(RecipeError, match="max_parts of at least 1"):
        Recipe.parse("bm25 + parts(max_parts=0)")
