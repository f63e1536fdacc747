"""What the commands print: JSON and nothing but JSON on standard output, tables for people, files when asked."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cli_calls import call

from longtail.catalogue import LEARNERS, TAIL_METHODS
from longtail.cli.methods import COMMON
from longtail.cli.plan import refuse_what_will_not_fit
from longtail.data import Corpus
from longtail.errors import DataError, WillNotFit
from longtail.recipe import Recipe

MEASURES = ("P", "nDCG", "PSP", "PSnDCG", "R", "RP", "C", "macroP", "macroR", "macroF1")


def csv(rows: list[dict[str, Any]], name: str = "books.csv", end: str = "\n", tab: str = ",") -> Path:
    """The rows as a table without a test split and with column names of its own."""
    lines = [tab.join(("title", "subjects", "isbn"))]
    lines += [tab.join((row["text"], ";".join(row["labels"]), f"isbn-{row['id']}")) for row in rows]
    path = Path(name)
    path.write_bytes((end.join(lines) + end).encode())
    return path


LEAKED = "warning: 36 of 60 test examples are in train too: what they measure is memory\n"  # so few words make them
COLUMNS = ["--text-column", "title", "--label-column", "subjects", "--id-column", "isbn", "--label-separator", ";"]
EVERY: dict[str, Callable[[Path, Path], list[str | Path]]] = {
    "check": lambda table, model: ["check", table, *COLUMNS],
    "plan": lambda table, model: ["plan", table, "centroid", "knn + rerank", *COLUMNS],
    "compare": lambda table, model: ["compare", table, "centroid", "knn + rerank", *COLUMNS],
    "train": lambda table, model: ["train", table, "centroid", "--out", "m", *COLUMNS],
    "predict": lambda table, model: ["predict", model],
    "evaluate": lambda table, model: ["evaluate", model, table, "--split", "valid", *COLUMNS],
    "methods": lambda table, model: ["methods"],
    "build": lambda table, model: ["build", "hierarchy", "edges", "edges.tsv", "--out", "built"],
}


@pytest.mark.parametrize("command", EVERY)
def test_json_alone_on_standard_output(command: str, rows: list[dict[str, Any]]) -> None:
    """The data is one that there is much to say about: columns chosen, splits held out, labels without texts."""
    table = csv(rows)
    Path("edges.tsv").write_text("".join(f"n{node}\tn{node // 2}\n" for node in range(1, 40)))
    assert call("train", table, "centroid", "--out", "model", *COLUMNS).code == 0
    done = call(*EVERY[command](table, Path("model")), "--json", stdin="apple\n\nthe bridge\n")
    assert done.code == 0, done
    assert done.json
    for line in done.err.splitlines():
        assert line.startswith(("note: ", "report: ", "done: ", "warning: ")), line


def test_compare_gives_one_object_a_recipe(data: Path) -> None:
    done = call("compare", data, "centroid", "centroid + rerank", "bm25", "--json", "--report", "deep/r.html")
    assert done.code == 0
    *lines, warning, report = done.err.splitlines(keepends=True)
    assert [line.split(" P@1")[0] for line in lines] == ["done: centroid:", "done: centroid + rerank:", "done: bm25:"]
    assert (warning, report) == (LEAKED, "report: deep/r.html\n")
    results = done.json["results"]
    assert [result["recipe"] for result in results] == ["centroid", "centroid + rerank", "bm25"]
    for result in results:
        for name in (f"{measure}@{k}" for measure in MEASURES for k in (1, 3, 5)):
            assert 0 <= result[name] <= 100
        assert result["P@1"] > 50  # percent, not a share
        assert result["train_seconds"] > 0
        assert result["predict_seconds"] > 0
        assert isinstance(result["peak_bytes"], int)
        assert result["peak_bytes"] > 1_000_000
        assert result["propensity"] == {"a": 0.55, "b": 1.5}
        assert [part["name"] for part in result["bins"]] == ["1", "2", "3", "4", "5"]
        assert sum(part["contribution"] for part in result["bins"]) == pytest.approx(result["P@5"])
    page = Path("deep/r.html").read_text()
    assert "centroid + rerank" in page
    assert "longtail compare" in page


def test_results_are_shown_although_another_recipe_failed(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise DataError("broken on purpose")

    monkeypatch.setattr("longtail.learners.knn.Knn.fit", fail)
    for words in ([], ["--json"]):
        done = call("compare", data, "centroid", "centroid + rerank", "knn", "bm25", "--report", "r.html", *words)
        assert done.code == 2
        *_, last = done.err.splitlines()
        assert "note: stopped after 2 of 4 recipes; here are the results\n" in done.err
        assert last == "error: broken on purpose"
        assert "centroid + rerank" in Path("r.html").read_text()
        Path("r.html").unlink()
    assert [result["recipe"] for result in done.json["results"]] == ["centroid", "centroid + rerank"]
    assert call("compare", data, "knn", "bm25").error == "broken on purpose"
    assert not Path("report.html").exists()


def test_results_are_shown_although_the_report_cannot_be_written(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: Path, _: str) -> None:
        raise DataError("the report cannot be written here (No space left on device)", path)

    monkeypatch.setattr("longtail.report.page.write", full)
    done = call("compare", data, "centroid", "bm25", "--json", "--report", "r.html")
    assert done.code == 2 and [result["recipe"] for result in done.json["results"]] == ["centroid", "bm25"]
    assert done.err.endswith("error: r.html: the report cannot be written here (No space left on device)\n")

    def fail(*_: object) -> None:
        raise DataError("broken on purpose")

    monkeypatch.setattr("longtail.learners.knn.Knn.fit", fail)
    done = call("compare", data, "centroid", "knn")
    assert done.code == 2 and re.search(r"^ *centroid +100\.0 ", done.out, re.MULTILINE)
    assert done.err.splitlines()[-2:] == [  # and the one does not hide the other
        "error: report.html: the report cannot be written here (No space left on device)", "error: broken on purpose",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("recipe", "expected"),
    [
        ("dpr(encoder='bog')", "no encoder 'bog'; did you mean 'bag'?"),
        ("renee(encoder='some folder')", "no encoder 'some folder': it is neither"),
        ("knn + lever(teacher='dpr(encoder=\"bog\")')", "no encoder 'bog'"),
    ],
)
def test_a_missing_encoder_is_an_error_before_any_recipe_is_trained(data: Path, recipe: str, expected: str) -> None:
    assert expected in call("compare", data, "centroid", recipe).error


@pytest.mark.parametrize("learner", ["dpr", "renee", "astec"])
def test_a_missing_extra_is_an_error_before_any_recipe_is_trained(
    data: Path, learner: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("longtail.nn.extra.find_spec", lambda name: None)
    assert f"{learner} needs torch, which is not installed" in call("compare", data, "centroid", learner).error


def test_compare_shows_a_table_and_the_way_to_the_report(data: Path) -> None:
    done = call("compare", data, "centroid", "knn")
    assert done.code == 0
    assert re.fullmatch(r"(done: .+\n){2}" + LEAKED + "report: report.html\n", done.err)
    assert re.search(r"^ *centroid +100\.0 ", done.out, re.MULTILINE)
    assert "PSP with A=0.55, B=1.5" in done.out
    assert Path("report.html").stat().st_size > 10_000


def test_compare_notes_the_test_split_that_it_holds_out(rows: list[dict[str, Any]]) -> None:
    table = csv(rows)
    done = call("compare", table, "centroid", *COLUMNS, "--json")
    note = re.search(r"note: no test split was given: (\d+) examples \(10%\) of train were held out as test", done.err)
    assert note is not None
    assert 20 < int(note[1]) < 60
    # a model of the same rows has the same figures on the same held-out rows
    assert call("train", table, "centroid", *COLUMNS, "--test-share", "0.1", "--out", "m").code == 0
    evaluated = call("evaluate", "m", table, *COLUMNS, "--test-share", "0.1", "--json").json
    assert evaluated["rows"] == int(note[1])
    assert {key: evaluated[key] for key in evaluated if "@" in key} == {
        key: value for key, value in done.json["results"][0].items() if "@" in key
    }
    assert "warning" not in call("evaluate", "m", table, *COLUMNS, "--test-share", "0.1").err
    # a model that has seen them is not measured without a word
    assert call("train", table, "centroid", *COLUMNS, "--out", "all").code == 0
    for model, other in (("all", ["--test-share", "0.1"]), ("m", ["--test-share", "0.1", "--seed", "5"])):
        warned = call("evaluate", model, table, *COLUMNS, *other)
        assert "warning: the model was trained on" in warned.err and "the same --test-share and --seed" in warned.err
    # and the seed moves them
    other = call("compare", table, "centroid", *COLUMNS, "--seed", "5")
    assert "were held out as test" in other.err
    assert other.err.splitlines()[0] != note[0]


@pytest.mark.parametrize("kind", ["csv", "windows csv", "tsv", "parquet", "jsonl", "windows jsonl"])
def test_one_file_of_any_kind(kind: str, rows: list[dict[str, Any]]) -> None:
    """Train and predict, with the columns named, whatever the format and its line ends."""
    options = COLUMNS
    if kind.endswith("csv"):
        path = csv(rows, end="\r\n" if "windows" in kind else "\n")
    elif kind == "tsv":
        path = csv(rows, "books.tsv", tab="\t")
    elif kind == "parquet":
        arrow = pytest.importorskip("pyarrow")
        parquet = pytest.importorskip("pyarrow.parquet")
        path, options = Path("books.parquet"), ["--text-column", "title", "--label-column", "subjects"]
        texts, labels = [row["text"] for row in rows], [row["labels"] for row in rows]
        parquet.write_table(arrow.table({"title": texts, "subjects": labels}), path)
    else:
        path, options = Path("books.jsonl"), []
        end = "\r\n" if "windows" in kind else "\n"
        path.write_bytes("".join(json.dumps(row) + end for row in rows).encode())
    trained = call("train", path, "centroid", *options, "--out", "m")
    assert trained.code == 0, trained
    lines = call("predict", "m", "-k", "1", stdin='the dragon\n{"title": "castle"}\n{"text": "apple"}\n')
    if "jsonl" in kind:
        assert [line["labels"][0]["id"] for line in lines.lines] == ["L3", "L2", "L0"]
        assert "only books.jsonl" not in call("check", path).out
    else:
        assert [line["labels"][0]["text"] for line in lines.lines] == ["L3", "L2", "L0"]
    compared = call("compare", path, "centroid", *options, "--json")
    assert compared.code == 0, compared
    assert compared.json["results"][0]["P@1"] > 90
    checked = call("check", path, *options)
    assert checked.code == 0, checked


def test_columns_that_are_not_there(rows: list[dict[str, Any]]) -> None:
    table = csv(rows)
    message = call("train", table, "centroid", "--out", "m", "--text-column", "titel").error
    assert message == "books.csv: no column 'titel'; did you mean 'title'? the columns are title, subjects, isbn"
    wrong = call("check", table, "--label-separator", "|")
    assert "pass --label-separator ';'" in wrong.out


def test_train_prints_what_it_made(data: Path) -> None:
    done = call("train", data, "centroid + rerank", "--out", "m")
    assert done.err == ""
    assert re.fullmatch(
        r"centroid \+ rerank: trained on 410 examples with 10 labels in \d+\.\d s, peak \S+ [MG]B; "
        r"wrote m \(\S+ kB\)\n",
        done.out,
    )
    facts = call("train", data, "centroid + rerank", "--out", "m", "--overwrite", "--json").json
    assert (facts["recipe"], facts["model"], facts["rows"], facts["labels"]) == ("centroid + rerank", "m", 410, 10)


def test_check_shows_facts_shares_a_picture_and_problems(data: Path) -> None:
    done = call("check", data)
    assert (done.code, done.err) == (1, "")  # most of the tiny test rows stand in train too
    for words in ("train examples", "Pos-80%", "labels per example", "head", "torso", "of the positives", "label 10"):
        assert words in done.out
    assert re.search(r"^warning: examples of train that repeat", done.out, re.MULTILINE)
    assert re.search(r"^error: examples of test that are in train too", done.out, re.MULTILINE)
    facts = call("check", data, "--json")
    assert facts.code == 1
    names = ("name", "facts", "bands", "notes", "warnings", "errors", "faults", "remedies", "right_by_size")
    assert list(facts.json) == [*names]
    assert facts.json["facts"]["train examples"] == 410


def test_check_of_clean_data() -> None:
    rows = [{"id": str(row), "text": f"book {row}", "labels": ["ab"[row % 2]]} for row in range(30)]
    for name, part in (("train", rows[:20]), ("valid", rows[20:25]), ("test", rows[25:])):
        Path(f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in part))
    done = call("check", ".")
    assert done.code == 0
    assert done.out.endswith("no warnings, no errors\n")


def test_names_are_no_markup() -> None:
    lines = ["[/b],labels,:cat:", *(f"word{row},{'ab'[row % 2]},x" for row in range(30))]
    Path("d.csv").write_text("\n".join(lines))
    Path("corpus.json").write_text("{}")
    columns = ["--text-column", "[/b],:cat:"]
    assert "[/b]+:cat:" in call("check", "d.csv", *columns).out
    for words in (["plan", "d.csv", "knn"], ["compare", "d.csv", "knn"], ["train", "d.csv", "knn", "--out", "[/b]"]):
        assert call(*words, *columns).code == 0
    Path("train.csv").write_text("\n".join(lines))
    Path("corpus.json").write_text('{"name": "[/b] and [bold]"}')
    assert "[/b] and [bold]" in call("check", ".", *columns).out


def test_methods_lists_the_catalogue() -> None:
    done = call("methods", "--all")
    assert (done.code, done.err) == (0, "")
    for name in (*LEARNERS, *TAIL_METHODS):
        assert f" {name} " in done.out
    places = [
        done.out.index(words)
        for words in (" lexical ", "over a label tree", " elias ", "what others learned", " fuse ")
    ]
    assert places == sorted(places), "nets stand with nets, and combinations apart"
    listed = call("methods", "--json").json
    assert list(listed["learners"]) == list(LEARNERS)
    assert list(listed["tail_methods"]) == list(TAIL_METHODS)
    assert {name: list(row) for name, row in listed["grid"].items()} == {name: list(TAIL_METHODS) for name in LEARNERS}
    for part in (*listed["learners"].values(), *listed["tail_methods"].values()):
        assert part["summary"]


def test_a_data_sets_preset_is_shown_by_what_it_changes() -> None:
    shown = call("methods", "renee").out
    assert "renee:LF-AmazonTitles-131K, as renee:paper\n" in shown  # it changes nothing
    own = shown.split("renee:LF-Amazon-131K, as renee:paper but\n")[1].split("renee:")[0]
    assert [line.split()[:2] for line in own.splitlines()[1:2]] == [["max_tokens", "128"]] and "epochs" not in own


def test_methods_shows_one_part_with_its_settings() -> None:
    shown = call("methods", "ngame").out
    assert "temperature" in shown and "0.05" in shown
    assert "Negative Mining-aware Mini-batching" in " ".join(shown.split())
    assert shown.index("margin") < shown.index("temperature"), "its own settings stand before those it shares"
    both = call("methods", "centroid").out  # a learner and a tail method share the name
    assert "centroid, a learner" in both and "centroid, a tail method" in both
    [one] = call("methods", "glas", "--json").json
    assert one["name"] == "glas" and {setting["name"] for setting in one["settings"]} >= {"weight", "labels_per_step"}
    wrong = call("methods", "gandalv")
    assert wrong.code == 2 and "did you mean 'gandalf'" in wrong.error


def test_plan_shows_what_fits(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done = call("plan", data, "centroid", "knn + rerank")
    assert (done.code, done.err) == (0, "")
    assert "knn + rerank" in done.out
    monkeypatch.setattr("longtail.memory.available_bytes", lambda: 1000)
    plans = call("plan", data, "centroid", "--json").json
    assert plans[0]["available_bytes"] == 1000
    assert plans[0]["fits"] is False


def test_what_will_not_fit_is_refused_with_alternatives(
    tiny: Corpus, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    needed = {plan["recipe"]: plan["train_bytes"] for plan in call("plan", data, *LEARNERS, "--json").json}
    small, large = min(needed, key=needed.__getitem__), max(needed, key=needed.__getitem__)
    between = (needed[small] + needed[large]) // 2
    monkeypatch.setattr("longtail.memory.available_bytes", lambda: between)
    refuse_what_will_not_fit([Recipe.parse(small)], tiny.train)  # fits: nothing happens
    with pytest.raises(WillNotFit, match=rf"{large} needs about .* are free; these fit: .*{small} \("):
        refuse_what_will_not_fit([Recipe.parse(small), Recipe.parse(large)], tiny.train)
    refused = call("train", data, large, "--out", "m").error
    assert "; these fit: " in refused
    assert refused.endswith("; or train anyway with --force")
    assert call("compare", data, small, large).error == refused
    assert not Path("report.html").exists()
    assert (
        call("train", data, f"{large}(epochs=1)", "--out", "m", "--force").code == 0
    )  # an encoder; as large, sooner done
    monkeypatch.setattr("longtail.memory.available_bytes", lambda: 1)
    assert (
        "use fewer examples or a larger machine; or train anyway with --force"
        in call("train", data, small, "--out", "n").error
    )


def test_compare_notes_test_documents_that_are_in_train(rows: list[dict[str, Any]]) -> None:
    Path("d").mkdir()
    Path("d/train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    test = [{**row, "id": f"t{row['id']}"} for row in rows[:10]]
    Path("d/test.jsonl").write_text("".join(json.dumps(row) + "\n" for row in test))
    done = call("compare", "d", "centroid")
    assert "warning: 10 of 10 test examples are in train too: what they measure is memory\n" in done.err
    assert "what they measure is memory" in Path("report.html").read_text()


def test_methods_fit_a_screen_of_eighty_columns() -> None:
    short = call("methods").out
    assert set(COMMON) < {*LEARNERS, *TAIL_METHODS}
    for kinds in (LEARNERS, TAIL_METHODS):
        for name in kinds:
            assert re.search(rf" {name}( |$)", short, re.MULTILINE), f"{name} is in no group"
    assert len(short.splitlines()) <= 36, "it fits a screen of 40 lines, with room for the next parts"
    for listed in (short, call("methods", "--all").out):
        assert "…" not in listed and max(map(len, listed.splitlines())) <= 80
    assert "Goes on: astec, cascadexml, elias, inceptionxml, lightxml, ngame, renee" in call("methods", "glas").out
