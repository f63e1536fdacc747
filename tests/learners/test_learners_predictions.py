"""Answers of other tools as a learner: both forms of files, matching by id, and what is wrong with a file."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lines import Lines
from longtail.comparison import compare
from longtail.data import Corpus, Rows
from longtail.errors import DataError
from longtail.model import Model
from longtail.progress import listening
from longtail.recipe import Recipe
from longtail.store import load


@pytest.fixture(scope="module")
def tool(tiny: Corpus) -> Model:
    """Another tool."""
    return Recipe.parse("centroid(probabilities=false)").fit(tiny.train, tiny.valid)


@pytest.fixture
def files(tool: Model, tiny: Corpus, tmp_path: Path) -> Callable[..., dict[str, Path]]:
    """Writes its answers for some splits, in one of the two forms."""

    def write(*splits: str, trec: bool = False, moved: float = 0.0) -> dict[str, Path]:
        found = {}
        for split in splits:
            data = getattr(tiny, split)
            lines = []
            for name, labels in zip(data.ids, tool.predict(data.rows, k=10), strict=True):
                if trec:
                    lines += [
                        f"{name} Q0 {one.id} {place} {one.score + moved!r} tool" for place, one in enumerate(labels, 1)
                    ]
                else:
                    scored = [{"id": one.id, "score": one.score + moved} for one in labels]
                    lines.append(json.dumps({"id": name, "labels": scored}))
            found[split] = tmp_path / f"{split}.{'run' if trec else 'jsonl'}"
            found[split].write_text("\n".join(lines) + "\n")
        return found

    return write


def recipe_of(files: dict[str, Path]) -> str:
    return f"predictions({', '.join(f'{split}={str(path)!r}' for split, path in files.items())})"


@pytest.mark.parametrize("trec", [False, True])
def test_answers_are_those_of_the_tool(
    trec: bool, files: Callable[..., dict[str, Path]], tool: Model, tiny: Corpus, tmp_path: Path
) -> None:
    model = Recipe.parse(recipe_of(files("test", trec=trec))).fit(tiny.train, tiny.valid)
    expected, found = (one.predict(tiny.test.rows, k=4) for one in (tool, model))
    assert np.array_equal(expected.indices, found.indices)
    np.testing.assert_allclose(expected.scores, found.scores, rtol=1e-5)
    again = load(model.save(tmp_path / "model"))
    some = np.array([7, 3, 20])
    assert np.array_equal(again.predict(tiny.test.rows.take(some), k=4).indices, expected.indices[some])


def test_scores_below_zero_keep_their_order(files: Callable[..., dict[str, Path]], tool: Model, tiny: Corpus) -> None:
    model = Recipe.parse(recipe_of(files("valid", "test", moved=-5.0))).fit(tiny.train, tiny.valid)
    expected, found = (one.predict(tiny.test.rows, k=4) for one in (tool, model))
    assert np.array_equal(expected.indices, found.indices) and (found.scores[found.indices >= 0] > 0).all()


def test_equal_scores_and_bare_labels_keep_the_order_of_the_file(tiny: Corpus, tmp_path: Path) -> None:
    lines = [{"id": name, "labels": ["L5", "L2", "L9"]} for name in tiny.test.ids[:30]]
    lines += [
        {"id": name, "labels": [{"id": one, "score": 0.5} for one in ("L5", "L2", "L9")]} for name in tiny.test.ids[30:]
    ]
    (tmp_path / "test.jsonl").write_text("\n".join(map(json.dumps, lines)))
    model = Recipe.parse(f"predictions(test='{tmp_path}/test.jsonl')").fit(tiny.train, tiny.valid)
    found = model.predict(tiny.test.rows, k=3)
    assert (found.indices == [5, 2, 9]).all() and (np.diff(found.scores, axis=1) < 0).all()


def test_compared_re_ranked_calibrated_and_combined(files: Callable[..., dict[str, Path]], tiny: Corpus) -> None:
    answers = recipe_of(files("train", "valid", "test"))
    recipes = [answers, f"{answers} + rerank", f"{answers} + calibrate", f'fuse("{answers}", "knn", trees=20)']
    recipes.append(f'fuse("{answers}", "knn", trees=20, folds=2)')
    assert all(result.measures["P@1"] > 90 for result in compare(tiny, recipes))


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda lines: [*lines, lines[0]], r"valid\.jsonl:61: id 'valid-0' stands twice"),
        (lambda lines: [*lines[:4], lines[4].replace('"L', '"M'), *lines[5:]], r"valid\.jsonl:5: unknown label id 'M"),
        (
            lambda lines: [lines[0].replace("valid-0", "volid-0"), *lines[1:]],
            r"valid\.jsonl:1: id 'volid-0' is not",
        ),
        (lambda lines: lines[1:], r"example 'valid-0' has no predictions in .*valid\.jsonl"),
        (lambda lines: [*lines, '{"labels": []}'], r'valid\.jsonl:61: the line has no "id"'),
        (lambda lines: [*lines, "{nonsense"], r"valid\.jsonl:61: broken JSON"),
        (
            lambda lines: [lines[0].replace('"score": ', '"score": "x", "was": '), *lines[1:]],
            r"valid\.jsonl:1: score 'x'",
        ),
    ],
)
def test_a_wrong_file_names_its_line(
    change: Any, problem: str, files: Callable[..., dict[str, Path]], tiny: Corpus
) -> None:
    written = files("valid", "test")
    lines = written["valid"].read_text().splitlines()
    written["valid"].write_text("\n".join(change(lines)))
    with pytest.raises(DataError, match=problem):
        Recipe.parse(f'fuse("{recipe_of(written)}", "knn", trees=5)').fit(tiny.train, tiny.valid)


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("test-0 Q0 L1 1 0.5", "5 fields where a TREC run has six"),
        ("test-0 Q0 L1 1 high tool", "score 'high' is not a number"),
        ("test-0 Q0 M1 1 0.5 tool", "unknown label id 'M1'"),
        ("test-0 Q0 L1 1 0.5 tool\ntest-0 Q0 L1 2 0.4 tool", "label id 'L1' stands twice for row 'test-0'"),
        ("a Q0 L1 1 0." + "4" * 5000 + "x t", r"score '0\.4+\.\.\.4+x' is not a number"),
        ("a Q0 L1 1 0.5 t\nb Q0 L1 1 0.4 t\na Q0 L2 2 0.4 t", "id 'a' stands twice"),
        ("test-0 Q0 L1 1 nan tool", "is not a finite number"),
    ],
)
def test_a_wrong_run_names_its_line(line: str, problem: str, tiny: Corpus, tmp_path: Path) -> None:
    (tmp_path / "test.run").write_text(line)
    with pytest.raises(DataError, match=rf"test\.run:\d: .*{problem}"):
        Recipe.parse(f"predictions(test='{tmp_path}/test.run')").fit(tiny.train, tiny.valid)


def test_examples_that_a_run_does_not_name_have_no_label(
    files: Callable[..., dict[str, Path]], tiny: Corpus, tmp_path: Path
) -> None:
    """A run has a line a label, so none for an example without answers; JSON lines have an empty list."""
    written = files("valid", "test", trec=True)
    for split, path in written.items():
        lines = path.read_text().splitlines()
        path.write_text("\n".join(line for line in lines if not line.startswith((f"{split}-2 ", f"{split}-4 "))))
    model = Recipe.parse(recipe_of(written)).fit(tiny.train, tiny.valid)
    again = load(model.save(tmp_path / "model"))
    heard = Lines()
    with listening(heard):
        found = again.predict(tiny.test.rows, k=3)
    assert np.flatnonzero(found.indices[:, 0] < 0).tolist() == [2, 4]
    assert any("2 of 60 examples asked for have no line" in line and "'test-2'" in line for line in heard.lines)
    both = Recipe.parse(f'fuse("{recipe_of(written)}", "knn", trees=5)').fit(tiny.train, tiny.valid)
    assert (both.predict(tiny.test.rows, k=1).indices >= 0).all()
    assert (model.predict(tiny.test.rows.take(np.array([2, 4]))).indices < 0).all()
    strangers = Rows(texts=("apple",) * 51, ids=tuple(f"stranger-{row}" for row in range(51)))
    with pytest.raises(DataError, match="none of the 51 examples asked for has predictions"):
        model.predict(strangers)


def test_what_cannot_be_answered_is_told(files: Callable[..., dict[str, Path]], tiny: Corpus) -> None:
    with pytest.raises(DataError, match="needs at least one file"):
        Recipe.parse("predictions").fit(tiny.train, tiny.valid)
    with pytest.raises(DataError, match="missing"):
        Recipe.parse("predictions(test='missing.jsonl')").fit(tiny.train, tiny.valid)
    written = files("valid", "test")
    model = Recipe.parse(recipe_of({"test": written["test"]})).fit(tiny.train, tiny.valid)
    with pytest.raises(DataError, match="by their ids alone"):
        model.predict(["apple"])
    with pytest.raises(DataError, match=r"example 'tset-1' has no predictions in .*; did you mean 'test-1'\?"):
        model.predict(Rows(texts=("apple",), ids=("tset-1",)))
    with pytest.raises(
        DataError, match=r"none of the \d+ examples asked for has .*test.*, the first is 'valid-0'; name"
    ):
        Recipe.parse(f'fuse("knn", "{recipe_of({"test": written["test"]})}")').fit(tiny.train, tiny.valid)
    with pytest.raises(DataError, match="none of its lines is an example of train"):
        Recipe.parse(recipe_of({"train": written["test"]})).fit(tiny.train, tiny.valid)
    with pytest.raises(DataError, match="is in two of the files"):
        Recipe.parse(recipe_of({"valid": written["valid"], "test": written["valid"]})).fit(tiny.train, tiny.valid)
    with pytest.raises(DataError, match="2 ids for 1 rows"):
        Rows(texts=("apple",), ids=("a", "b"))
