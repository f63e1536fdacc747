"""`longtail methods`: the catalogue, and which tail method goes on which learner."""

from __future__ import annotations

import dataclasses
from typing import Any, cast

from longtail.cli.shared import Json, console, print_json


def methods(json: Json = False) -> None:
    """List learners, tail methods, and what goes together."""
    from longtail.catalogue import LEARNERS, TAIL_METHODS, learner_class, tail_class
    from longtail.seams import seams_of

    learners = {name: learner_class(name) for name in LEARNERS}
    tail = {name: tail_class(name) for name in TAIL_METHODS}
    if json:
        print_json(
            {
                "learners": {name: {**_facts(kind), "offers": sorted(kind.offers)} for name, kind in learners.items()},
                "tail_methods": {
                    name: {**_facts(kind), "needs": sorted(kind.needs), "seams": list(seams_of(kind))}
                    for name, kind in tail.items()
                },
                "grid": {
                    name: {method: part.needs <= learner.offers for method, part in tail.items()}
                    for name, learner in learners.items()
                },
            }
        )
        return
    from rich.table import Table

    from longtail.grammar import Value, literal
    from longtail.linear.reading import Reading

    screen = console()
    shared = {field.name: literal(cast(Value, field.default)) for field in dataclasses.fields(Reading)}
    for title, kinds in (("Learners", learners), ("Tail methods", tail)):
        table = Table(title=title, title_justify="left")
        for column in ("name", "what it does", "settings", "needs of the data"):
            table.add_column(column)
        for name, kind in kinds.items():
            facts = _facts(kind)
            common = shared if issubclass(kind, Reading) else {}
            settings = ", ".join(f"{key}={value}" for key, value in facts["settings"].items() if key not in common)
            table.add_row(name, facts["summary"], settings, ", ".join(facts["data_needs"]).replace("_", " "))
        screen.print(table)
        if kinds is learners:
            readers = [name for name, kind in learners.items() if issubclass(kind, Reading)]
            settings = ", ".join(f"{key}={value}" for key, value in shared.items())
            screen.print(f"How rows are read, in {', '.join(readers)}: {settings}\n")
    grid = Table(title="Which tail method goes on which learner", title_justify="left")
    for column in ("", *tail):
        grid.add_column(column, justify="left" if not column else "center")
    for name, learner in learners.items():
        grid.add_row(name, *("yes" if part.needs <= learner.offers else "no" for part in tail.values()))
    screen.print(grid)


def _facts(kind: type[Any]) -> dict[str, Any]:
    from longtail.grammar import Value, literal

    return {
        "summary": kind.summary,
        "settings": {field.name: literal(cast(Value, field.default)) for field in dataclasses.fields(kind)},
        "data_needs": sorted(kind.data_needs),
    }
