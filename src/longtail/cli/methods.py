"""`longtail methods`: all learners and tail methods on one screen, a line about each, or all about one."""

from __future__ import annotations

import dataclasses
import textwrap
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from longtail.cli.shared import Json, console, print_json
from longtail.errors import RecipeError, did_you_mean

if TYPE_CHECKING:
    from rich.console import Console

    from longtail.method_help import PresetHelp

COMMON = ("parabel", "bonsai", "lexical", "ngame", "renee", "fuse", "gandalf", "lever", "ranknet", "rerank")
OTHERS = "of other packages"
WIDTH = 80  # columns of the lists
Every = Annotated[bool, typer.Option("--all", help="A line of what it does for each, not for the common ones alone.")]
Name = Annotated[str | None, typer.Argument(help="A learner or tail method to show with its settings, costs, papers.")]
SEAMS = {  # in the order in which they act
    "augment": "add examples or soft targets",
    "wrap": "train labels in parts",
    "teacher": "learn from another model",
    "label tower": "act on labels in an encoder",
    "head penalty": "act on classifiers in training",
    "rerank": "re-rank the candidates",
}


def methods(name: Name = None, every: Every = False, json: Json = False) -> None:
    """List learners and tail methods, or show one of them.

    Without a NAME: what the common ones do, and the names of all by what they are; with --all, what each does. With a
    NAME: its settings, costs, papers and an example.
    """
    from longtail.catalogue import LEARNERS, TAIL_METHODS

    learners, broken = _loaded(LEARNERS)
    tail, broken_tail = _loaded(TAIL_METHODS)
    broken |= broken_tail
    if name is not None:
        _one(name, learners, tail, broken, json)
    elif json:
        print_json(_everything(learners, tail))
    else:
        _list_all(learners, tail) if every else _overview(learners, tail)
        for reason in broken.values():
            console().print(f"not available: {reason}", soft_wrap=True)


def _loaded(parts: Any) -> tuple[dict[str, type[Any]], dict[str, str]]:
    """The parts that can be imported, and why others cannot."""
    found: dict[str, type[Any]] = {}
    broken: dict[str, str] = {}
    for name in parts:
        try:
            found[name] = parts.load(name)
        except RecipeError as error:
            broken[name] = str(error)
    return found, broken


def _overview(learners: dict[str, type[Any]], tail: dict[str, type[Any]]) -> None:
    """The common ones with what they do, and the names of all: together less than a screen."""
    from rich.text import Text

    screen = console()
    known = [(name, kinds[name], kinds is tail) for kinds in (learners, tail) for name in COMMON if name in kinds]
    _summaries(screen, "Common ones", [(f"{'+ ' * is_tail}{name}", kind) for name, kind, is_tail in known])
    for heading, groups in (("Learners", _grouped_learners(learners)), ("+ tail methods", _grouped_tail(tail))):
        screen.print(Text(heading, style="bold"))
        left = max(map(len, groups))
        for title, names in groups.items():
            lines = textwrap.wrap(" ".join(names), WIDTH - left - 4, break_long_words=False, break_on_hyphens=False)
            for place, line in enumerate(lines):
                screen.print(Text(f"  {'' if place else title:{left}}  {line}"))
    screen.print("What each does: longtail methods --all. About one: longtail methods NAME")
    screen.print('A recipe: "parabel + gandalf + ranknet"')


def _list_all(learners: dict[str, type[Any]], tail: dict[str, type[Any]]) -> None:
    screen = console()
    width = max(map(len, (*learners, *tail)))
    groups = [(f"Learners {title}", names, learners) for title, names in _grouped_learners(learners).items()]
    groups += [(f"+ tail methods that {title}", names, tail) for title, names in _grouped_tail(tail).items()]
    for title, names, kinds in groups:
        _summaries(screen, title, [(name, kinds[name]) for name in names], width)
    screen.print('A recipe: "parabel + gandalf + ranknet". About one part: longtail methods NAME')


def _summaries(screen: Console, title: str, parts: list[tuple[str, type[Any]]], width: int = 0) -> None:
    """A heading, and a line for each part: its name and what it does."""
    from rich.text import Text

    width = width or max(len(name) for name, _ in parts)
    screen.print(Text(title, style="bold"))
    for name, kind in parts:
        screen.print(Text(f"  {name:{width}}  {kind.summary}"), no_wrap=True, overflow="ellipsis")


def _grouped_learners(learners: dict[str, type[Any]]) -> dict[str, list[str]]:
    """Learner names by the settings they share. Those over words are the ones that ask which forms of words count."""
    from longtail.nn.dual.dual_settings import DualEncoderSettings
    from longtail.nn.label_tree.tree_settings import TreeNetSettings
    from longtail.nn.onevsall.onevsall_settings import OneVsAllSettings
    from longtail.nn.shallow.shallow_settings import ShallowSettings

    words, answers = "over words, no GPU", "over what others learned"
    bases: dict[type[Any], str] = {
        ShallowSettings: "that are shallow nets",
        DualEncoderSettings: "that are dual encoders",
        OneVsAllSettings: "with a classifier a label",
        TreeNetSettings: "over a label tree",
    }
    found: dict[str, list[str]] = {title: [] for title in (words, *bases.values(), answers, OTHERS)}
    for name, kind in learners.items():
        title = next((title for base, title in bases.items() if issubclass(kind, base)), None)
        if title is None and "words" in {field.name for field in dataclasses.fields(kind)}:
            title = words
        own = kind.__module__.startswith("longtail.")
        found[title or (answers if own else OTHERS)].append(name)
    return {title: names for title, names in found.items() if names}


def _grouped_tail(tail: dict[str, type[Any]]) -> dict[str, list[str]]:
    from longtail.seams import seams_of

    found: dict[str, list[str]] = {}
    for seam, title in SEAMS.items():
        names = [name for name, kind in tail.items() if seams_of(kind)[:1] == (seam,)]
        if names:
            found[title] = names
    return found


def _one(
    name: str, learners: dict[str, type[Any]], tail: dict[str, type[Any]], broken: dict[str, str], json: bool
) -> None:
    """A learner and a tail method may share a name; then both are shown."""
    from longtail.method_help import describe_method

    kinds = [found[name] for found in (learners, tail) if name in found]
    if not kinds:
        if name in broken:
            raise RecipeError(broken[name])
        known = [*learners, *tail]
        raise RecipeError(
            f"no learner or tail method is called '{name}'{did_you_mean(name, known)} (all of them: longtail methods)"
        )
    if json:
        print_json([dataclasses.asdict(describe_method(name, kind)) for kind in kinds])
        return
    for kind in kinds:
        _show(name, kind, learners, tail)


def _show(name: str, kind: type[Any], learners: dict[str, type[Any]], tail: dict[str, type[Any]]) -> None:
    from rich.table import Table
    from rich.text import Text

    from longtail.method_help import describe_method
    from longtail.seams import goes_on

    found = describe_method(name, kind)
    screen = console()

    def show(heading: str, text: str, **options: Any) -> None:
        screen.print(Text.assemble((heading, "bold"), f": {text}"), **options)

    show(f"{name}, a {'tail method' if found.seams else 'learner'}", found.summary)
    screen.print()
    screen.print(Text(found.what))
    screen.print()
    if found.seams:
        goes = [one for one, learner in learners.items() if goes_on(kind, learner)]
        show("Goes on", _goes_on(goes, learners))
    else:
        show("Takes", ", ".join(one for one, method in tail.items() if goes_on(method, kind)))
    for heading, text in found.sections.items():
        show(heading, text, soft_wrap=heading == "Example")
    for paper in found.papers:
        show("Paper", paper)
    if found.settings:
        table = Table(box=None, padding=(0, 1), pad_edge=False)
        for column in ("setting", "default", ""):
            table.add_column(column, overflow="fold")
        for setting in sorted(found.settings, key=lambda setting: not setting.own):
            table.add_row(Text(setting.name), Text(setting.default), Text(setting.meaning))
        screen.print()
        screen.print(table)
    for preset in found.presets:
        screen.print()
        rows, like = _beside_paper(preset, found.presets)
        beside = f", as {name}:{like}{' but' if rows else ''}" if like else ""
        screen.print(Text(f"{name}:{preset.name}{beside}", style="bold"))
        table = Table(box=None, padding=(0, 1), pad_edge=False)
        for column in ("sets", "to", "where the paper says so"):
            table.add_column(column, overflow="fold")
        for cells in rows:
            table.add_row(*map(Text, cells))
        if rows:
            screen.print(table)
        if preset.differs:
            show("Not as in the paper", preset.differs)


def _beside_paper(preset: PresetHelp, presets: tuple[PresetHelp, ...]) -> tuple[list[tuple[str, str, str]], str]:
    """What a preset sets, and the preset it is shown beside: one of a data set repeats most of `paper`."""
    paper = next((one for one in presets if one.name == "paper"), preset)
    known = {cells[:2] for cells in paper.settings}
    if paper is preset or not known & {cells[:2] for cells in preset.settings}:
        return list(preset.settings), ""
    own = {cells[0] for cells in preset.settings}
    rows = [cells for cells in preset.settings if cells[:2] not in known]
    return rows + [(cells[0], "its default", "") for cells in paper.settings if cells[0] not in own], "paper"


def _goes_on(some: list[str], learners: dict[str, type[Any]]) -> str:
    """These learners in as few words as they take."""
    others = [name for name in learners if name not in some]
    if not others:
        return "every learner"
    return ", ".join(some) if len(some) <= len(others) else f"every learner but {', '.join(others)}"


def _everything(learners: dict[str, type[Any]], tail: dict[str, type[Any]]) -> dict[str, Any]:
    """The catalogue as JSON, with the grid of what goes on what."""
    from longtail.seams import goes_on, seams_of

    return {
        "learners": {name: {**_facts(kind), "offers": sorted(kind.offers)} for name, kind in learners.items()},
        "tail_methods": {
            name: {**_facts(kind), "needs": sorted(kind.needs), "seams": list(seams_of(kind))}
            for name, kind in tail.items()
        },
        "grid": {
            name: {method: goes_on(part, learner) for method, part in tail.items()}
            for name, learner in learners.items()
        },
    }


def _facts(kind: type[Any]) -> dict[str, Any]:
    from longtail.grammar import Value, literal

    settings = {field.name: literal(cast(Value, field.default)) for field in dataclasses.fields(kind)}
    return {"summary": kind.summary, "settings": settings, "data_needs": sorted(kind.data_needs)}
