"""A combination on the command line: trained, explained, and combined with the answers of a file."""

from __future__ import annotations

from pathlib import Path

import pytest
from cli_calls import call

from longtail.data import Corpus
from longtail.recipe import Recipe

FUSE = 'fuse("knn(neighbours=5)", "bm25 + rerank", trees=20, min_leaf=5, learning_rate=0.3)'
DPR = "dpr(encoder='bag', dimension=32, batch_size=64, epochs=2)"


@pytest.fixture(scope="module")
def fused(tiny: Corpus, tmp_path_factory: pytest.TempPathFactory) -> Path:
    model = Recipe.parse(FUSE).fit(tiny.train, tiny.valid)
    return model.save(tmp_path_factory.mktemp("fused") / "model")


def test_why_names_the_members_and_the_record(fused: Path) -> None:
    done = call("predict", fused, "-k", "2", "--why", stdin="an apple\nzzz\n")
    assert (done.code, done.err) == (0, "")
    first, nothing = done.lines
    assert list(first["labels"][0]) == ["id", "text", "score", "why"]
    why = first["labels"][0]["why"]
    assert list(why) == ["members", "training_examples", "proposed", "right"]
    assert [one["member"] for one in why["members"]] == ["knn(neighbours=5)", "bm25 + rerank"]
    assert why["members"][0]["place"] == 1 and why["members"][0]["score"] > 0
    assert why["training_examples"] > 100 and 0 < why["right"] <= why["proposed"] <= 60
    assert nothing["labels"] == [] and "knows no word" in nothing["why"]


def test_why_of_a_plain_model_is_the_frequency(model: Path) -> None:
    [line] = call("predict", model, "-k", "1", "--why", stdin="an apple\n").lines
    assert list(line["labels"][0]["why"]) == ["training_examples"]


def test_why_of_a_memory_shows_the_nearest_examples(tiny: Corpus, tmp_path: Path) -> None:
    model = Recipe.parse(f'memory("{DPR}")').fit(tiny.train, tiny.valid)
    [line] = call("predict", model.save(tmp_path / "memory"), "-k", "1", "--why", stdin="an apple\n").lines
    nearest = line["labels"][0]["why"]["nearest"]
    assert 1 <= len(nearest) <= 3 and "apple" in nearest[0]["text"] and nearest[0]["id"] in tiny.train.ids


def test_why_of_an_attention_names_words_of_the_text(tiny: Corpus, tmp_path: Path) -> None:
    recipe = "attentionxml(encoder='bag', dimension=16, batch_size=64, epochs=2, hidden=8)"
    model = Recipe.parse(recipe).fit(tiny.train, tiny.valid).save(tmp_path / "attention")
    [line] = call("predict", model, "-k", "1", "--why", stdin="an apple pie\n").lines
    words = line["labels"][0]["why"]["words"]
    assert {one["word"] for one in words} <= {"an", "apple", "pie"}
    assert all(0 <= one["weight"] <= 1 for one in words) and words


def test_the_answers_of_predict_are_a_member(tiny: Corpus, data: Path, tmp_path: Path) -> None:
    """What `predict` writes for the splits of a data set is what `predictions` reads."""
    model = Recipe.parse("centroid").fit(tiny.train, tiny.valid).save(tmp_path / "model")
    for split in ("valid", "test"):
        assert (
            call("predict", model, data / f"{split}.jsonl.gz", "-k", "10", "--out", f"{split}-answers.jsonl").code == 0
        )
    answers = "predictions(valid='valid-answers.jsonl', test='test-answers.jsonl')"
    fuse = f'fuse("{answers}", "knn", trees=20, min_leaf=5)'
    done = call("compare", data, answers, f"{answers} + rerank", fuse, "--json")
    assert done.code == 0, done.err
    wrong = call("compare", data, "predictions(test='nowhere.jsonl')")
    assert wrong.code == 2 and "nowhere.jsonl" in wrong.err and "Traceback" not in wrong.err


def test_a_plan_names_the_choice_of_rows(data: Path) -> None:
    done = call("plan", data, 'fuse("knn", "bm25", folds=4)', "--json")
    assert done.code == 0 and "4 folds of train" in done.out
