"""The words of a model card, in Markdown."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from longtail import __version__
from longtail.catalogue import learner_class, tail_class
from longtail.data.labels import LabelSet
from longtail.grammar import parse
from longtail.metrics.frequency import BANDS, TAIL_ROWS, bands, pos80
from longtail.metrics.measures import Measures
from longtail.model import Model
from longtail.papers import bibtex
from longtail.report import words
from longtail.report.card_encoder import encoders
from longtail.report.zipf import band_sizes
from longtail.seams import TakesLabels

SHOWN = ("P", "nDCG", "PSP", "R", "C", "ECE")
HEADER = """---
library_name: longtail
pipeline_tag: text-classification
tags: [longtail, extreme-classification, multi-label]
---
"""


@dataclass(frozen=True)
class Facts:
    """What training and evaluation know and the model itself does not."""

    data: str | None = None  # name of the data set
    train_rows: int | None = None
    valid_rows: int | None = None
    train_seconds: float | None = None
    peak_bytes: int | None = None
    command: str | None = None
    measured: dict[str, Measures] = field(default_factory=dict)  # by split


def shown_split(measured: Mapping[str, Measures]) -> str | None:
    """The split whose figures say most about new rows."""
    return next((split for split in ("test", "valid", "train") if split in measured), None)


def card_text(model: Model, facts: Facts, picture: str) -> str:
    parts = [
        HEADER + f"# {_code(model.recipe)}",
        _opening(model, facts),
        f"![Training rows of each label, and recall by label frequency]({picture})",
        "## Recipe",
        _recipe(model),
        "## Data",
        _data(model.labels, facts, model.text_field),
        "## How good it is",
        _measures(facts),
        "## What it cost",
        _cost(facts),
        "## How to load it",
        _load(model.text_field),
        "## Limits",
        _limits(model, facts),
        "## Cite",
        _cite(model),
    ]
    return "\n\n".join(parts) + "\n"


def _opening(model: Model, facts: Facts) -> str:
    of = f" of {_safe(facts.data)}" if facts.data else ""
    return f"A model of longtail {__version__} that finds the right few of {words.count(len(model.labels))} labels{of}."


def _recipe(model: Model) -> str:
    learner, *tail = parse(model.recipe)
    rows = [("part", "what it does"), ("---", "---")]
    rows.append((_code(str(learner)), learner_class(learner.name).summary))
    rows += [(_code(f"+ {part}"), tail_class(part.name).summary) for part in tail]
    return "\n\n".join([_table(rows), *dict.fromkeys(one.words for one in encoders(model.recipe, model.scorer))])


def _data(labels: LabelSet, facts: Facts, text_field: str) -> str:
    sizes, band = band_sizes(labels), bands(labels)
    positives = int(labels.counts.sum())
    lines = [
        ("fact", "value"),
        ("---", "---:"),
        ("data set", _safe(facts.data) if facts.data else "not recorded"),
        ("training rows that the labels were counted on", words.count(labels.train_rows)),
    ]
    if facts.train_rows is not None:
        lines.append(("rows trained on", words.count(facts.train_rows)))
    if facts.valid_rows is not None:
        lines.append(("rows held out as valid", words.count(facts.valid_rows)))
    lines += [
        ("labels", words.count(len(labels))),
        ("labels a row", f"{positives / max(labels.train_rows, 1):.2f}"),
        ("rows a label", f"{positives / max(len(labels), 1):.2f}"),
        ("labels that hold 80% of the positives", f"{pos80(labels):.1f}%"),
        ("propensity", str(labels.propensity)),
        ("text of a row", _code(text_field)),
    ]
    table = [("band", "labels", "of labels", "of training positives"), ("---", "---:", "---:", "---:")]
    for number, name in enumerate(BANDS):
        held = int(labels.counts[band == number].sum())
        size = int(sizes[number])
        table.append((name, words.count(size), words.share(size, len(labels)), words.share(held, positives)))
    return _table(lines) + "\n\n" + _table(table)


def _measures(facts: Facts) -> str:
    split = shown_split(facts.measured)
    if split is None:
        return "Not measured. `longtail evaluate MODEL DATA --card` measures it and writes the figures here."
    measures = facts.measured[split]
    ks = sorted({int(name.partition("@")[2]) for name in measures.values})
    table = [("measure", *(f"@{k}" for k in ks)), ("---", *("---:" for _ in ks))]
    table += [
        (name, *(words.percent(measures.values.get(f"{name}@{k}")) for k in ks))
        for name in SHOWN
        if f"{name}@{ks[0]}" in measures.values
    ]
    by_bin = [("training rows of the label", "labels", "points of P", "recall", "labels found"), ("---:",) * 5]
    for one in measures.bins:
        span = words.count(one.low) if one.low == one.high else f"{words.count(one.low)}–{words.count(one.high)}"
        recall, coverage = (one.recall, one.coverage) if one.positives else (None, None)  # nothing there to be found
        found = (words.percent(one.contribution), words.percent(recall), words.percent(coverage))
        by_bin.append((span, words.count(one.labels), *found))
    rows = f"{words.count(measures.rows)} rows of the {split} split"
    on = f"Percent of {rows}; PSP with {measures.propensity}; C: labels hit at least once, of those of these rows"
    warning = {
        "valid": " The recipe may have chosen or calibrated on these rows, so new rows may give less.",
        "train": " The model has learned from these rows: the figures say nothing about new ones.",
    }
    by = f"By label frequency, at {measures.bins_at}: groups hold equal shares of the training positives."
    return "\n\n".join([on + "." + warning.get(split, ""), _table(table), by, _table(by_bin)])


def _cost(facts: Facts) -> str:
    if facts.train_seconds is None:
        return "Not recorded."
    peak = "" if facts.peak_bytes is None else f", at most {words.size(facts.peak_bytes)} of memory"
    said = f"{words.seconds(facts.train_seconds)} to train{peak}."
    return said + (f"\n\n```\n{_safe_line(facts.command)}\n```" if facts.command else "")


def _load(text_field: str) -> str:
    given = '["a text", "another"]'
    note = f"A text is what {_code(text_field)} of a row gave in training, joined by a space."
    python = (
        "```python\nimport longtail\n\n"
        'model = longtail.load_model("path/of/this/folder")\n'
        f"for answers in model.predict({given}, k=5):\n"
        "    print([(answer.text, answer.score) for answer in answers])\n```"
    )
    return f"{python}\n\n```\nlongtail predict path/of/this/folder texts.txt -k 5\n```\n\n{note}"


def _limits(model: Model, facts: Facts) -> str:
    labels = model.labels
    rare, unseen = (int(band_sizes(labels)[BANDS.index(name)]) for name in ("tail", "unseen"))
    reads = "label_texts" in learner_class(parse(model.recipe)[0].name).data_needs
    joins = isinstance(model.scorer, TakesLabels) and not model.rerankers
    items = [
        "It knows the labels of `labels.jsonl` and no others"
        + ("; `model.with_labels([...])` adds some by their texts." if joins else "; new ones need a new training."),
        f"{words.share(rare, len(labels))} of the labels have {TAIL_ROWS} training rows or fewer. See the table by "
        "label frequency before trusting it on them.",
    ]
    if unseen:
        how = "are found by their texts alone" if reads else "cannot be found: the recipe does not read label texts"
        items.append(f"{words.count(unseen)} labels have no training row and {how}.")
    items.append(_about_scores(model.recipe, facts))
    items.append(
        "It was measured on rows like those it was trained on. Other kinds of text, and other languages, were not."
    )
    return "\n".join(f"- {item}" for item in items)


def _about_scores(recipe: str, facts: Facts) -> str:
    split = shown_split(facts.measured)
    if split is None:
        return "Whether its scores are chances was not measured."
    calibrated = any(part.name == "calibrate" for part in parse(recipe)[1:])
    values = facts.measured[split].values
    errors = {int(name.partition("@")[2]): value for name, value in values.items() if name.startswith("ECE@")}
    if not errors:
        return "Its scores rank labels and are no chances" + (
            "." if calibrated else "; `+ calibrate` makes chances of them."
        )
    k = max(errors)
    said = f"Its scores are off by {errors[k]:.1f} points as chances (ECE@{k} on {split})"
    return said + (", with `calibrate`." if calibrated else "; `+ calibrate` lowers that.")


def _cite(model: Model) -> str:
    auto = next((one.name for one in encoders(model.recipe, model.scorer) if one.found), None)
    entries = bibtex(model.recipe, auto)
    if not entries:
        return "No paper is known for this recipe."
    return "Exactly the papers behind this recipe:\n\n```bibtex\n" + "\n\n".join(entries) + "\n```"


def _table(rows: Sequence[tuple[str, ...]]) -> str:
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows)


def _safe(text: str) -> str:
    """A name from outside as plain words: no markup, one line."""
    return re.sub(r"([\\`*_{}\[\]<>#!])", r"\\\1", _safe_line(text))


def _code(text: str) -> str:
    return "`" + _safe_line(text).replace("`", "'") + "`"


def _safe_line(text: str) -> str:
    return " ".join(words.clean(text).replace("```", "'''").split())
