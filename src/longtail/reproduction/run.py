"""Train the rows of papers' tables on one data set."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from longtail.comparison import each, read_seeds
from longtail.data.corpus import Corpus
from longtail.data.read import load
from longtail.errors import DataError, LongtailError, did_you_mean
from longtail.progress import note
from longtail.recipe import Recipe
from longtail.report.result import Result
from longtail.reproduction.outcome import Reproduction, TableOutcome
from longtail.reproduction.own_encoder import with_encoder
from longtail.reproduction.paper_tables import MEASURE, PaperTable, find_paper
from longtail.reproduction.table_rows import TableRow
from longtail.reproduction.thinned import thinned

HELD_OUT = 0.1  # share of train that becomes test where the data has none


def reproduce(
    paper: str,
    data: str | Path | Corpus,
    tables: Sequence[str] = (),
    seeds: int | Sequence[int] = 3,
    within: float | None = None,
    checkpoint_dir: str | Path | None = None,
    rows: Sequence[str] = (),
    encoder: str | None = None,
) -> Reproduction:
    """Train the rows of a paper's tables on a data set, and set our figures beside the published ones.

    Args:
        paper: such as taug, gandalf, lever, dexa or unidec.
        data: a data set, or what `longtail.load` takes.
        tables: numbers such as 3, figures such as fig2; none: all of them.
        seeds: how often each recipe is trained, or with which seeds.
        within: seconds after which no further recipe is started.
        checkpoint_dir: a folder for what is finished; the same call goes on from there.
        rows: names of rows, or patterns such as "parabel*"; controls of these rows are trained too. None: all rows.
        encoder: in place of the pretrained encoders that rows name: minilm, a folder, or owner/name on the Hugging
            Face hub.

    Returns:
        Figures, effects against each row's control, and what was left out.

    Raises:
        DataError: paper, table, row or data are not there, or the data lacks what a table needs; before training.
    """
    began = time.perf_counter()
    found = find_paper(paper)
    tables, rows = ([one] if isinstance(one, str) else one for one in (tables, rows))
    wanted = chosen_rows([found.table(name) for name in tables] or list(found.tables), rows)
    if encoder is not None:
        named = wanted
        wanted = [with_encoder(table, encoder) for table in named]
        if wanted == named:
            raise DataError(
                f"no row of {found.name} {', '.join(table.name for table in wanted)} that was asked for names a "
                f"pretrained encoder, so {encoder} would not be used; leave encoder out, or take other rows"
            )
    chosen = read_seeds(seeds if isinstance(seeds, int) else list(seeds))
    if within is not None and not within > 0:
        raise DataError(f"within is a time above 0, got {within:g}")
    for table in wanted:
        if not table.ready:
            reasons = "; ".join(f"{row.name}: {row.missing()}" for row in table.rows)
            raise DataError(f"no row of {found.name} {table.name} can be trained here: {reasons}")
    deadline = math.inf if within is None else began + within
    corpus = data if isinstance(data, Corpus) else load(data, test_share=HELD_OUT)
    refused = check_tables(wanted, corpus)
    first: dict[str, TableRow] = {}
    for row in (row for table in wanted for row in table.ready if row.name not in refused[table.name]):
        first.setdefault(row.key, row)
    ks = sorted({1, 3, 5, *(int(k[2]) for table in wanted for one in table.columns if (k := MEASURE.fullmatch(one)))})
    results, failed = trained_rows(corpus, list(first.values()), ks, chosen, checkpoint_dir, deadline)
    if left := len(first) - len(results) - len(failed):
        note(f"the time is out; {left} of {len(first)} recipes were not started")
    labels = corpus.labels
    outcomes = []
    for table in wanted:
        away = refused[table.name] | {row.name: failed[row.key] for row in table.ready if row.key in failed}
        late = tuple(row.name for row in table.ready if row.key not in results and row.name not in away)
        why = tuple(f"{name} ({reason})" for name, reason in away.items())
        outcomes.append(TableOutcome(table, results, late, why, corpus.train.targets.nnz / max(len(labels), 1)))
    notes = (
        corpus.notes if encoder is None else (*corpus.notes, f"rows with a pretrained encoder read texts by {encoder}")
    )
    return Reproduction(
        paper=found.name,
        data=corpus.name,
        seeds=chosen,
        outcomes=tuple(outcomes),
        seconds=time.perf_counter() - began,
        facts=facts_of(corpus),
        notes=notes,
    )


def facts_of(corpus: Corpus) -> dict[str, Any]:
    """Sizes and constants of a data set, as a reproduction stores them.

    Args:
        corpus: the data.

    Returns:
        Plain data.
    """
    labels = corpus.labels
    return {
        "train_rows": len(corpus.train),
        "test_rows": len(corpus.test),
        "labels": len(labels),
        "propensity": {"a": labels.propensity.a, "b": labels.propensity.b},
    }


def trained_rows(
    corpus: Corpus,
    rows: Sequence[TableRow],
    ks: Sequence[int],
    seeds: Sequence[int],
    checkpoint_dir: str | Path | None = None,
    deadline: float = math.inf,
) -> tuple[dict[str, Result], dict[str, str]]:
    """Train rows until the time is out.

    Args:
        corpus: the data.
        rows: with different keys.
        ks: the k of the measures.
        seeds: that each is trained with.
        checkpoint_dir: a folder for what is finished.
        deadline: by `time.perf_counter`; the first row is trained all the same.

    Returns:
        Results by key, and by key why a row could not be trained.

    Raises:
        DataError: no row could be trained.
    """
    results: dict[str, Result] = {}
    failed: dict[str, str] = {}
    for density in dict.fromkeys(row.examples_per_label for row in rows):
        part = corpus if density is None else thinned(corpus, density)
        waiting = [row for row in rows if row.examples_per_label == density]  # together, so that they share stages
        while waiting:
            trained = each(part, [row.recipe for row in waiting], ks, checkpoint_dir, seeds)
            while waiting:
                if results and time.perf_counter() > deadline:
                    trained.close()  # type: ignore[attr-defined]
                    return results, failed
                row = waiting.pop(0)
                try:
                    results[row.key] = next(trained)
                except LongtailError as error:  # such as an encoder that cannot be downloaded; the others go on
                    note(f"{row.name} could not be trained: {error}")
                    failed[row.key] = str(error)
                    break
    if failed and not results:
        raise DataError(f"no row could be trained: {'; '.join(failed.values())}")
    return results, failed


def chosen_rows(tables: Sequence[PaperTable], patterns: Sequence[str]) -> list[PaperTable]:
    """Keep some rows of tables, and the controls of these rows.

    Args:
        tables: of a paper.
        patterns: names of rows, or patterns such as "parabel*"; none: all rows.

    Returns:
        The tables that have such rows, with these rows only.

    Raises:
        DataError: a pattern fits no row.
    """
    if not patterns:
        return list(tables)
    names = [row.name for table in tables for row in table.rows]
    for pattern in patterns:
        if not any(_fits(name, pattern) for name in names):
            known = ", ".join(dict.fromkeys(names))
            raise DataError(f"no row is called {pattern!r}{did_you_mean(pattern, names)} (rows: {known})")
    found = []
    for table in tables:
        kept = {row.name for row in table.rows if any(_fits(row.name, pattern) for pattern in patterns)}
        kept |= {row.control for row in table.rows if row.name in kept}
        if kept:
            found.append(replace(table, rows=tuple(row for row in table.rows if row.name in kept)))
    return found


def _fits(name: str, pattern: str) -> bool:
    return fnmatchcase(name.lower(), pattern.lower())


def check_tables(tables: Sequence[PaperTable], corpus: Corpus) -> dict[str, dict[str, str]]:
    """Refuse data that lacks what a table needs.

    Args:
        tables: that are to be run.
        corpus: the data.

    Returns:
        By table, the rows that cannot be trained on this data or machine, with the reason.

    Raises:
        DataError: names the table, and what the data lacks; or no row of a table can be trained.
    """
    refused: dict[str, dict[str, str]] = {}
    for table in tables:
        where = f"{table.paper} {table.name} needs"
        if "texts" in table.needs and corpus.train.texts is None:
            raise DataError(f"{where} the texts of documents, and {corpus.name} has only features; give other data")
        if "label texts" in table.needs and not corpus.labels.has_texts:
            raise DataError(f"{where} label texts, and {corpus.name} has none; give other data or another table")
        away = refused[table.name] = {}
        for row in table.ready:
            try:
                Recipe.parse(row.recipe).check(corpus.train)
            except LongtailError as error:
                away[row.name] = str(error)
        if len(away) == len(table.ready):
            reasons = "; ".join(f"row {name}: {reason}" for name, reason in away.items())
            raise DataError(f"{table.paper} {table.name} cannot be trained here: {reasons}")
    return refused
