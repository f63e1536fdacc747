"""`longtail methods`: the catalogue, and which tail method goes on which learner."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Sequence
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

    from longtail.linear.reading import Reading
    from longtail.nn.heads.settings import OvaSettings
    from longtail.nn.settings import TowerSettings

    screen = console()
    # Settings that many learners share are told once, under the table.
    bases: dict[type[Any], str] = {Reading: "How rows are read", TowerSettings: "How encoders are trained"}
    bases |= {OvaSettings: "How classifiers over all labels are trained"}
    shared = {base: _settings(base) for base in bases}
    for title, kinds in (("Learners", learners), ("Tail methods", tail)):
        table = Table(title=title, title_justify="left")
        for column in ("name", "what it does", "settings", "needs of the data"):
            table.add_column(column, overflow="fold")
        for name, kind in kinds.items():
            facts = _facts(kind)
            common = {key: value for base in bases if issubclass(kind, base) for key, value in shared[base].items()}
            own = {key: value for key, value in facts["settings"].items() if common.get(key) != value}
            settings = ", ".join(f"{key}={value}" for key, value in own.items())
            table.add_row(name, facts["summary"], settings, ", ".join(facts["data_needs"]).replace("_", " "))
        screen.print(table)
        if kinds is learners:
            for base, words in bases.items():
                names = [name for name, kind in learners.items() if issubclass(kind, base)]
                settings = ", ".join(f"{key}={value}" for key, value in shared[base].items())
                screen.print(f"{words}, in {', '.join(names)}: {settings}\n")
    grid = Table(title="Which tail method goes on which learner", title_justify="left")
    for column in ("tail method", "goes on"):
        grid.add_column(column, overflow="fold")
    for name, part in tail.items():
        grid.add_row(name, _goes_on([one for one, kind in learners.items() if part.needs <= kind.offers], learners))
    screen.print(grid)


def _goes_on(some: Sequence[str], learners: Collection[str]) -> str:
    """These learners in as few words as they take."""
    others = [name for name in learners if name not in some]
    if not others:
        return "every learner"
    return ", ".join(some) if len(some) <= len(others) else f"every learner but {', '.join(others)}"


def _facts(kind: type[Any]) -> dict[str, Any]:
    return {"summary": kind.summary, "settings": _settings(kind), "data_needs": sorted(kind.data_needs)}


def _settings(kind: type[Any]) -> dict[str, str]:
    from longtail.grammar import Value, literal

    return {field.name: literal(cast(Value, field.default)) for field in dataclasses.fields(kind)}
