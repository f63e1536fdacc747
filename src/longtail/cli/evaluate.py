"""`longtail evaluate`: measure a model, or predictions that somebody else made."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from longtail.cli.shared import Json, Source, console, print_json, progress, reads_data, say

if TYPE_CHECKING:
    from longtail.data.dataset import Dataset
    from longtail.data.labels import LabelSet
    from longtail.metrics import AtThreshold, Measures
    from longtail.model import Model
    from longtail.predictions import Predictions


@reads_data
def evaluate(
    model: Annotated[
        Path,
        typer.Argument(
            metavar="MODEL|PREDICTIONS", help="Model folder, or a file of predictions as predict writes it."
        ),
    ],
    source: Source,
    split: Annotated[str, typer.Option(metavar="NAME", help="train, valid or test.")] = "test",
    at: Annotated[
        str, typer.Option("--at", metavar="K,K", help="How many places count, separated by commas.")
    ] = "1,3,5",
    choose_threshold: Annotated[
        str | None,
        typer.Option(metavar="f1", help="Find the score on valid above which labels give most F1, and measure it."),
    ] = None,
    card: Annotated[bool, typer.Option("--card", help="Write the figures into the model's README.md.")] = False,
    json: Json = False,
) -> None:
    """Measure a model, or predictions made elsewhere.

    A file of predictions holds {"id": row id, "labels": [{"id": label id, "score": 0.9}, ...]} a line, for each row
    of the split; a label may be a bare id, and then the order is the ranking.
    """
    from longtail.errors import DataError, ModelError
    from longtail.metrics import at_threshold, best_threshold
    from longtail.metrics import evaluate as measure
    from longtail.predictions import CANDIDATES
    from longtail.predictions_file import read_predictions
    from longtail.store import load

    ks = _places(at)
    if split not in ("train", "valid", "test"):
        raise DataError(f"--split is train, valid or test, got {split!r}")
    if not model.exists():
        raise ModelError(f"{model} does not exist; give a model folder or a file of predictions")
    if choose_threshold is not None:
        _check_choice(choose_threshold, split, model)
    if card and not model.is_dir():
        raise DataError("--card writes into a model folder, and this is a file of predictions", model)
    with progress():
        loaded = load(model) if model.is_dir() else None
        corpus = source.read()
        data: Dataset = {"train": corpus.train, "valid": corpus.valid, "test": corpus.test}[split]
        if len(data) == 0:
            raise DataError(
                f"{corpus.name} has no {split} rows to measure on; add them, measure another --split, or train and "
                "evaluate with the same --test-share"
            )
        predictions: Predictions
        if loaded is None:
            predictions = read_predictions(model, data)
        else:
            if loaded.text_field != corpus.text_field:
                say(f"note: the model was trained on {loaded.text_field}, the data was read as {corpus.text_field}")
            if _seen_other_rows(loaded.labels, corpus.labels, source.test_share):
                say(
                    f"warning: the model was trained on {loaded.labels.train_rows:,} rows and not on the "
                    f"{corpus.labels.train_rows:,} that --test-share {source.test_share:g} leaves, so it may have seen "
                    "the rows it is measured on; train and evaluate with the same --test-share and --seed"
                )
            if split == "valid" and split in corpus.drawn and loaded.labels.ids != corpus.labels.ids:
                say(
                    "warning: this data is not what the model was trained on, so other rows are held out as valid than "
                    "in training, and the model may have seen them; measure on rows of a file of their own"
                )
            data = _known(data, loaded, split)
            places = min(max(*ks, 5, CANDIDATES if choose_threshold else 5), len(loaded.labels))
            predictions = _predicted(loaded, data, places)
        measures = measure(predictions, data, ks=ks)
        chosen = None
        if choose_threshold is not None and loaded is not None:
            valid = corpus.valid
            if len(valid) == 0:
                raise DataError(f"{corpus.name} has no valid rows to choose a threshold on; add a valid split")
            valid = _known(valid, loaded)
            chosen = at_threshold(predictions, data, best_threshold(_predicted(loaded, valid, places), valid))
        if card and loaded is not None:
            _write_card(loaded, model, split, measures)
    for note in (*corpus.notes, *measures.notes):
        say(f"note: {note}")
    if json:
        print_json(
            {
                "recipe": loaded.recipe if loaded is not None else str(model),
                **measures.values,
                "propensity": asdict(measures.propensity),
                "rows": measures.rows,
                "bins": [asdict(part) for part in measures.bins],
                **({} if chosen is None else {"threshold": asdict(chosen)}),
            }
        )
    else:
        _show(measures, ks)
        if chosen is not None:
            _show_threshold(chosen, split, model)


def _known(data: Dataset, model: Model, split: str = "") -> Dataset:
    """The rows over the labels that the model knows, and behind these those it does not; with a `split`, told."""
    from longtail.data.aligned import aligned
    from longtail.errors import ModelError

    if model.labels.ids == data.labels.ids:
        return data
    if not set(model.labels.ids) & set(data.labels.ids):
        raise ModelError(
            f"none of the {len(data.labels):,} labels of the data is one of the {len(model.labels):,} that the model "
            "was trained on; evaluate it on data with the same labels"
        )
    found, unknown = aligned(data, model.labels)
    if split:
        say("note: counts and propensities of labels are those of the rows that the model was trained on")
    if split and unknown:
        say(f"note: the model does not know {unknown:,} labels of {split} rows, and misses them")
    return found


def _predicted(model: Model, data: Dataset, places: int) -> Predictions:
    from longtail.predictions import Predictions

    excluded = None if data.excluded is None else data.excluded[:, : len(model.labels)]
    found = model.predict(data.rows, places, excluded)
    return Predictions(data.labels, found.indices, found.scores)


def _seen_other_rows(known: LabelSet, given: LabelSet, test_share: float | None) -> bool:
    """Whether labels stand in other numbers of training rows than when the model was trained, where test rows are a
    share of the same file."""
    if test_share is None:
        return False
    counts = dict(zip(given.ids, given.counts.tolist(), strict=True))
    now: list[int] = [counts.get(label, 0) for label in known.ids]
    return bool(now != known.counts.tolist())


def _write_card(model: Model, folder: Path, split: str, measures: Measures) -> None:
    from longtail.errors import ModelError
    from longtail.report.card import Card

    try:
        Card.read(folder).with_measures(split, measures).write(model, folder)
    except OSError as error:
        raise ModelError(
            f"{folder}: the card cannot be written ({error.strerror or error}); check the rights"
        ) from None


def _check_choice(measure: str, split: str, model: Path) -> None:
    from longtail.errors import DataError

    if measure != "f1":
        raise DataError(f"--choose-threshold knows the measure f1, got {measure!r}")
    if split == "valid":
        raise DataError("a threshold is chosen on valid and measured on other rows; give --split test or train")
    if not model.is_dir():
        raise DataError("a threshold is chosen on predictions for valid; give a model folder, not a file", model)


def _places(at: str) -> tuple[int, ...]:
    """ "1,3,5" as numbers."""
    from longtail.errors import DataError

    words = at.split(",")
    if not all(word.strip().isdecimal() and 0 < int(word) < 2**31 for word in words):
        raise DataError(f"--at takes whole numbers above 0 such as 1,3,5, got {at!r}")
    return tuple(sorted({int(word) for word in words}))


def _show_threshold(chosen: AtThreshold, split: str, model: Path) -> None:
    typer.echo(
        f"threshold {chosen.threshold:g} gives most F1 on valid; on {split}: F1 {chosen.f1:.2f}, precision "
        f"{chosen.precision:.2f}, recall {chosen.recall:.2f}, macro F1 {chosen.macro_f1:.2f}, "
        f"{chosen.labels_per_row:.2f} labels a row, {chosen.empty_rows:.1f}% of the rows without one"
    )
    typer.echo(f"use it: longtail predict {model} -k 100 --threshold {chosen.threshold}")


def _show(measures: Measures, ks: tuple[int, ...]) -> None:
    from rich.table import Table

    screen = console()
    names = dict.fromkeys(key.partition("@")[0] for key in measures.values)
    together = max(
        (screen.width - 12) // (4 + max(6, len(str(ks[-1])))), 1
    )  # columns that fit, never a figure cut short
    for first in range(0, len(ks), together):
        shown = ks[first : first + together]
        table = Table(caption=f"percent of {measures.rows:,} rows; propensity with {measures.propensity}")
        table.add_column("measure")
        for k in shown:
            table.add_column(f"@{k}", justify="right", no_wrap=True)
        for name in names:
            table.add_row(name, *(f"{measures.values[f'{name}@{k}']:.2f}" for k in shown))
        screen.print(table)
    bins = Table(caption=f"points of P@{measures.bins_at} by label frequency")
    for column in ("bin", "training rows", "labels", "points", "recall", "labels found"):
        bins.add_column(column, justify="left" if column == "bin" else "right")
    for part in measures.bins:
        span = f"{part.low:,}" if part.low == part.high else f"{part.low:,}–{part.high:,}"
        found = (f"{part.contribution:.2f}", f"{part.recall:.1f}%", f"{part.coverage:.1f}%")
        bins.add_row(part.name, span, f"{part.labels:,}", *found)
    screen.print(bins)
