import re
from dataclasses import replace

import numpy as np
import pytest
from report_sample import sample_corpus, sample_result
from rich.console import Console

from longtail.comparison import judged
from longtail.report.comparison_table import clean_table, columns, comparison_table, difference_table, shared_notes
from longtail.report.result import Result, SharedStage, joined
from longtail.report.result_table import results_table


@pytest.fixture(scope="module")
def results() -> list[Result]:
    corpus = sample_corpus()
    return [
        sample_result("weak[bold]", corpus, skill=0.1, seed=0),
        sample_result("strong", corpus, skill=0.9, seed=1),
        sample_result("rare + rerank(candidates=100)", corpus, skill=0.9, rare=True, seed=2),
    ]


def printed(results: list[Result], width: int) -> str:
    console = Console(width=width, force_terminal=False, no_color=True)
    with console.capture() as capture:
        console.print(comparison_table(results, width))
    return capture.get()


def test_columns_rows_and_caption(results: list[Result]) -> None:
    table = comparison_table(results)
    assert [column.header for column in table.columns] == (
        ["recipe"] + [f"{name}@{k}" for name in ("P", "PSP", "C") for k in (1, 3, 5)] + ["train", "predict", "memory"]
    )
    assert table.row_count == 3
    assert (
        table.caption == "PSP with A=0.55, B=1.5; C = share of labels with a test positive that are found at least once"
    )


def test_best_values_are_bold_and_only_they(results: list[Result]) -> None:
    table = comparison_table(results)
    bold = {
        column.header: [str(cell.style) == "bold" for cell in column._cells]  # type: ignore[union-attr]
        for column in table.columns[1:]
    }
    assert bold["P@1"] == [False, True, False]
    assert bold["train"] == [True, False, False]  # less is better
    assert all(any(cells) for cells in bold.values())


def test_values_that_read_the_same_are_all_best(results: list[Result]) -> None:
    twin = replace(results[1], recipe="twin", train_seconds=results[1].train_seconds + 0.001)
    table = comparison_table([results[1], twin])
    assert all(str(cell.style) == "bold" for column in table.columns[1:] for cell in column._cells)  # type: ignore[union-attr]


def test_one_recipe_has_nothing_to_be_best_of(results: list[Result]) -> None:
    table = comparison_table(results[:1])
    assert not any(str(cell.style) for column in table.columns[1:] for cell in column._cells)  # type: ignore[union-attr]


def test_brackets_in_names_are_text(results: list[Result]) -> None:
    assert "weak[bold]" in printed(results, 200)


@pytest.mark.parametrize("width", [200, 120, 100, 80, 60, 40])
def test_no_figure_is_cut_at_any_width(results: list[Result], width: int) -> None:
    text = printed(results, width)
    assert "…" not in text
    assert max(map(len, text.splitlines())) <= width
    names = next(line for line in text.splitlines() if "recipe" in line).split()
    shown = [column for column in columns(results) if column.name in names]
    assert {"P@1", "PSP@5", "C@5"} <= {column.name for column in shown}  # what a person chooses by
    hidden = {column.name for column in columns(results)} - {column.name for column in shown}
    _, said, rest = " ".join(text.split()).partition("no room here for ")
    assert bool(said) == bool(hidden)
    assert hidden <= set(re.findall(r"[^\s,:]+", rest))
    for column in shown:
        for result in results:
            assert column.write(column.value(result)) in text


def test_deltas_are_signed_and_know_better_from_worse(results: list[Result]) -> None:
    by_name = {column.name: column for column in columns(results)}
    written, kind = by_name["P@1"].delta(results[1], results[0])
    assert written.startswith("+") and kind == "better"
    assert by_name["train"].delta(results[1], results[0]) == ("+3.0 s", "worse")
    assert by_name["train"].delta(results[0], results[1]) == ("−3.0 s", "better")
    assert by_name["C@5"].delta(results[0], results[0]) == ("±0", "same")


def test_a_measure_that_was_not_taken_has_no_column(results: list[Result]) -> None:
    values = {"P@1": 12.5, "PSP@1": 3.0}
    few = [replace(one, measures=replace(one.measures, values=values)) for one in results]
    assert [column.name for column in columns(few)] == ["P@1", "PSP@1", "train", "predict", "memory"]


def test_marks_differences_and_whose_time_it_was() -> None:
    corpus = sample_corpus()
    first = sample_result("weak", corpus, skill=0.1, seed=0)
    second = sample_result("strong", corpus, skill=0.9, seed=1)
    second = replace(second, shared=(SharedStage("weak", 4.0),), notes=("a note",))
    third = replace(sample_result("alike", corpus, skill=0.1, seed=0), notes=("a note",))
    results = judged([first, second, third], corpus)
    text = printed(results, 160)
    assert "▲" in text and "better, ▼ worse than the first recipe (95%); no mark: no difference shown" in text
    table = difference_table(results)
    assert table is not None and [column.header for column in table.columns] == ["recipe", "P@1", "PSP@5", "C@5"]
    cells = [str(cell) for cell in table.columns[1]._cells]
    assert cells[1].endswith("] better") and cells[2] == "+0.0 [+0.0, +0.0] no difference shown"
    span = results[0].intervals["P@1"]
    assert cells[0] == f"{results[0].measures['P@1']:.1f} [{span.low:.1f}, {span.high:.1f}]"
    assert shared_notes(results) == [
        "strong: trained in 0.5 s of its own; the rest once, 4.0 s by weak",
        "strong, alike: a note",
    ]
    alone = difference_table(results[:1])  # one recipe has intervals, too
    assert alone is not None and [str(cell) for cell in alone.columns[1]._cells] == cells[:1]
    assert "randomisation" in str(table.caption) and "randomisation" not in str(alone.caption)
    assert clean_table(results) is None
    clean = clean_table([replace(one, clean=one.measures) for one in results])
    assert clean is not None and "train" not in [column.header for column in clean.columns]


def test_long_names_end_their_lines_between_words() -> None:
    """On the page behind brackets and commas; in a narrow terminal a setting keeps its value."""
    corpus, name = sample_corpus(), 'knn(neighbours=20) + rerank(strength=0.3) + fuse("<b>", "a/b")'
    results = judged([sample_result("weak", corpus, skill=0.1, seed=0), sample_result(name, corpus, seed=1)], corpus)
    page = results_table(results, "Results")
    shown = (
        "knn(<wbr>neighbours=20) + rerank(<wbr>strength=0.3) + fuse(<wbr>&quot;&lt;b&gt;&quot;, &quot;a/<wbr>b&quot;)"
    )
    assert shown in page
    console = Console(width=80, force_terminal=False, no_color=True)
    with console.capture() as capture:
        console.print(difference_table(results))
    assert "knn(neighbours=20)" in capture.get() and "rerank(strength=0.3)" in capture.get()


def test_deviations_stand_beside_means() -> None:
    corpus = sample_corpus()
    runs = [replace(sample_result("r", corpus, skill=0.5, seed=seed), seeds=(seed,)) for seed in range(3)]
    text = printed([joined(runs)], 200)
    deviation = np.std([run.measures["P@1"] for run in runs], ddof=1)
    assert f"± {deviation:.1f}" in text and "mean ± deviation over 3 seeds" in text


def test_retrieval_is_measured_by_rank_and_recall() -> None:
    """Where nearly all labels have no training row, P@1, MRR and R stand in the place of PSP and C."""
    corpus = sample_corpus()
    counts = np.zeros_like(corpus.labels.counts)
    counts[:5] = 3
    unseen = replace(corpus.labels, counts=counts)
    assert unseen.mostly_unseen and not corpus.labels.mostly_unseen
    assert not replace(unseen, train_rows=0).mostly_unseen, "labels that were never counted are not unseen"
    made = [sample_result(name, corpus, skill=skill, seed=0) for name, skill in (("weak", 0.1), ("strong", 0.9))]
    made = judged(made, corpus)
    results = [replace(one, predictions=replace(one.predictions, labels=unseen)) for one in made]
    names = [column.name for column in columns(results)]
    assert names == ["P@1", "MRR@3", "MRR@5", "R@1", "R@3", "R@5", "train", "predict", "memory"]
    assert "R = recall" in str(comparison_table(results).caption)
    asked = {"MRR@10": 8.0, "R@10": 10.0, "R@100": 20.0, "R@1000": 30.0}
    deep = [replace(one, measures=replace(one.measures, values=one.measures.values | asked)) for one in results]
    assert asked.keys() <= set(printed(deep, 80).split()), "a narrow terminal shows what was asked for"
    table = difference_table(results)
    assert table is not None and [column.header for column in table.columns][1:] == ["P@1", "MRR@5", "R@5"]
    assert "recall: the share of a document" in results_table(results, "test")
