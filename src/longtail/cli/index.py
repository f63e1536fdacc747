"""`longtail index`: loads label vectors into a PostgreSQL database."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from longtail.cli.shared import progress
from longtail.errors import counted

Database = Annotated[
    str, typer.Option("--database", metavar="ADDRESS", help="postgresql://user@host/name; passwords: see PGPASSFILE.")
]


def index(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="Model folder that train wrote.")],
    database: Database,
    table: Annotated[str, typer.Option(metavar="NAME", help="Table to write; one that index wrote is replaced.")] = (
        "longtail_labels"
    ),
    exact: Annotated[bool, typer.Option("--exact", help="Never build an approximate index.")] = False,
) -> None:
    """Load label vectors into PostgreSQL with pgvector.

    `longtail predict MODEL --database ADDRESS` then searches there. With 50,000 labels or more the table gets an HNSW
    index, whose answers are approximate. The model needs an encoder and a vector for each label.
    """
    from longtail.export.database import index as load_into
    from longtail.search.database import VectorTable
    from longtail.store import load

    place = VectorTable(database, table)
    with progress():
        loaded = load(model)
        indexed = load_into(loaded, place, indexed=False if exact else None)
    how = "an HNSW index" if indexed else "exact search"
    typer.echo(f"{counted(len(loaded.labels), 'label vector')} in the table {table}, with {how}")
