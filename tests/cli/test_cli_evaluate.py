"""`longtail evaluate`: the same figures from a comparison, from a model and from the predictions it wrote."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from cli_calls import Done, call

RECIPES = ["centroid", "centroid + rerank", "knn(neighbours=3)", "bm25"]
# Of the model, not its answers.
COSTS = {
    "train_seconds",
    "predict_seconds",
    "peak_bytes",
    "model_bytes",
    "row_norms",
    "teaching",
    "uncalibrated",
    "dial",
}


def hard(path: Path) -> Path:
    """Rows with few words, many labels alike, and pairs that are excluded: rankings full of ties and near ties."""
    path.mkdir()
    words = [f"w{number}" for number in range(12)]

    def rows(name: str, number: int) -> list[dict[str, Any]]:
        found = []
        for row in range(number):
            first, second = words[row * 7 % 12], words[row * 5 % 11]
            found.append({"id": f"{name}{row}", "text": f"{first} {second}", "labels": sorted({first, f"x{row % 9}"})})
        return found

    labels = [
        {"id": name, "text": f"{name} w{place % 5}"} for place, name in enumerate(words + [f"x{n}" for n in range(9)])
    ]
    test = rows("test", 50)
    exclude = [{"id": row["id"], "labels": [row["labels"][0], "w3"]} for row in test[::4]]
    parts = {
        "train": rows("train", 150),
        "valid": rows("valid", 30),
        "test": test,
        "labels": labels,
        "exclude": exclude,
    }
    for name, entries in parts.items():
        (path / f"{name}.jsonl").write_text("".join(json.dumps(entry) + "\n" for entry in entries))
    return path


def figures(done: Done) -> dict[str, Any]:
    assert done.code == 0, done
    value = done.json
    return {key: value[key] for key in value if key not in COSTS | {"recipe", "rows"}}


@pytest.mark.parametrize("recipe", RECIPES)
def test_comparison_model_and_predictions_agree(recipe: str, tmp_path: Path) -> None:
    data = hard(tmp_path / "hard")
    (compared,) = call("compare", data, recipe, "--json").json["results"]
    assert call("train", data, recipe, "--out", "m").code == 0
    evaluated = call("evaluate", "m", data, "--json")
    assert evaluated.json["recipe"] == compared["recipe"] == recipe
    assert figures(evaluated) == {key: compared[key] for key in compared if "@" in key or key in figures(evaluated)}
    assert evaluated.json["P@1"] not in (0, 100)  # nothing is shown by a score that everybody reaches

    excluded = {entry["id"]: entry["labels"] for entry in map(json.loads, (data / "exclude.jsonl").open())}
    rows = [json.loads(line) for line in (data / "test.jsonl").open()]
    asked = [{**row, "exclude": excluded.get(row["id"], [])} for row in rows]
    texts = "".join(json.dumps(row) + "\n" for row in asked)
    assert call("predict", "m", "--out", "p.jsonl", stdin=texts).code == 0
    assert figures(call("evaluate", "p.jsonl", data, "--json")) == figures(evaluated)
    # more labels than are measured, without a word about what is excluded: the data knows
    assert call("predict", "m", data / "test.jsonl", "-k", "20", "--out", "p20.jsonl").code == 0
    assert figures(call("evaluate", "p20.jsonl", data, "--json")) == figures(evaluated)


@pytest.mark.parametrize("split", ["train", "valid", "test"])
def test_splits(split: str, data: Path, model: Path, tiny: Any) -> None:
    done = call("evaluate", model, data, "--split", split, "--at", "3, 1", "--json")
    assert done.json["rows"] == len(getattr(tiny, split))
    assert {key for key in done.json if key.startswith("P@")} == {"P@1", "P@3"}


def test_the_tables_for_people(data: Path, model: Path) -> None:
    done = call("evaluate", model, data)
    assert (done.code, done.err) == (0, "")
    for word in ("PSnDCG", "macroF1", "percent, on 60 examples; propensity with A=0.55, B=1.5", "points of P@5"):
        assert word in " ".join(done.out.split())
    assert "A=0.6, B=2.6" in " ".join(call("evaluate", model, data, "--propensity", "0.6,2.6").out.split())


@pytest.mark.parametrize("columns", ["66", "80", "200"])
def test_no_figure_is_cut_short(columns: str, data: Path, model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    shown = call("evaluate", model, data, "--at", "1,2,3,4,5,6,7,8,9,10,20,1000000000")
    tables = shown.out.partition("┃ bin")[0]
    assert "…" not in tables
    assert max(map(len, tables.splitlines())) <= int(columns)
    assert re.findall(r"@(\d+)", tables) == ["1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "20", "1000000000"]
    assert tables.count("│ nDCG ") == tables.count("┃ measure ")


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (["--at", "0"], "--at takes whole numbers above 0 such as 1,3,5, got '0'"),
        (["--at", "1,x"], "--at takes whole numbers above 0"),
        (["--at", ""], "--at takes whole numbers above 0"),
        (["--at=-1"], "--at takes whole numbers above 0"),
        (["--at", "²"], "--at takes whole numbers above 0"),
        (["--at", "99999999999999999999"], "--at takes whole numbers above 0"),
        (["--split", "foo"], "--split must be train, valid or test, got 'foo'"),
        (["--propensity", "x"], "--propensity takes two numbers"),
    ],
)
def test_wrong_options(options: list[str], problem: str, data: Path, model: Path) -> None:
    assert problem in call("evaluate", model, data, *options).error


def test_a_huge_k_is_measured_and_noted(data: Path, model: Path) -> None:
    done = call("evaluate", model, data, "--at", "1000000000", "--json")
    assert done.json["nDCG@1000000000"] == 100
    assert done.err == "note: the predictions have 10 places, fewer than k = 1000000000: the missing are misses\n"


def test_a_model_of_other_labels(data: Path) -> None:
    Path("other.csv").write_text("text,labels\n" + "apple,fruit\nbridge,road\n" * 9)
    assert call("train", "other.csv", "centroid", "--out", "m").code == 0
    message = call("evaluate", "m", data).error
    assert message.startswith("none of the 10 labels of the data is among the 2 labels of the model; evaluate")


def test_labels_in_another_order_and_some_that_the_model_does_not_know(tmp_path: Path) -> None:
    """A label keeps its meaning wherever it stands; what the model never saw it misses."""
    rows = [("apple tree", "fruit"), ("iron bridge", "road"), ("red apple", "fruit"), ("stone bridge", "road")] * 9
    test = [("apple", "fruit"), ("bridge", "road"), ("iron bridge", "road"), ("sea", "water")]
    for name, order in (("one", rows), ("two", rows[1:])):
        Path(name).mkdir()
        for split, some in (("train", order), ("test", test if name == "two" else test[:3])):
            lines = "".join(f"{split}{number},{text},{labels}\n" for number, (text, labels) in enumerate(some))
            Path(name, f"{split}.csv").write_text("id,text,labels\n" + lines)
    assert call("train", "one", "centroid", "--out", "m").code == 0
    same, other = call("evaluate", "m", "one", "--json"), call("evaluate", "m", "two", "--json")
    assert same.json["P@1"] == 100 and "does not know" not in same.err
    assert other.json["P@1"] == 75 and other.json["C@1"] == pytest.approx(100 * 2 / 3)
    assert "note: test has 1 label that the model does not have; it counts as a miss\n" in other.err
    assert "note: counts and propensities of labels are those of the data that the model was trained on\n" in other.err
    assert [part["name"] for part in other.json["bins"]][-1] == "zero-shot"
    Path("shuffled.csv").write_text("text,labels\n" + "".join(f"{text},{labels}\n" for text, labels in rows[1:]))
    assert "may have been trained on them" in call("evaluate", "m", "shuffled.csv", "--split", "valid").err


def test_a_model_of_other_fields_is_noted() -> None:
    rows = [{"id": str(row), "title": word, "text": "same", "labels": [word]} for row, word in enumerate("ab" * 20)]
    Path("d.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert call("train", "d.jsonl", "centroid", "--text", "title", "--out", "m").code == 0
    note = "note: the model was trained on title, the data was read as title+text\n"
    assert note in call("evaluate", "m", "d.jsonl", "--split", "valid").err
    assert note not in call("evaluate", "m", "d.jsonl", "--split", "valid", "--text", "title").err


def test_no_rows_to_measure_on(rows: list[dict[str, Any]]) -> None:
    Path("d.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert call("train", "d.jsonl", "centroid", "--out", "m").code == 0
    message = call("evaluate", "m", "d.jsonl").error
    assert message.startswith(
        "d has no test examples to measure on; add them, measure another --split, or train and eval"
    )


def test_neither_model_nor_predictions(data: Path) -> None:
    assert "nothing does not exist; give a model folder or a file" in call("evaluate", "nothing", data).error
    Path("noise").write_bytes(bytes(range(256)) * 2)
    assert call("evaluate", "noise", data).error.startswith("noise:2: byte 0x80 is not UTF-8")
    Path("words").write_text("apple\n")
    assert call("evaluate", "words", data).error.startswith("words:1: broken JSON")
    Path("empty").touch()
    problem = "empty: 60 of 60 examples of the split have no predictions, the first is 'test-0'; add a line for each"
    assert call("evaluate", "empty", data).error == problem


def test_predictions_of_another_split(data: Path, model: Path, rows_file: Path) -> None:
    assert call("predict", model, rows_file, "--out", "p.jsonl").code == 0
    message = call("evaluate", "p.jsonl", data, "--split", "valid").error
    assert message.startswith("p.jsonl:1: id 'test-0' is not an example of this split")
    assert "check --split" in message
