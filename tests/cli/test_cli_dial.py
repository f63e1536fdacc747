"""`--dial` of predict and evaluate, and `--at` of compare: the same figures on every way, and clear refusals."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from cli_calls import call
from test_cli_evaluate import hard

import longtail
from longtail.dial import CURVE_MEASURES
from longtail.predictions_file import read_predictions


def test_every_way_gives_the_same_ranking(tmp_path: Path) -> None:
    """compare's curve, evaluate --dial, and evaluate of the file that predict --dial wrote."""
    data, model = hard(tmp_path / "hard"), "m"
    (data / "exclude.jsonl").unlink()
    assert call("train", data, "centroid", "--out", model).code == 0
    (compared,) = call("compare", data, "centroid", "--json").json["results"]
    points = {point["dial"]: point for point in compared["dial"]}
    assert list(points) == [step / 10 for step in range(11)]
    assert {name: points[0][name] for name in CURVE_MEASURES} == {name: compared[name] for name in CURVE_MEASURES}
    plain = call("evaluate", model, data, "--json").json
    for dial in ("0.3", "1"):
        measured = call("evaluate", model, data, "--dial", dial, "--json").json
        assert measured["dial"] == float(dial)
        assert {name: measured[name] for name in CURVE_MEASURES} == {
            name: points[float(dial)][name] for name in CURVE_MEASURES
        }
        assert call("predict", model, data / "test.jsonl", "-k", 5, "--dial", dial, "--out", "p.jsonl").code == 0
        again = call("evaluate", "p.jsonl", data, "--json").json
        assert {name: again[name] for name in plain if "@" in name} == {
            name: measured[name] for name in plain if "@" in name
        }
    assert measured["PSP@1"] != plain["PSP@1"]  # the dial moves something here


def test_0_writes_what_no_dial_writes(data: Path, model: Path, rows_file: Path) -> None:
    assert call("predict", model, rows_file, "--dial", "0").out == call("predict", model, rows_file).out
    assert call("evaluate", model, data, "--dial", "0", "--json").out == call("evaluate", model, data, "--json").out


def test_predict_ranks_as_the_model_does(model: Path) -> None:
    Path("texts.txt").write_text("apple banana\na castle in the forest\n")
    lines = call("predict", model, "texts.txt", "-k", 4, "--dial", "0.7").lines
    found = longtail.load_model(model).predict(["apple banana", "a castle in the forest"], 4, dial=0.7)
    assert [line["dial"] for line in lines] == [0.7, 0.7]
    for line, answers in zip(lines, found, strict=True):
        assert [one["id"] for one in line["labels"]] == [one.id for one in answers]
        assert [one["score"] for one in line["labels"]] == pytest.approx([one.score for one in answers])
    for line in call("predict", model, "texts.txt", "-k", 10, "--dial", "1", "--threshold", "0.2").lines:
        assert all(one["score"] >= 0.2 for one in line["labels"])  # the threshold stays one of probabilities


@pytest.mark.parametrize("dial", ["nan", "inf", "-0.1", "2.5"])
def test_a_dial_out_of_range_is_refused(data: Path, model: Path, rows_file: Path, dial: str) -> None:
    for words in (["predict", model, rows_file], ["evaluate", model, data]):
        assert "--dial is a number from 0" in call(*words, f"--dial={dial}").error


def test_a_model_without_probabilities_says_what_to_add(data: Path, rows_file: Path) -> None:
    assert call("train", data, "knn", "--out", "m").code == 0
    for words in (["predict", "m", rows_file], ["evaluate", "m", data]):
        assert "knn + calibrate" in call(*words, "--dial", "0.3").error


def test_what_does_not_go_together(data: Path, model: Path, rows_file: Path) -> None:
    assert call("predict", model, rows_file, "--out", "p.jsonl").code == 0
    assert "file of predictions" in call("evaluate", "p.jsonl", data, "--dial", "0.3").error
    assert "--card or --dial" in call("evaluate", model, data, "--dial", "0.3", "--card").error


def test_compare_measures_at_what_it_is_told(data: Path) -> None:
    done = call("compare", data, "centroid", "bm25", "--at", "2,10", "--json")
    for result in done.json["results"]:
        for name in ("P", "R", "F1", "MRR", "nDCG", "PSP", "C"):
            assert all(f"{name}@{k}" in result for k in (1, 2, 3, 5, 10))
    assert done.json["results"][1]["dial"] == []  # the scores of bm25 are no probabilities
    page = Path("report.html").read_text(encoding="utf-8")
    assert 'id="dial"' in page and ">P@10<" in page and ">MRR<" in page
    evaluated = call("compare", data, "bm25", "--at", "20")
    assert "P@20" in evaluated.out
    assert 'id="dial"' not in Path("report.html").read_text(encoding="utf-8")
    assert "--at takes whole numbers" in call("compare", data, "bm25", "--at", "0,5").error


def test_a_line_with_a_dial_keeps_its_order(data: Path, model: Path, rows_file: Path) -> None:
    """Without "dial" the scores decide."""
    lines = [json.loads(line) for line in rows_file.read_text().splitlines()]
    ids = [answer.id for answer in longtail.load_model(model).predict(["apple"], 2).answers(0)]
    labels = [{"id": ids[0], "score": 0.2}, {"id": ids[1], "score": 0.9}]
    for dial, first in ((0.5, ids[0]), (0, ids[1]), (None, ids[1])):
        entries = [{"id": line["id"], "dial": dial, "labels": labels} for line in lines]
        Path("p.jsonl").write_text("".join(json.dumps(entry) + "\n" for entry in entries))
        found = longtail.load(data)
        assert read_predictions(Path("p.jsonl"), found.test).answers(0)[0].id == first
