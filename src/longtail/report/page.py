"""The report: one self-contained HTML file that loads nothing from the network.

A page under 2 MB that needs no network rules out plotting libraries, so the charts are SVG of our own. The examples are
JSON in the page, escaped, and a content security policy keeps everything else out.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from importlib import resources
from pathlib import Path

from longtail.atomic import new_file
from longtail.data.corpus import Corpus
from longtail.drawing.markup import Safe, tag
from longtail.errors import DataError, counted
from longtail.report import never_found, sections
from longtail.report.calibration_chart import calibration_section
from longtail.report.dial_chart import dial_section
from longtail.report.example_documents import payload
from longtail.report.findings import Findings, find
from longtail.report.headline import headline
from longtail.report.how_to_repeat import data_facts, definitions, repeat
from longtail.report.norms_chart import norms_section
from longtail.report.result import Result
from longtail.report.result_table import table_section
from longtail.report.teachers import teachers_section
from longtail.report.versus import versus_section

MAX_BYTES = 1_950_000  # a little under 2 MB
_ICON = (
    "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'%3E"
    "%3Cpath d='M2 1C3 10 7 13 15 14' fill='none' stroke='%230072b2' stroke-width='2.5'/%3E%3C/svg%3E"
)
_PARTS = (
    ("table", "Results"),
    ("bins", "Head and tail"),
    ("norms", "Classifier norms"),
    ("tradeoff", "Trade-off"),
    ("dial", "Dial"),
    ("teachers", "Teachers"),
    ("calibration", "Calibration"),
    ("cost", "Cost"),
    ("versus", "Won and lost"),
    ("never", "Never predicted"),
    ("examples", "Examples"),
    ("data", "Data"),
    ("repeat", "Repeat it"),
)


def render(
    results: Sequence[Result],
    corpus: Corpus,
    *,
    command: str,
    versions: dict[str, str],
    warnings: Sequence[str] = (),
) -> str:
    """Writes the whole page. Examples are left out until it is smaller than 2 MB.

    Args:
        results: a result per recipe; the others are compared with the first.
        corpus: the data that they were measured on.
        command: the command line that repeats the comparison.
        versions: version by name, of longtail, of libraries and of the machine.
        warnings: about the data.

    Returns:
        HTML.

    Raises:
        DataError: no results, or predictions for other data.
    """
    _check(results, corpus)
    findings = find(results, corpus)
    parts = {
        "table": table_section(results),
        "bins": sections.bins_section(results),
        "norms": norms_section(results),
        "tradeoff": sections.tradeoff_section(results) if len(results) > 1 else None,
        "dial": dial_section(results),
        "teachers": teachers_section(results),
        "calibration": calibration_section(results, corpus),
        "cost": sections.cost_section(results),
        "versus": versus_section(results, corpus, findings),
        "never": never_found.never_section(results, corpus, findings),
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
    shell = _page(results, corpus, findings, parts, warnings)
    room = MAX_BYTES - len(shell.encode("utf-8"))
    return shell.replace(_HOLE, payload(results, corpus, findings, room), 1)


def write(path: str | Path, html: str) -> None:
    """Writes a page under a temporary name first, so that nobody opens half a page.

    Args:
        path: the file to write.
        html: the page.

    Raises:
        DataError: the file cannot be written.
    """
    target = Path(path)
    try:
        with new_file(target) as file:
            file.write(html)
    except OSError as error:
        raise DataError(
            f"the report cannot be written here ({error.strerror or error}); give another path", target
        ) from error


_HOLE = "<examples>"  # replaced once the size of the rest is known; escaped text never has a bare "<"


def _check(results: Sequence[Result], corpus: Corpus) -> None:
    if not results:
        raise DataError("a report needs the result of at least one recipe, got none")
    for result in results:
        if len(result.predictions) != len(corpus.test):
            raise DataError(
                f"{result.recipe!r} has predictions for {len(result.predictions)} documents, "
                f"but the test split of {corpus.name} has {len(corpus.test)}: predict the whole test split"
            )
        if len(result.predictions.labels) != len(corpus.labels):
            raise DataError(
                f"{result.recipe!r} predicts {len(result.predictions.labels)} labels, "
                f"but {corpus.name} has {len(corpus.labels)}: train it on this data"
            )


def _page(
    results: Sequence[Result],
    corpus: Corpus,
    findings: Findings,
    parts: dict[str, Safe | None],
    warnings: Sequence[str],
) -> str:
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
        tag("p", headline(results, findings), class_="takeaway"),
        tag(
            "p",
            f"{counted(len(corpus.train), 'training example')}, {counted(len(corpus.test), 'test example')}, "
            f"{counted(len(corpus.labels), 'label')}",
            class_="under",
        ),
        tag("ul", *(tag("li", warning) for warning in warnings), class_="warnings") if warnings else None,
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
    """The empty section on examples; the page's script fills it from the JSON."""
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
            "Documents of the test split with their true labels and each recipe's top 5. ",
            tag("span", "✓", class_="hit-key"),
            " marks a hit; beside each label stands its frequency band.",
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
    """Allows this page's own scripts and no downloads, so that markup in a text could do nothing."""
    digests = (hashlib.sha256(script.encode("utf-8")).digest() for script in scripts)
    allowed = " ".join(f"'sha256-{base64.b64encode(digest).decode('ascii')}'" for digest in digests)
    return (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )


def _asset(name: str) -> str:
    return resources.files("longtail.report").joinpath("assets", name).read_text(encoding="utf-8")
