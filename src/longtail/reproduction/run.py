"""Train the rows of papers' tables on one data set."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from longtail.comparison import each, read_seeds
from longtail.data.corpus import Corpus
from longtail.data.read import load
from longtail.errors import DataError
from longtail.progress import note
from longtail.recipe import Recipe
from longtail.report.result import Result
from longtail.reproduction.outcome import Reproduction, TableOutcome
from longtail.reproduction.paper_tables import MEASURE, PaperTable, find_paper

HELD_OUT = 0.1  # share of train that becomes test where the data has none


def reproduce(
    paper: str,
    data: str | Path | Corpus,
    tables: Sequence[str] = (),
    seeds: int | Sequence[int] = 3,
    within: float | None = None,
    checkpoint_dir: str | Path | None = None,
) -> Reproduction:
    """Train the rows of a paper's tables on a data set, and set our figures beside the published ones.

    Args:
        paper: such as taug, gandalf, lever, dexa or unidec.
        data: a data set, or what `longtail.load` takes.
        tables: numbers such as 3, figures such as fig2; none: all of them.
        seeds: how often each recipe is trained, or with which seeds.
        within: seconds after which no further recipe is started.
        checkpoint_dir: a folder for what is finished; the same call goes on from there.

    Returns:
        Figures, effects against each row's control, and what was left out.

    Raises:
        DataError: paper, table or data are not there, or the data lacks what a table needs; before training.
    """
    began = time.perf_counter()
    found = find_paper(paper)
    if isinstance(tables, str):
        tables = [tables]
    wanted = [found.table(name) for name in tables] or list(found.tables)
    chosen = read_seeds(seeds if isinstance(seeds, int) else list(seeds))
    if within is not None and not within > 0:
        raise DataError(f"within is a time above 0, got {within:g}")
    for table in wanted:
        if not table.ready:
            reasons = "; ".join(f"{row.name}: {row.missing()}" for row in table.rows)
            raise DataError(f"no row of {found.name} {table.name} can be trained here: {reasons}")
    corpus = data if isinstance(data, Corpus) else load(data, test_share=HELD_OUT)
    check_tables(wanted, corpus)
    recipes = list(dict.fromkeys(row.recipe for table in wanted for row in table.ready))
    ks = sorted({1, 3, 5, *(int(MEASURE.fullmatch(one)[2]) for table in wanted for one in table.columns)})  # type: ignore[index]
    results: dict[str, Result] = {}
    trained = each(corpus, recipes, ks, checkpoint_dir, chosen)
    for number, recipe in enumerate(recipes):
        if within is not None and results and time.perf_counter() - began > within:
            note(f"the time is out; {len(recipes) - number} of {len(recipes)} recipes were not started")
            break
        results[recipe] = next(trained)
    trained.close()  # type: ignore[attr-defined]
    outcomes = []
    for table in wanted:
        left = tuple(row.name for row in table.ready if row.recipe not in results)
        outcomes.append(TableOutcome(table, results, left))
    labels = corpus.labels
    return Reproduction(
        paper=found.name,
        data=corpus.name,
        seeds=chosen,
        outcomes=tuple(outcomes),
        seconds=time.perf_counter() - began,
        facts={
            "train_rows": len(corpus.train),
            "test_rows": len(corpus.test),
            "labels": len(labels),
            "propensity": {"a": labels.propensity.a, "b": labels.propensity.b},
        },
        notes=corpus.notes,
    )


def check_tables(tables: Sequence[PaperTable], corpus: Corpus) -> None:
    """Refuse data that lacks what a table needs.

    Args:
        tables: that are to be run.
        corpus: the data.

    Raises:
        DataError: names the table, and what the data lacks.
    """
    for table in tables:
        where = f"{table.paper} {table.name} needs"
        if "texts" in table.needs and corpus.train.texts is None:
            raise DataError(f"{where} the texts of documents, and {corpus.name} has only features; give other data")
        if "label texts" in table.needs and not corpus.labels.has_texts:
            raise DataError(f"{where} label texts, and {corpus.name} has none; give other data or another table")
        for row in table.ready:
            try:
                Recipe.parse(row.recipe).check(corpus.train)
            except DataError as error:
                raise DataError(f"{table.paper} {table.name}, row {row.name}: {error}") from None
