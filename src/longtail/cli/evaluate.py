"""`longtail evaluate`: measures a model, or a file of predictions."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from longtail.cli.shared import (
    At,
    Dial,
    Json,
    Source,
    console,
    places_of,
    print_json,
    progress,
    read_like,
    reads_data,
    say,
)
from longtail.cutoff import Cutoff, CutoffChoice
from longtail.errors import counted

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
        typer.Argument(metavar="MODEL|PREDICTIONS", help="Model folder, or a file of predictions that predict wrote."),
    ],
    source: Source,
    split: Annotated[str, typer.Option(metavar="NAME", help="train, valid or test.")] = "test",
    at: At = "1,3,5",
    dial: Dial = 0.0,
    choose_threshold: Annotated[
        str | None,
        typer.Option(
            metavar="HOW",
            help="Choose on valid which labels are predicted: f1, precision=0.9, labels=3, or f1,labels=3.",
        ),
    ] = None,
    store: Annotated[
        bool, typer.Option("--store", help="Store the chosen threshold in the model, for predict and serve.")
    ] = False,
    card: Annotated[bool, typer.Option("--card", help="Write the figures into the model's README.md.")] = False,
    json: Json = False,
) -> None:
    """Measure a model, or predictions made elsewhere.

    A file of predictions has a line {"id": document id, "labels": [{"id": label id, "score": 0.9}, ...]} for each
    document of the split. A label may be a bare id; then their order is the ranking.
    """
    from longtail.dial import check_dial
    from longtail.errors import DataError, ModelError
    from longtail.metrics import at_threshold, choose_cutoff
    from longtail.metrics.generalised import evaluate_split
    from longtail.model_files import store_cutoff
    from longtail.predictions import CANDIDATES
    from longtail.predictions_file import read_predictions
    from longtail.store import load

    ks = places_of(at)
    check_dial(dial, "--dial")
    if split not in ("train", "valid", "test"):
        raise DataError(f"--split must be train, valid or test, got {split!r}")
    if not model.exists():
        raise ModelError(f"{model} does not exist; give a model folder or a file of predictions")
    choice = None if choose_threshold is None else CutoffChoice.parse(choose_threshold)
    if choice is not None:
        _check_choice(split, model)
    elif store:
        raise DataError("--store stores a threshold; choose one with --choose-threshold")
    if card and not model.is_dir():
        raise DataError("--card writes into a model folder, and this is a file of predictions; leave it out", model)
    if dial and not model.is_dir():
        raise DataError(
            "--dial turns the predictions of a model, and this is a file of predictions; leave it out", model
        )
    if dial and card:
        raise DataError("the card describes the model as it predicts by default; leave out --card or --dial", model)
    with progress():
        loaded = load(model) if model.is_dir() else None
        if loaded is not None:
            loaded.check_dial(dial, "--dial")
            source = read_like(source, loaded.table, loaded.language_field)
        corpus = source.read()
        data: Dataset = {"train": corpus.train, "valid": corpus.valid, "test": corpus.test}[split]
        if len(data) == 0:
            raise DataError(
                f"{corpus.name} has no {split} examples to measure on; add them, measure another --split, or train and "
                "evaluate with the same --test-share"
            )
        predictions: Predictions
        if loaded is None:
            predictions = read_predictions(model, data)
        else:
            if loaded.text_field != corpus.text_field:
                say(f"note: the model was trained on {loaded.text_field}, the data was read as {corpus.text_field}")
            if _trained_on_others(loaded.labels, corpus.labels, source.test_share):
                say(
                    f"warning: the model was trained on {loaded.labels.train_rows:,} examples, not on the "
                    f"{corpus.labels.train_rows:,} that --test-share {source.test_share:g} leaves, so it may have been "
                    "trained on examples it is measured on; train and evaluate with the same --test-share and --seed"
                )
            if split == "valid" and split in corpus.drawn and loaded.labels.ids != corpus.labels.ids:
                say(
                    "warning: this is not the data that the model was trained on, so other examples are held out as "
                    "valid, and the model may have been trained on them; measure on a file of other examples"
                )
            data = _known(data, loaded, split)
            if source.language is not None:
                say(
                    "note: --language changes nothing here: a model reads texts in the language that it was trained "
                    "with, or in that of its --language-column"
                )
            places = min(max(*ks, 5, CANDIDATES if choice or loaded.cutoff else 5), len(loaded.labels))
            predictions = _predicted(loaded, data, places, dial)
        measures = evaluate_split(predictions, data, ks, corpus.held_out_labels if split == "test" else 0)
        cutoff = None if loaded is None else loaded.cutoff
        if choice is not None and loaded is not None:
            valid = corpus.valid
            if len(valid) == 0:
                raise DataError(f"{corpus.name} has no valid examples to choose a threshold on; add a valid split")
            valid = _known(valid, loaded)
            cutoff = choose_cutoff(_predicted(loaded, valid, places, dial), valid, choice)
        chosen = None if cutoff is None else at_threshold(predictions.top(cutoff.k), data, cutoff.threshold)
        if store and cutoff is not None:
            store_cutoff(model, cutoff)
        if card and loaded is not None:
            _write_card(loaded, model, split, measures)
    for note in (*corpus.notes, *measures.notes):
        say(f"note: {note}")
    if json:
        print_json(
            {
                "recipe": loaded.recipe if loaded is not None else str(model),
                **({"dial": dial} if dial else {}),
                **measures.values,
                "propensity": asdict(measures.propensity),
                "rows": measures.rows,
                "bins": [asdict(part) for part in measures.bins],
                **({} if chosen is None or cutoff is None else {"threshold": asdict(chosen) | cutoff.as_json()}),
            }
        )
    else:
        _show(measures, ks)
        if chosen is not None and cutoff is not None:
            _show_threshold(chosen, cutoff, split, model, stored=store or choice is None)


def _known(data: Dataset, model: Model, split: str = "") -> Dataset:
    """The data over the labels of the model, followed by labels it does not have; with a `split`, prints notes."""
    from longtail.data.aligned import aligned
    from longtail.errors import ModelError

    if model.labels.ids == data.labels.ids:
        return data
    found, unknown = aligned(data, model.labels, fold=model.table is not None and model.table.fold_labels)
    if len(data.targets.indices) and not (found.targets.indices < len(model.labels)).any():
        raise ModelError(
            f"none of the {len(data.labels):,} labels of the data is among the {len(model.labels):,} labels of the "
            "model; evaluate it on data with the same label ids"
        )
    if split:
        say("note: counts and propensities of labels are those of the data that the model was trained on")
    if split and unknown:
        misses = "it counts as a miss" if unknown == 1 else "they count as misses"
        say(f"note: {split} has {counted(unknown, 'label')} that the model does not have; {misses}")
    return found


def _predicted(model: Model, data: Dataset, places: int, dial: float) -> Predictions:
    from longtail.predictions import Predictions

    excluded = None if data.excluded is None else data.excluded[:, : len(model.labels)]
    found = model.predict(data.rows, places, excluded, dial)
    return Predictions(data.labels, found.indices, found.scores)


def _trained_on_others(known: LabelSet, given: LabelSet, test_share: float | None) -> bool:
    """Whether the model was trained on other examples than those that --test-share leaves: its label counts differ."""
    if test_share is None:
        return False
    counts = dict(zip(given.ids, given.counts.tolist(), strict=True))
    now: list[int] = [counts.get(label, 0) for label in known.ids]
    return bool(now != known.counts.tolist())


def _write_card(model: Model, folder: Path, split: str, measures: Measures) -> None:
    from longtail.errors import ModelError, what_to_do
    from longtail.report.card import Card

    try:
        Card.read(folder).with_measures(split, measures).write(model, folder)
    except OSError as error:
        raise ModelError(
            f"{folder}: the card cannot be written ({error.strerror or error}); {what_to_do(error)}"
        ) from None


def _check_choice(split: str, model: Path) -> None:
    from longtail.errors import DataError

    if split == "valid":
        raise DataError("a threshold is chosen on valid, so measure it on other data: give --split test or train")
    if not model.is_dir():
        raise DataError("a threshold is chosen on predictions for valid; give a model folder, not a file", model)


def _show_threshold(chosen: AtThreshold, cutoff: Cutoff, split: str, model: Path, stored: bool) -> None:
    typer.echo(
        f"threshold {chosen.threshold:g}, chosen on valid by {cutoff.chosen}; on {split}: F1 {chosen.f1:.2f}, "
        f"precision {chosen.precision:.2f}, recall {chosen.recall:.2f}, macro F1 {chosen.macro_f1:.2f}, "
        f"{chosen.labels_per_row:.2f} labels per document, {chosen.empty_rows:.1f}% of the documents without a label"
    )
    if stored:
        typer.echo("stored in the model: predict and serve use it, whatever -k is; --threshold asks for another score")
    else:
        typer.echo(f"use it: longtail predict {model} -k {cutoff.k} --threshold {chosen.threshold}, or add --store")


def _show(measures: Measures, ks: tuple[int, ...]) -> None:
    from rich.table import Table

    from longtail.report.comparison_table import UNSEEN

    screen = console()
    names = dict.fromkeys(key.partition("@")[0] for key in measures.values)
    unseen = f"; {UNSEEN}" if "H" in names else ""
    columns = max((screen.width - 12) // (4 + max(6, len(str(ks[-1])))), 1)  # that fit without cutting a figure
    for first in range(0, len(ks), columns):
        shown = ks[first : first + columns]
        table = Table(
            caption=f"percent, on {counted(measures.rows, 'example')}; propensity with {measures.propensity}{unseen}"
        )
        table.add_column("measure")
        for k in shown:
            table.add_column(f"@{k}", justify="right", no_wrap=True)
        for name in names:
            table.add_row(name, *(f"{measures.values[f'{name}@{k}']:.2f}" for k in shown))
        screen.print(table)
    bins = Table(caption=f"points of P@{measures.bins_at} by training examples of the label")
    for column in ("bin", "examples", "labels", "points", "recall", "labels found"):
        bins.add_column(column, justify="left" if column == "bin" else "right")
    for part in measures.bins:
        span = f"{part.low:,}" if part.low == part.high else f"{part.low:,}–{part.high:,}"
        found = (f"{part.contribution:.2f}", f"{part.recall:.1f}%", f"{part.coverage:.1f}%")
        bins.add_row(part.name, span, f"{part.labels:,}", *found)
    screen.print(bins)
