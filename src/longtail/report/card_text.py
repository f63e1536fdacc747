"""The words of a model card, in Markdown."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from longtail.catalogue import learner_class, preset_of, tail_class
from longtail.citations import papers_of
from longtail.data.labels import LabelSet
from longtail.drawing import words
from longtail.errors import counted
from longtail.grammar import Setting, parse
from longtail.metrics.frequency import BANDS, TAIL_ROWS, bands, pos80
from longtail.metrics.measures import Measures
from longtail.model_files import FittedModel
from longtail.report.card_encoder import encoders
from longtail.report.zipf import band_sizes
from longtail.seams import takes_labels
from longtail.version import __version__

SHOWN = ("P", "nDCG", "PSP", "R", "C", "ECE")
HEADER = """---
library_name: longtail
pipeline_tag: text-classification
tags: [longtail, extreme-classification, multi-label]
---
"""


@dataclass(frozen=True)
class CardFacts:
    """The facts that training and evaluation know and the model itself does not hold."""

    data: str | None = None  # name of the data set
    train_rows: int | None = None
    valid_rows: int | None = None
    train_seconds: float | None = None
    peak_bytes: int | None = None
    command: str | None = None
    measured: dict[str, Measures] = field(default_factory=dict)  # by split
    refit: bool = False  # whether it was trained once more on train and valid, after the figures on valid
    how_found: str | None = None  # Markdown: how the recipe was found, where no one gave it


def shown_split(measured: Mapping[str, Measures]) -> str | None:
    """The split whose figures predict best how the model does on new documents.

    Args:
        measured: figures by split.

    Returns:
        "test", else "valid", else "train"; None where nothing was measured.
    """
    return next((split for split in ("test", "valid", "train") if split in measured), None)


def card_text(model: FittedModel, facts: CardFacts, picture: str) -> str:
    """Writes the README.md of a model.

    Args:
        model: the model.
        facts: what training and evaluation know of it.
        picture: the file name of the card's picture.

    Returns:
        Markdown.
    """
    parts = [
        HEADER + f"# {_code(model.recipe)}",
        _opening(model, facts),
        f"![Training examples of each label, and recall by label frequency]({picture})",
        "## Recipe",
        _recipe(model),
        *(["## How it was found", facts.how_found] if facts.how_found else []),
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


def _opening(model: FittedModel, facts: CardFacts) -> str:
    of = f" of {_safe(facts.data)}" if facts.data else ""
    return f"A model of longtail {__version__} that finds the right few of {counted(len(model.labels), 'label')}{of}."


def _recipe(model: FittedModel) -> str:
    learner, *tail = parse(model.recipe)
    rows = [("part", "what it does"), ("---", "---")]
    rows.append((_code(str(learner)), learner_class(learner.name).summary))
    rows += [(_code(f"+ {part}"), tail_class(part.name).summary) for part in tail]
    presets = [
        f"{_code(part.title)} sets {', '.join(_code(str(Setting(*pair))) for pair in found.items())}."
        for part, kind in [(learner, learner_class(learner.name)), *((one, tail_class(one.name)) for one in tail)]
        if (found := preset_of(part, kind))
    ]
    return "\n\n".join(
        [_table(rows), *presets, *dict.fromkeys(one.words for one in encoders(model.recipe, model.scorer))]
    )


def _data(labels: LabelSet, facts: CardFacts, text_field: str) -> str:
    sizes, band = band_sizes(labels), bands(labels)
    positives = int(labels.counts.sum())
    lines = [
        ("fact", "value"),
        ("---", "---:"),
        ("data set", _safe(facts.data) if facts.data else "not recorded"),
        ("training examples in the data set", words.count(labels.train_rows)),
    ]
    if facts.train_rows is not None:
        lines.append(("examples trained on", words.count(facts.train_rows)))
    if facts.valid_rows is not None:
        name = "of them chosen on before" if facts.refit else "examples held out as valid"
        lines.append((name, words.count(facts.valid_rows)))
    lines += [
        ("labels", words.count(len(labels))),
        ("labels per example", f"{positives / max(labels.train_rows, 1):.2f}"),
        ("examples per label", f"{positives / max(len(labels), 1):.2f}"),
        ("labels that hold 80% of the positives", f"{pos80(labels):.1f}%"),
        ("propensity", str(labels.propensity)),
        ("text of a document", _code(text_field)),
    ]
    table = [("band", "labels", "of labels", "of training positives"), ("---", "---:", "---:", "---:")]
    for number, name in enumerate(BANDS):
        held = int(labels.counts[band == number].sum())
        size = int(sizes[number])
        table.append((name, words.count(size), words.share(size, len(labels)), words.share(held, positives)))
    return _table(lines) + "\n\n" + _table(table)


def _measures(facts: CardFacts) -> str:
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
    by_bin = [("training examples of the label", "labels", "points of P", "recall", "labels found"), ("---:",) * 5]
    for one in measures.bins:
        span = words.count(one.low) if one.low == one.high else f"{words.count(one.low)}–{words.count(one.high)}"
        recall, coverage = (one.recall, one.coverage) if one.positives else (None, None)  # the split has none of them
        found = (words.percent(one.contribution), words.percent(recall), words.percent(coverage))
        by_bin.append((span, words.count(one.labels), *found))
    examples = f"{counted(measures.rows, 'example')} of the {split} split"
    on = f"Percent, on {examples}; PSP with {measures.propensity}; C: the share of their labels found at least once"
    warning = {
        "valid": " The recipe may have chosen settings or calibrated on these examples; expect less on new documents.",
        "train": " The model was trained on these examples: the figures do not tell how it does on new documents.",
    }
    if facts.refit:
        warning["valid"] = " Measured before the last training, which learned from these examples too."
    by = f"By label frequency, at {measures.bins_at}: groups hold equal shares of the training positives."
    return "\n\n".join([on + "." + warning.get(split, ""), _table(table), by, _table(by_bin)])


def _cost(facts: CardFacts) -> str:
    if facts.train_seconds is None:
        return "Not recorded."
    peak = "" if facts.peak_bytes is None else f", at most {words.size(facts.peak_bytes)} of memory"
    cost = f"{words.seconds(facts.train_seconds)} to train{peak}."
    return cost + (f"\n\n```\n{_safe_line(facts.command)}\n```" if facts.command else "")


def _load(text_field: str) -> str:
    given = '["a text", "another"]'
    note = f"Give the text that the model was trained on: {_code(text_field)} of a document, fields joined by a space."
    python = (
        "```python\nimport longtail\n\n"
        'model = longtail.load_model("path/of/this/folder")\n'
        f"for answers in model.predict({given}, k=5):\n"
        "    print([(answer.text, answer.score) for answer in answers])\n```"
    )
    return f"{python}\n\n```\nlongtail predict path/of/this/folder texts.txt -k 5\n```\n\n{note}"


def _limits(model: FittedModel, facts: CardFacts) -> str:
    labels = model.labels
    rare, unseen = (int(band_sizes(labels)[BANDS.index(name)]) for name in ("tail", "unseen"))
    reads = "label_texts" in learner_class(parse(model.recipe)[0].name).data_needs
    joins = takes_labels(model.scorer) and not model.rerankers
    items = [
        "It knows the labels of `labels.jsonl` and no others"
        + ("; `model.with_labels([...])` adds new ones by their texts." if joins else "; train again to add new ones."),
        f"{words.share(rare, len(labels))} of the labels have 1 to {TAIL_ROWS} training examples. The table by label "
        "frequency shows how well it finds them.",
    ]
    if unseen:
        how = "are found by their texts alone" if reads else "cannot be found: the recipe does not read label texts"
        items.append(f"{counted(unseen, 'label has', 'labels have')} no training example: such labels {how}.")
    items.append(_about_scores(model.recipe, facts))
    items.append(
        "It was measured on documents like those it was trained on, not on other kinds of text or other languages."
    )
    return "\n".join(f"- {item}" for item in items)


def _about_scores(recipe: str, facts: CardFacts) -> str:
    split = shown_split(facts.measured)
    if split is None:
        return "How well its scores work as probabilities was not measured."
    calibrated = any(part.name == "calibrate" for part in parse(recipe)[1:])
    values = facts.measured[split].values
    errors = {int(name.partition("@")[2]): value for name, value in values.items() if name.startswith("ECE@")}
    if not errors:
        return "Its scores rank labels and are not probabilities" + (
            "." if calibrated else "; `+ calibrate` turns them into probabilities."
        )
    k = max(errors)
    error = f"As probabilities, its scores are off by {errors[k]:.1f} points (ECE@{k} on {split})"
    return error + (", with `calibrate`." if calibrated else "; `+ calibrate` lowers that.")


def _cite(model: FittedModel) -> str:
    auto = next((one.name for one in encoders(model.recipe, model.scorer) if one.chosen_by_auto), None)
    entries = [paper.bibtex for paper in papers_of(model.recipe, auto)]
    if not entries:
        return "No paper is known for this recipe."
    return "The papers behind this recipe:\n\n```bibtex\n" + "\n\n".join(entries) + "\n```"


def _table(rows: Sequence[tuple[str, ...]]) -> str:
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows)


def _safe(text: str) -> str:
    """A name that a user gave, as one line without markup."""
    return re.sub(r"([\\`*_{}\[\]<>#!])", r"\\\1", _safe_line(text))


def _code(text: str) -> str:
    return "`" + _safe_line(text).replace("`", "'") + "`"


def _safe_line(text: str) -> str:
    return " ".join(words.clean(text).replace("```", "'''").split())
