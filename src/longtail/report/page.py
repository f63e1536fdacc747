"""The report: one self-contained HTML file that asks nothing of the network."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from importlib import resources
from pathlib import Path

from longtail.atomic import new_file
from longtail.data.corpus import Corpus
from longtail.errors import DataError
from longtail.report import sections, words
from longtail.report.chances import chances_section
from longtail.report.examples import payload
from longtail.report.facts import data_facts, definitions, repeat
from longtail.report.findings import Findings, find, takeaway
from longtail.report.markup import Safe, tag
from longtail.report.norms import norms_section
from longtail.report.result import Result
from longtail.report.teachers import teachers_section

MOST_BYTES = 1_950_000  # under 2 MB with something to spare
_ICON = (
    "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'%3E"
    "%3Cpath d='M2 1C3 10 7 13 15 14' fill='none' stroke='%230072b2' stroke-width='2.5'/%3E%3C/svg%3E"
)
_PARTS = (
    ("table", "Results"),
    ("bins", "Head and tail"),
    ("norms", "Classifier rows"),
    ("tradeoff", "Trade-off"),
    ("teachers", "Teachers"),
    ("chances", "Chances"),
    ("cost", "Cost"),
    ("never", "Never predicted"),
    ("examples", "Examples"),
    ("data", "Data"),
    ("repeat", "Repeat it"),
)


def render(results: Sequence[Result], corpus: Corpus, *, command: str, versions: dict[str, str]) -> str:
    """The whole page. Examples are left out until it stays under 2 MB."""
    _check(results, corpus)
    findings = find(results, corpus)
    parts = {
        "table": sections.table_section(results),
        "bins": sections.bins_section(results),
        "norms": norms_section(results),
        "tradeoff": sections.tradeoff_section(results) if len(results) > 1 else None,
        "teachers": teachers_section(results, corpus),
        "chances": chances_section(results, corpus),
        "cost": sections.cost_section(results),
        "never": sections.never_section(results, corpus, findings),
        "examples": _examples_section(len(results)),
        "data": sections.section("data", "The data", data_facts(corpus, findings)),
        "repeat": sections.section(
            "repeat",
            "Repeat it",
            repeat(command, versions),
            tag("h3", "What the words mean"),
            definitions(corpus),
        ),
    }
    shell = _page(results, corpus, findings, parts)
    room = MOST_BYTES - len(shell.encode("utf-8"))
    return shell.replace(_HOLE, payload(results, corpus, findings, room), 1)


def write(path: str | Path, html: str) -> None:
    """Under a temporary name first, so that a reader never sees half a page."""
    target = Path(path)
    try:
        with new_file(target) as file:
            file.write(html)
    except OSError as error:
        raise DataError(
            f"the report cannot be written here ({error.strerror or error}); give another path", target
        ) from error


_HOLE = "<examples>"  # filled once all else has its size; no user's text can hold a bare "<"


def _check(results: Sequence[Result], corpus: Corpus) -> None:
    if not results:
        raise DataError("a report needs the result of at least one recipe, got none")
    for result in results:
        if len(result.predictions) != len(corpus.test):
            raise DataError(
                f"{result.recipe!r} has predictions for {len(result.predictions)} rows, "
                f"but the test split of {corpus.name} has {len(corpus.test)}: predict the whole test split"
            )
        if len(result.predictions.labels) != len(corpus.labels):
            raise DataError(
                f"{result.recipe!r} predicts {len(result.predictions.labels)} labels, "
                f"but {corpus.name} has {len(corpus.labels)}: train it on this data"
            )


def _page(results: Sequence[Result], corpus: Corpus, findings: Findings, parts: dict[str, Safe | None]) -> str:
    number = len(results)
    title = f"{corpus.name}: {number} recipes compared" if number > 1 else f"{corpus.name}: one recipe"
    theme, script = _asset("theme.js"), _asset("report.js")
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=_policy(theme, script)),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("title", f"{title} · longtail"),
        tag("link", rel="icon", href=_ICON),
        tag("style", Safe(_asset("report.css"))),
        tag("script", Safe(theme)),
    )
    links = (tag("a", name, href=f"#{part}") for part, name in _PARTS if parts[part] is not None)
    header = tag(
        "header",
        tag(
            "div",
            tag("span", "longtail report", class_="brand"),
            tag("button", "Dark", type="button", id="theme", aria_label="Switch to the dark theme"),
            class_="bar-top",
        ),
        tag("h1", tag("bdi", corpus.name), f": {number} recipes compared" if number > 1 else ": one recipe"),
        tag("p", takeaway(results, findings), class_="takeaway"),
        tag(
            "p",
            f"{words.count(len(corpus.test))} test rows, {words.count(len(corpus.labels))} labels, "
            f"trained on {words.count(len(corpus.train))} rows",
            class_="under",
        ),
        tag("nav", *links, aria_label="Sections"),
    )
    body = tag(
        "body",
        tag("a", "Skip to the results", href="#table", class_="skip"),
        header,
        tag("main", *parts.values()),
        tag("div", id="tip", role="tooltip", hidden=True),
        tag("script", Safe(_HOLE), type="application/json", id="examples-data"),
        tag("script", Safe(script)),
    )
    return f"<!doctype html>\n{tag('html', head, body, lang='en')}\n"


def _examples_section(recipes: int) -> Safe:
    """The frame of the browser of examples; the script fills it from the JSON."""
    choices = [("all", "All")]
    if recipes > 1:
        choices.append(("differ", "Recipes differ"))
    choices.append(("tail", "Tail hits"))
    filters = (
        tag(
            "label",
            tag("input", type="radio", name="filter", value=value, checked=value == "all"),
            tag("span", name),
        )
        for value, name in choices
    )
    return sections.section(
        "examples",
        "Examples",
        tag(
            "p",
            "Rows of the test split with what is true and each recipe's top 5. ",
            tag("span", "✓", class_="hit-key"),
            " marks a hit; each label carries its band, by how many training rows it has.",
            class_="lead",
        ),
        tag(
            "form",
            tag(
                "label",
                tag("span", "Search", class_="unseen-text"),
                tag(
                    "input",
                    type="search",
                    id="search",
                    placeholder="Search texts and labels",
                    autocomplete="off",
                    spellcheck="false",
                ),
                class_="search",
            ),
            tag("fieldset", tag("legend", "Show", class_="unseen-text"), *filters, class_="filters"),
            id="controls",
            role="search",
        ),
        tag("p", id="found", class_="note", role="status", aria_live="polite"),
        tag("div", id="cards"),
        tag("button", "Show more", type="button", id="more", hidden=True),
        tag("noscript", tag("p", "The examples need JavaScript; everything else on this page does not.")),
    )


def _policy(*scripts: str) -> str:
    """Nothing is fetched and only this page's own scripts run, whatever a text may smuggle in."""
    digests = (hashlib.sha256(script.encode("utf-8")).digest() for script in scripts)
    allowed = " ".join(f"'sha256-{base64.b64encode(digest).decode('ascii')}'" for digest in digests)
    return (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )


def _asset(name: str) -> str:
    return resources.files("longtail.report").joinpath("assets", name).read_text(encoding="utf-8")
