"""Which tables there are, what they need, how long they take, and what is not implemented."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from longtail.data.corpus import Corpus
from longtail.errors import LongtailError
from longtail.plan import DataFacts
from longtail.recipe import Recipe
from longtail.reproduction.paper_tables import PaperTable, Publication
from longtail.reproduction.table_rows import TableRow


@dataclass(frozen=True)
class ListedTable:
    """A line of the list."""

    paper: str
    table: str
    title: str
    needs: tuple[str, ...]
    recipes: int  # that can be trained here
    missing: tuple[str, ...]  # rows that cannot, with the reason
    seconds: float | None  # by plan, for all seeds; None without data
    refused: str = ""  # why the table cannot be trained on the data


def listed(publications: Sequence[Publication], corpus: Corpus | None = None, seeds: int = 3) -> list[ListedTable]:
    """List tables.

    Args:
        publications: the papers.
        corpus: data to plan for.
        seeds: how often each recipe is trained.

    Returns:
        One line a table.
    """
    from longtail.reproduction.run import check_tables

    facts = None if corpus is None else DataFacts.of(corpus.train)
    found = []
    for paper in publications:
        for table in paper.tables:
            refused = ""
            if corpus is not None:
                try:
                    check_tables([table], corpus)
                except LongtailError as error:
                    refused = str(error)
            found.append(
                ListedTable(
                    paper=paper.name,
                    table=table.name,
                    title=table.title,
                    needs=table.needs,
                    recipes=len({row.key for row in table.ready}),
                    missing=tuple(f"{row.name}: {row.missing()}" for row in table.rows if row.missing()),
                    seconds=None if facts is None or refused else seconds_of_table(table, facts, seeds),
                    refused=refused,
                )
            )
    return found


def seconds_of_table(table: PaperTable, facts: DataFacts, seeds: int) -> float:
    """Plan a table. Stages that recipes share are counted once for each recipe, so training takes at most this long.

    Args:
        table: of a paper.
        facts: of the data.
        seeds: how often each recipe is trained.

    Returns:
        Seconds.
    """
    recipes = {row.key: row for row in table.ready}.values()
    return seeds * sum(_seconds(row, facts) for row in recipes)


def _seconds(row: TableRow, facts: DataFacts) -> float:
    """The planned time of a row. One that trains on a share of the data takes this share of the time."""
    density = facts.positives / max(facts.labels, 1)
    share = 1.0 if row.examples_per_label is None else min(row.examples_per_label / max(density, 1e-9), 1.0)
    return share * Recipe.parse(row.recipe).plan(facts).train_seconds
