"""`longtail reproduce`: the papers' tables on your data, beside the published figures."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from longtail.cli.checkpoints import ComparisonDir, comparison_messages
from longtail.cli.shared import Source, console, progress, ready_to_write, say, versions
from longtail.errors import DataError, did_you_mean

if TYPE_CHECKING:
    from longtail.data.corpus import Corpus
    from longtail.reproduction import Publication, Reproduction


def reproduce(
    words: Annotated[
        list[str] | None,
        typer.Argument(metavar="PAPER [TABLE ...] DATA", help="Without them: list papers; DATA alone: with its times."),
    ] = None,
    seeds: Annotated[
        str, typer.Option(metavar="NUMBER", help="How often each recipe is trained, or which seeds.")
    ] = "3",
    within: Annotated[
        str | None, typer.Option(metavar="TIME", help="Start no further recipe after 90s, 10m or 2h.")
    ] = None,
    page: Annotated[Path | None, typer.Option(metavar="FILE", help="Markdown page to write.")] = None,
    rows: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help='Only these rows and their controls; a pattern such as "parabel*"; repeat.'),
    ] = None,
    encoder: Annotated[
        str | None, typer.Option(metavar="NAME", help="In place of every pretrained encoder that rows name.")
    ] = None,
    text: Annotated[str | None, typer.Option(metavar="FIELDS", help="title, text or title+text.")] = None,
    checkpoint_dir: ComparisonDir = None,
) -> None:
    """Train a paper's tables on your data, beside its figures.

    Every figure by seed also goes to a JSON file: beside the page, or reproduce-PAPER-DATA.json.
    """
    from longtail.comparison import read_seeds
    from longtail.reproduction import find_paper, papers, reproduce

    given, chosen = words or [], read_seeds(seeds)
    names = {name for one in papers() for name in (one.name, *one.names)}
    if not given:
        return _list(papers(), _source("wordnet", None).read(test=True), len(chosen))
    if given[0].lower() not in names and len(given) == 1 and _is_data(given[0]):
        return _list(papers(), _source(given[0], text).read(test=True), len(chosen))
    paper = find_paper(given[0])
    if len(given) == 1:
        return _list((paper,), _source("wordnet", None).read(test=True), len(chosen))
    *tables, data = given[1:]
    for name in tables:
        paper.table(name)
    if not _is_data(data):
        if data in {one.name for one in paper.tables}:
            raise DataError(f"give DATA after the table, such as: longtail reproduce {' '.join(given)} wordnet")
        raise DataError(f"no data set is called {data!r}{did_you_mean(data, _shipped())}; give a path, or wordnet")
    limit = None if within is None else _seconds(within)
    record = (page or Path(f"reproduce-{paper.name}-{Path(data).name}")).with_suffix(".json")
    for file in (record, *([] if page is None else [page])):
        ready_to_write(file)
    with comparison_messages(checkpoint_dir), progress():
        corpus = _source(data, text).read(test=True)
        _note_time_without_gpu(paper, tables, rows or [], corpus, len(chosen))
        found = reproduce(paper.name, corpus, tables, chosen, limit, checkpoint_dir, rows or [], encoder)
    _show(found)
    _write(found, record, page)


def _note_time_without_gpu(paper: Publication, tables: list[str], rows: list[str], corpus: Corpus, seeds: int) -> None:
    """Say how long tables made for a GPU take where there is none. They run all the same."""
    from longtail.plan import DataFacts, readable_seconds
    from longtail.reproduction.listing import seconds_of_table
    from longtail.reproduction.run import chosen_rows

    wanted = chosen_rows([paper.table(name) for name in tables] or list(paper.tables), rows)
    slow = [table for table in wanted if "GPU" in table.needs and table.ready]
    if slow and not Path("/dev/nvidia0").exists():
        facts = DataFacts.of(corpus.train)
        seconds = sum(seconds_of_table(table, facts, seeds) for table in slow)
        say(
            f"no GPU here: {paper.name} {', '.join(table.name for table in slow)} takes up to "
            f"{readable_seconds(seconds)} by plan; --rows takes part of it, --within ends it"
        )


def _show(found: Reproduction) -> None:
    from rich import box
    from rich.table import Table

    from longtail.reproduction.outcome import cells, published_cells
    from longtail.reproduction.page import remarks

    screen = console()
    for outcome in found.outcomes:
        paper = outcome.table
        table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, title_justify="left")
        table.title = f"{found.paper}, {paper.heading.lower()}: {paper.title}"
        table.add_column("data", overflow="fold")
        table.add_column("row", overflow="fold")
        for column in paper.columns:
            table.add_column(column, justify="right", overflow="fold")
        for row in paper.rows:
            if outcome.result(row) is not None:
                table.add_row(found.data, row.name, *cells(outcome, row))
        for name in dict.fromkeys(name for row in paper.rows for name in published_cells(paper, row)):
            table.add_section()
            for row in paper.rows:
                texts = published_cells(paper, row).get(name)
                if texts is not None:
                    table.add_row(name, row.name, *texts)
        screen.print(table)
        for line in remarks(outcome):
            screen.print(line, soft_wrap=True)
    screen.print(found.sentence(), soft_wrap=True)


def _write(found: Reproduction, record: Path, page: Path | None) -> None:
    import json

    from longtail.atomic import new_file
    from longtail.reproduction.page import markdown

    command, used = shlex.join(["longtail", *sys.argv[1:]]), versions()
    with new_file(record) as file:
        json.dump(found.as_json(command, used), file, ensure_ascii=False, indent=1, allow_nan=False)
    say(f"figures: {record}")
    if page is not None:
        with new_file(page) as file:
            file.write(markdown(found, command, used, record.name))
        say(f"page: {page}")


def _list(found: tuple[Publication, ...], corpus: Corpus, seeds: int) -> None:
    from rich import box
    from rich.table import Table

    from longtail.plan import readable_seconds
    from longtail.reproduction.listing import listed

    lines = listed(found, corpus, seeds)
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    for column in ("paper", "table", "title", "needs", "recipes", f"time by plan, {corpus.name}"):
        table.add_column(column, overflow="fold")
    for one in lines:
        time = "" if one.seconds is None else readable_seconds(one.seconds)
        needs = ", ".join(one.needs) or "-"
        table.add_row(one.paper, one.table, one.title, needs, str(one.recipes), time or one.refused)
    screen = console()
    screen.print(table)
    for one in lines:
        for row in one.missing:
            screen.print(f"{one.paper} {one.table} cannot train {row}", soft_wrap=True)
    for paper in found:
        for line in paper.not_implemented:
            screen.print(f"{paper.name}, not implemented: {line}", soft_wrap=True)


def _source(data: str, text: str | None) -> Source:
    from longtail.data.corpus_facts import check_text_field
    from longtail.data.read import Columns

    if text is not None:
        check_text_field(text)
    return Source(data, Columns(), text, None, None, 0)


def _is_data(word: str) -> bool:
    return word in _shipped() or Path(word).exists()


def _shipped() -> tuple[str, ...]:
    from longtail.data.read import SHIPPED

    return tuple(SHIPPED)


def _seconds(written: str) -> float:
    from longtail.cli.tune import seconds_of

    return seconds_of(written)
