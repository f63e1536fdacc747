"""The papers' tables: files that are read strictly, real trainings, effects computed a second way."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import longtail
from longtail.comparison import compare
from longtail.data import Corpus
from longtail.errors import DataError, RecipeError, counted
from longtail.metrics.calibration import Teaching
from longtail.reproduction import PaperTable, Publication, find_paper, papers, reproduce
from longtail.reproduction.listing import listed, seconds_of_table
from longtail.reproduction.outcome import IN_KIND, IN_PART, NOT, TableOutcome, cells, published_cells
from longtail.reproduction.page import markdown, remarks
from longtail.reproduction.paper_tables import read_table
from longtail.reproduction.run import check_tables, chosen_rows, trained_rows
from longtail.reproduction.table_rows import TableRow
from longtail.reproduction.thinned import thinned

TABLE = """
title = "a learner with and without"
columns = ["PSP@1", "P@3"]
[[rows]]
name = "plain"
recipe = "centroid"
[[rows]]
name = "with"
recipe = "parabel(trees=1)"
control = "plain"
[[rows]]
name = "none"
not_implemented = "its data is not published"
[published.One]
plain = [10.0, 20.0]
with = [12.0, "-"]
"""


def table_of(text: str, folder: Path) -> PaperTable:
    file = folder / "paper" / "3.toml"
    file.parent.mkdir(exist_ok=True)
    file.write_text(text)
    return read_table(file)


def of(tiny: Corpus, table: PaperTable, seeds: int = 2) -> TableOutcome:
    recipes = [row.recipe for row in table.ready]
    found = compare(tiny, recipes, seeds=seeds)
    return TableOutcome(table, dict(zip(recipes, found, strict=True)))


def test_every_shipped_file_is_whole() -> None:
    for paper in papers():
        assert paper.title and paper.tables and paper.not_implemented
        for table in paper.tables:
            assert table.ready, f"{paper.name} {table.name} trains nothing"
            printed = table.published or table.published_effects
            assert printed or not table.name[0].isdigit(), f"{paper.name} {table.name} has no published figure"
            assert paper.table(table.name) is table is find_paper(paper.name.upper()).table(f"Table {table.name}")
            for row in table.rows:
                if row.control:
                    control = next(one for one in table.rows if one.name == row.control)
                    assert control.recipe != row.recipe, f"{table.name}: {row.name} is its own control"


def test_a_file_is_read(tmp_path: Path) -> None:
    table = table_of(TABLE, tmp_path)
    plain, with_, none = table.rows
    assert table.heading == "Table 3" and replace(table, name="fig2").heading == "Figure 2"
    assert replace(table, name="density").heading == "Control: density"
    assert table.ready == (plain, with_)
    assert none.missing() == "its data is not published"
    assert table.effects_of(with_) == {"One": (2.0, None)} and table.effects_of(plain) == {}
    assert published_cells(table, with_) == {"One": ["12.00 (+2.00)", ""]}


def test_forms_of_a_row_stand_against_its_published_figures(tmp_path: Path) -> None:
    form = '[[rows]]\nname = "form"\nrecipe = "knn"\ncontrol = "plain"\npublished_as = "with"\n[[rows]]\nname = "none"'
    table = table_of(TABLE.replace('[[rows]]\nname = "none"', form), tmp_path)
    _, with_, other, _ = table.rows
    assert table.effects_of(other) == table.effects_of(with_) == {"One": (2.0, None)}
    assert published_cells(table, other) == {}  # they are printed once, under the row's own name
    (kept,) = chosen_rows([table], ["form"])
    assert [row.name for row in kept.rows] == ["plain", "form"]
    assert kept.effects_of(kept.rows[1]) == {"One": (2.0, None)}


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("title =", "titel =", "unknown key 'titel'; did you mean 'title'"),
        ('title = "a learner with and without"', "", "lacks 'title'"),
        ('"P@3"', '"Q@3"', "column 'Q@3' is no measure"),
        ('control = "plain"', 'control = "other"', "control of 'with' is 'other', which is no row"),
        ('control = "plain"', 'published_as = "other"', "published form of 'with' is 'other', which is no row"),
        ('name = "none"', 'name = "with"', "two rows have the same name, 'with'"),
        ('name = "none"', 'name = "none"\nexamples_per_label = 0', "of row 'none' is a number above 0 or 'all', got 0"),
        ("[published.One]", "[[sweeps]]\neach = [1]\n[published.One]", "sweep 1 lacks 'rows'"),
        ("[published.One]", "[[sweeps]]\neach = []\nrows = []\n[published.One]", "'each' of sweep 1 is a list"),
        (
            "[published.One]",
            '[[sweeps]]\neach = [1, 2]\nrows = [{name = "x", recipe = "knn"}]\n[published.One]',
            "same name, 'x'; write {each} into the names of a sweep",
        ),
        ("plain = [10.0, 20.0]", "plain = [10.0]", "has 1 figures for 2 columns"),
        ("plain = [10.0, 20.0]", "plane = [10.0, 20.0]", "'plane' on One, which is no row; did you mean 'plain'"),
        ("plain = [10.0, 20.0]", 'plain = [10.0, "?"]', "is no number and not '-'"),
        ('recipe = "centroid"', "", "either a recipe or a reason"),
        ("[[rows]]", "needs = 3 =", "cannot be read as TOML"),
        ("columns =", 'needs = ["luck"]\ncolumns =', "unknown need 'luck'"),
    ],
)
def test_a_wrong_file_is_refused(before: str, after: str, message: str, tmp_path: Path) -> None:
    assert before in TABLE
    with pytest.raises(DataError, match=r"paper/3\.toml") as error:
        table_of(TABLE.replace(before, after, 1), tmp_path)
    assert message in str(error.value)


def test_a_recipe_is_parsed_when_the_file_is_read(tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match=r"row 'plain': .*colour"):
        table_of(TABLE.replace('"centroid"', '"centroid(colour=3)"'), tmp_path)
    with pytest.raises(RecipeError, match="unknown preset"):
        table_of(TABLE.replace('"centroid"', '"parabel:nowhere"'), tmp_path)
    lacking = table_of(TABLE.replace('"centroid"', '"of_another_package + rerank"'), tmp_path).rows[0]
    assert lacking.missing() == "no method is called of_another_package"


def test_a_sweep_is_a_block_of_rows_for_each_value(tmp_path: Path) -> None:
    sweep = """[[sweeps]]
each = [2, "all"]
rows = [
    { name = "{each} plain", recipe = "centroid", examples_per_label = "{each}" },
    { name = "{each} trees", recipe = "parabel(trees=1)", control = "{each} plain", examples_per_label = "{each}" },
]
"""
    table = table_of(TABLE.replace("[published.One]", sweep + "[published.One]"), tmp_path)
    rows = [(row.name, row.control, row.examples_per_label) for row in table.rows[3:]]
    assert rows == [
        ("2 plain", "", 2.0),
        ("2 trees", "2 plain", 2.0),
        ("all plain", "", None),
        ("all trees", "all plain", None),
    ]
    assert table.rows[3].key == "centroid @ 2 examples a label" and table.rows[5].key == table.rows[0].key


def test_fewer_examples_are_as_many_as_asked_for(tiny: Corpus) -> None:
    labels, pairs = len(tiny.labels), tiny.train.targets.nnz
    half, third = thinned(tiny, pairs / labels / 2), thinned(tiny, pairs / labels / 3)
    most = max(np.diff(tiny.train.targets.indptr))
    assert pairs / 2 - most < half.train.targets.nnz <= pairs / 2
    assert set(third.train.ids) < set(half.train.ids) < set(tiny.train.ids)
    counted = np.zeros(labels, dtype=int)  # counts are those of the examples kept
    for label in half.train.targets.indices:
        counted[label] += 1
    assert half.labels.counts.tolist() == counted.tolist() != tiny.labels.counts.tolist()
    assert half.test.ids == tiny.test.ids and abs(len(half.valid) - len(tiny.valid) / 2) < 2
    assert thinned(tiny, pairs / labels + 1) is tiny


def test_columns_of_bins_and_of_pairs(tiny: Corpus, tmp_path: Path) -> None:
    text = TABLE.replace('"PSP@1", "P@3"', '"P@5 in bin 1", "R@5 in bin 5", "PPL"')
    text = text[: text.index("[published")]
    outcome = replace(of(tiny, table_of(text, tmp_path), 1), pairs_per_label=tiny.train.targets.nnz / len(tiny.labels))
    row = outcome.table.rows[0]
    bins = {one.name: one for one in outcome.results["centroid"].measures.bins}
    first, last = outcome.figure(row, "P@5 in bin 1"), outcome.figure(row, "R@5 in bin 5")
    assert first is not None and first.mean == bins["1"].contribution
    assert (last is None) == ("5" not in bins) and (last is None or last.mean == bins["5"].recall)
    found = outcome.figure(row, "PPL")
    assert found is not None and found.mean == pytest.approx(tiny.train.targets.nnz / len(tiny.labels))
    result = replace(outcome.results["centroid"], teaching=Teaching("a teacher", entries=len(tiny.labels)))
    more = replace(outcome, results={**outcome.results, "centroid": result}).figure(row, "PPL")
    assert more is not None and more.mean == pytest.approx(found.mean + 1)


def test_rows_are_chosen_by_name_with_their_controls(tiny: Corpus, tmp_path: Path) -> None:
    table = table_of(TABLE, tmp_path)
    (kept,) = chosen_rows([table, replace(table, rows=table.rows[2:])], ["WITH"])
    assert [row.name for row in kept.rows] == ["plain", "with"]
    assert chosen_rows([table], []) == [table]
    with pytest.raises(DataError, match=r"no row is called 'wit'; did you mean 'with'.*plain, with, none"):
        chosen_rows([table], ["wit"])
    with pytest.raises(DataError, match="no row is called 'nothing'"):
        reproduce("taug", tiny, ["3"], rows="nothing")


def test_a_row_that_cannot_be_trained_leaves_the_others(tiny: Corpus, tmp_path: Path) -> None:
    away = str(tmp_path / "no" / "folder" / "here")
    rows = [TableRow("good", "centroid"), TableRow("bad", f"dpr(encoder='{away}')", "good")]
    table = replace(find_paper("taug").table("3"), rows=tuple(rows), columns=("P@1",), published={})
    refused = check_tables([table], tiny)
    assert list(refused[table.name]) == ["bad"] and "no encoder" in refused[table.name]["bad"]
    with pytest.raises(DataError, match="cannot be trained here: row bad: no encoder"):
        check_tables([replace(table, rows=tuple(rows[1:]))], tiny)
    # More clusters than labels are found out only in training.
    many = TableRow("many", "dpr(encoder='bag', epochs=1) + dexa(clusters=100000)")
    results, failed = trained_rows(tiny, [many, rows[0]], [1], [0])
    assert list(results) == ["centroid"] and "100,000 clusters" in failed[many.key]
    outcome = TableOutcome(table, results, refused=("many (too many clusters)",))
    assert "Not trained: many (too many clusters)." in remarks(outcome)
    with pytest.raises(DataError, match="no row could be trained: "):
        trained_rows(tiny, [many], [1], [0])


def test_effects_are_paired_by_seed(tiny: Corpus, tmp_path: Path) -> None:
    outcome = of(tiny, table_of(TABLE, tmp_path))
    plain, with_, none = outcome.table.rows
    once = compare(tiny, ["centroid"])[0].measures["PSP@1"]
    runs = [compare(tiny, [f"parabel(trees=1, seed={seed})"])[0].measures["PSP@1"] for seed in (0, 1)]
    figure, effect = outcome.figure(with_, "PSP@1"), outcome.effect(with_, "PSP@1")
    assert figure is not None and effect is not None
    assert figure.mean == pytest.approx(np.mean(runs))
    assert effect.mean == pytest.approx(np.mean(runs) - once)
    assert effect.deviation == pytest.approx(np.std(runs, ddof=1))
    assert outcome.effect(plain, "PSP@1") is None and outcome.figure(none, "PSP@1") is None
    assert cells(outcome, none) == ["", ""]
    back = of(
        tiny,
        table_of(
            TABLE.replace("parabel(trees=1)", "x").replace("centroid", "parabel(trees=1)").replace('"x"', '"centroid"'),
            tmp_path,
        ),
    )
    turned = back.effect(back.table.rows[1], "PSP@1")  # only the control has seeds
    assert turned is not None and turned.mean == pytest.approx(-effect.mean)
    assert turned.deviation == pytest.approx(effect.deviation)


def test_the_verdict_is_about_signs_beyond_the_deviation(tiny: Corpus, tmp_path: Path) -> None:
    base = TABLE.replace('"centroid"', '"parabel(trees=1)"').replace(
        'recipe = "parabel(trees=1)"\ncontrol', 'recipe = "parabel(trees=1) + rerank"\ncontrol'
    )
    outcome = of(tiny, table_of(base, tmp_path), 1)
    row = outcome.table.rows[1]
    effects = [outcome.effect(row, column) for column in outcome.table.columns]
    ours = [0.0 if one is None else one.mean for one in effects]
    if not all(ours):  # an effect of exactly 0 agrees with nothing
        ours = [one or math.nan for one in ours]
    same = [1 if value > 0 else -1 for value in ours]

    def verdict(signs: list[int]) -> str:
        figures = {"One": {"plain": (10.0, 10.0), "with": tuple(10.0 + sign for sign in signs)}}
        return replace(outcome, table=replace(outcome.table, published=figures)).verdict(row)

    agreeing = sum(not math.isnan(one) for one in ours)
    assert agreeing, "the sample shows no effect at all"
    assert verdict(same) == (IN_KIND if agreeing == 2 else IN_PART)
    assert verdict([-sign for sign in same]) == NOT
    assert replace(outcome, table=replace(outcome.table, published={})).verdict(row) == ""
    assert "published; " in outcome.sentence(row) and "+2.00" in outcome.sentence(row)


def test_a_table_of_the_paper_runs(tiny: Corpus, tmp_path: Path) -> None:
    found = longtail.reproduce("ranknet", tiny, tables="3", seeds=2, checkpoint_dir=tmp_path)
    (outcome,) = found.outcomes
    assert found.paper == "taug" and found.seeds == (0, 1) and outcome.left == ()
    assert set(outcome.results) == {row.key for row in outcome.table.rows}
    data = found.as_json("longtail reproduce taug 3 tiny", {"longtail": "1"})
    rows = {row["name"]: row for row in data["tables"][0]["rows"]}
    assert [run["seed"] for run in rows["w/ TAUG"]["runs"]] == [0, 1]
    assert rows["w/ TAUG"]["published_effects"]["EUR-Lex"]["PSP@1"] == 4.64
    assert rows["w/ TAUG"]["figures"]["PSP@1"]["mean"] == pytest.approx(
        np.mean([run["PSP@1"] for run in rows["w/ TAUG"]["runs"]])
    )
    page = markdown(found, "longtail reproduce taug 3 tiny", {"longtail": "1"}, "taug.json")
    assert "    longtail reproduce taug 3 tiny\n" in page and "`taug.json`" in page and "Seeds 0, 1;" in page
    assert "| EUR-Lex | w/ TAUG | (+4.64) |" in page
    assert f"| here | w/ TAUG | {cells(outcome, outcome.table.rows[1])[0]} |" in page
    assert page.endswith(f"## Verdict\n\n{found.sentence()}\n") and data["verdict"] == found.sentence()
    judged = [word for one in outcome.table.rows if (word := outcome.verdict(one))]
    effects = [effect.mean for row in outcome.table.rows if outcome.verdict(row)
               if (effect := outcome.effect(row, "PSP@1")) is not None]  # fmt: skip
    assert (
        f"of {counted(len(judged), 'row')} with published effects {judged.count(IN_KIND)} in kind" in found.sentence()
    )
    assert f"PSP@1 {min(effects):+.2f}" in found.sentence() and "+0.75 to +10.21 published." in found.sentence()
    assert replace(found, seeds=(0,)).sentence().endswith("published; one seed, so an effect of any size counts.")
    bare = replace(
        found, outcomes=(replace(outcome, table=replace(outcome.table, published={}, published_effects={})),)
    )
    assert bare.sentence() == "No row of taug that was trained on tiny has a published effect."
    again = reproduce("taug", tiny, ["3"], 2, checkpoint_dir=tmp_path)
    assert again.seconds < found.seconds
    assert again.as_json()["tables"] == found.as_json()["tables"]  # times of training too: nothing was trained again


def test_time_that_is_out_leaves_rows(tiny: Corpus) -> None:
    (outcome,) = reproduce("taug", tiny, ["6"], 1, within=1e-9).outcomes
    assert set(outcome.results) == {outcome.table.rows[0].recipe}  # the first is always trained
    assert outcome.left == ("TAUG-d", "TAUG-s", "TAUG-ds", "plain copies")
    assert outcome.as_json()["left_out_for_time"] == list(outcome.left)


def test_wrong_calls_are_refused_before_training(tiny: Corpus) -> None:
    with pytest.raises(DataError, match=r"no paper is called 'taugh'; did you mean 'taug'"):
        reproduce("taugh", tiny)
    with pytest.raises(DataError, match=r"taug has no table '9' here .*tables: 2, 3, 4, 5, 6, fig2, fig5"):
        reproduce("taug", tiny, ["9"])
    with pytest.raises(DataError, match="within is a time above 0"):
        reproduce("taug", tiny, ["3"], within=0)
    with pytest.raises(DataError, match="seeds are a number"):
        reproduce("taug", tiny, ["3"], seeds=0)


def test_data_that_lacks_what_a_table_needs(tiny: Corpus) -> None:
    table = find_paper("taug").table("3")
    with pytest.raises(DataError, match="taug 3 needs the texts of documents"):
        bare = replace(tiny, train=replace(tiny.train, texts=None, features=tiny.train.targets))
        check_tables([replace(table, needs=("texts",))], bare)
    labels = replace(tiny.labels, texts=("",) * len(tiny.labels))
    train, valid, test = (replace(one, labels=labels) for one in (tiny.train, tiny.valid, tiny.test))
    unnamed = replace(tiny, train=train, valid=valid, test=test)
    assert not unnamed.labels.has_texts
    with pytest.raises(DataError, match="taug 3 needs label texts"):
        check_tables([replace(table, needs=("label texts",))], unnamed)
    check_tables([table], tiny)


def test_the_list_says_what_is_missing_and_how_long(tiny: Corpus) -> None:
    paper = find_paper("taug")
    lines = {one.table: one for one in listed([paper], tiny, seeds=3)}
    assert list(lines) == ["2", "3", "4", "5", "6", "fig2", "fig5"]
    assert any(line.startswith("GLaS: ") for line in lines["4"].missing)
    assert lines["3"].recipes == 6 and lines["3"].seconds is not None
    table, facts = paper.table("3"), longtail.plan.DataFacts.of(tiny.train)
    assert lines["3"].seconds == pytest.approx(3 * seconds_of_table(table, facts, 1))
    assert all(one.seconds is None for one in listed([paper]))
    needy = replace(paper, tables=(replace(table, needs=("texts",)),))
    assert isinstance(needy, Publication)
    bare = replace(tiny, train=replace(tiny.train, texts=None, features=tiny.train.targets))
    assert "texts of documents" in listed([needy], bare)[0].refused
