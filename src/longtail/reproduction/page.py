"""A reproduction as a Markdown page."""

from __future__ import annotations

from longtail.drawing import words
from longtail.errors import counted
from longtail.reproduction.outcome import Reproduction, TableOutcome, cells, published_cells


def markdown(found: Reproduction, command: str, versions: dict[str, str], json_file: str) -> str:
    """Write the page.

    Args:
        found: what came out.
        command: the command line that printed it.
        versions: of longtail and libraries.
        json_file: the name of the file with every figure.

    Returns:
        Markdown.
    """
    facts = found.facts
    propensity = facts["propensity"]
    lines = [
        f"# {found.paper} on {found.data}",
        "",
        f"    {command}",
        "",
        f"{counted(facts['train_rows'], 'training document')}, {counted(facts['test_rows'], 'test document')}, "
        f"{counted(facts['labels'], 'label')}; A = {propensity['a']:g}, B = {propensity['b']:g}. "
        f"Seeds {', '.join(map(str, found.seeds))}; {words.seconds(found.seconds)}. "
        f"{', '.join(f'{name} {one}' for name, one in versions.items())}.",
        "",
        "Percent, mean ± standard deviation over seeds; in parentheses the effect against the row's control. Below our "
        f"rows stand the published figures on the paper's data sets. Every figure by seed: `{json_file}`.",
    ]
    for outcome in found.outcomes:
        lines += ["", *_table(outcome)]
    lines += ["", "## Verdict", "", found.sentence()]
    return "\n".join(lines) + "\n"


def _table(outcome: TableOutcome) -> list[str]:
    table, data = outcome.table, "here"
    lines = [
        f"## {table.heading}: {table.title}",
        "",
        "| data | row | " + " | ".join(table.columns) + " |",
        "| --- | --- |" + " ---: |" * len(table.columns),
    ]
    trained = [row for row in table.rows if outcome.result(row) is not None]
    lines += [f"| {data} | {row.name} | " + " | ".join(cells(outcome, row)) + " |" for row in trained]
    for name in dict.fromkeys(name for row in table.rows for name in published_cells(table, row)):
        for row in table.rows:
            texts = published_cells(table, row).get(name)
            if texts is not None:
                lines.append(f"| {name} | {row.name} | " + " | ".join(texts) + " |")
    lines.append("")
    for row in table.rows:
        if row.recipe:
            control = f", against {row.control}" if row.control else ""
            part = "" if row.examples_per_label is None else f", {row.examples_per_label:g} examples a label"
            lines.append(f"- {row.name}: `{row.recipe}`{part}{control}")
    lines += [f"- {line}" for line in remarks(outcome)]
    return lines


def remarks(outcome: TableOutcome) -> list[str]:
    """What a reader should know about a table, and how it came out.

    Args:
        outcome: of the table.

    Returns:
        Sentences.
    """
    table = outcome.table
    missing = [f"Not trained: {row.name} ({row.missing()})." for row in table.rows if row.missing()]
    missing += [f"Not trained: {one}." for one in outcome.refused]
    left = [f"Left out, because the time was out: {', '.join(outcome.left)}."] if outcome.left else []
    once = [
        f"{row.name} was trained once: no part of it draws random numbers."
        for row in table.rows
        if (one := outcome.result(row)) is not None and any(note.startswith("trained once") for note in one.notes)
    ]
    return [*table.notes, *missing, *left, *once, *filter(None, map(outcome.sentence, table.rows))]
