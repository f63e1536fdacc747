"""A model under its name, with the labels that joined it while it served."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from longtail.data.dataset import Rows
from longtail.errors import DataError, LongtailError, ModelError
from longtail.metrics.frequency import BANDS
from longtail.model import Model
from longtail.seams import TakesLabels
from longtail.serve.finder import Finder
from longtail.serve.journal import Entry, Journal, journal_of
from longtail.store import load

WARM = ("a first text to read", " ".join(["a longer one, of many words"] * 12))


class Taken(LongtailError):
    """A label id stands for another text already."""


@dataclass(frozen=True, eq=False)
class Version:
    """The model at one moment. Adding labels makes the next one; whoever reads this one is not disturbed."""

    model: Model
    trained: int  # labels before this row are from training
    finder: Finder

    def label(self, row: int) -> dict[str, Any]:
        labels = self.model.labels
        return {
            "id": labels.ids[row],
            "text": labels.word(row),
            "count": int(labels.counts[row]),
            "band": BANDS[self.finder.bands[row]],
            "added": row >= self.trained,
        }


class Served:
    """A loaded model that predicts from any thread and takes labels one request at a time."""

    def __init__(self, name: str, path: Path) -> None:
        self.name, self.path = name, path
        model = load(path)
        self._adding = threading.Lock()
        self.journal: Journal | None = None
        self.renamed = 0  # labels that were added, and that the model has now under the same id with another text
        self.why_not = _why_not(model)
        self._now = Version(model, len(model.labels), Finder(model.labels))
        if self.why_not is None:
            self.journal = self._open()
            if self.journal is not None:
                self._replay(self.journal)
        elif journal_of(path).exists() and journal_of(path).stat().st_size:
            raise ModelError(
                f"{journal_of(path)} holds labels for {path}, but {self.why_not}; move it away to serve it"
            )

    @property
    def now(self) -> Version:
        return self._now

    def warm_up(self) -> None:
        """Ask once for few texts and once for many, so that the first client does not wait for what is built late."""
        model = self._now.model
        k = min(5, max(len(model.labels), 1))
        try:
            for texts in (WARM[:1], WARM * 32):
                model.predict(Rows(texts=texts), k)
        except DataError as error:
            raise ModelError(f"{self.path} cannot be served: {error}") from None
        self._now.finder.find("a", 1)
        self.facts()

    def predict(self, texts: Sequence[str], k: int) -> list[list[dict[str, Any]]]:
        """The labels of each text, best first, as the schema has them."""
        version = self._now
        found = version.model.predict(Rows(texts=tuple(texts)), min(k, max(len(version.model.labels), 1)))
        # The shortest number that is this float32, as `longtail predict` writes it.
        return [
            [
                {**version.label(label), "score": float(str(np.float32(score)))}
                for label, score in zip(labels, scores, strict=True)
                if label >= 0
            ]
            for labels, scores in zip(found.indices.tolist(), found.scores.tolist(), strict=True)
        ]

    def add(self, entries: Sequence[Entry]) -> tuple[list[str], list[str]]:
        """Ids of the labels that are new, and of those that were there with the same text. When this returns, the new
        ones are on the disk and predicted; after an error, none of them is."""
        if self.why_not is not None or self.journal is None:
            raise DataError(f"{self.name} takes no new labels: {self.why_not}")
        with self._adding:
            new, known = self._sorted(entries)
            if new:
                grown = self._grown(new)
                try:
                    self.journal.add(new)
                except OSError as error:
                    raise ModelError(f"{self.journal.path}: cannot be written ({error.strerror or error})") from None
                self._now = grown
            return [entry.id for entry in new], [entry.id for entry in known]

    def facts(self) -> dict[str, Any]:
        model, counted = self._now.model, np.bincount(self._now.finder.bands, minlength=len(BANDS))
        return {
            "name": self.name,
            "recipe": model.recipe,
            "labels": len(model.labels),
            "added": len(model.labels) - self._now.trained,
            "train_rows": model.labels.train_rows,
            "text_field": model.text_field,
            "bands": dict(zip(BANDS, counted.tolist(), strict=True)),
            "takes_labels": self.why_not is None,
            "why_not": self.why_not,
        }

    def close(self) -> None:
        if self.journal is not None:
            self.journal.close()

    def _open(self) -> Journal | None:
        place = journal_of(self.path)
        try:
            return Journal(place)
        except ModelError as error:
            if place.exists():  # labels stand there, or another service holds it
                raise
            self.why_not = str(error)
            return None

    def _replay(self, journal: Journal) -> None:
        # A model that was trained again may know some of them by now; its own texts stay.
        labels = self._now.model.labels
        there = labels.row_of
        added = {entry.id: entry.text for entry in journal.entries}
        self.renamed = sum(labels.word(there[name]) != text for name, text in added.items() if name in there)
        new = list({entry.id: entry for entry in journal.entries if entry.id not in there}.values())
        if new:
            self._now = self._grown(new)

    def _sorted(self, entries: Sequence[Entry]) -> tuple[list[Entry], list[Entry]]:
        labels = self._now.model.labels
        new: dict[str, Entry] = {}
        known: dict[str, Entry] = {}
        for entry in entries:
            row = labels.row_of.get(entry.id)
            text = labels.word(row) if row is not None else new[entry.id].text if entry.id in new else None
            if text is not None and text != entry.text:
                raise Taken(f"the label id {entry.id!r} stands for {text!r} already; give the new label another id")
            if row is None:
                new[entry.id] = entry
            else:
                known[entry.id] = entry
        return list(new.values()), list(known.values())

    def _grown(self, new: Sequence[Entry]) -> Version:
        before = self._now
        model = before.model.with_labels([entry.text for entry in new], [entry.id for entry in new])
        grown = Version(model, before.trained, Finder(model.labels))
        model.predict(Rows(texts=WARM[:1]), 1)  # what is built late is built here, not while a client waits
        grown.label(0)
        return grown


def load_models(words: Sequence[str]) -> dict[str, Served]:
    """Models by name from `FOLDER` or `NAME=FOLDER`; the folder's own name is the default."""
    served: dict[str, Served] = {}
    try:
        for word in words:
            name, path = _named(word)
            if name in served:
                raise ModelError(f"two models are called {name}; name one of them: longtail serve other={path}")
            served[name] = Served(name, path)
    except BaseException:
        for one in served.values():
            one.close()
        raise
    return served


def _named(word: str) -> tuple[str, Path]:
    name, separator, folder = word.partition("=")
    if separator and not Path(word).exists():
        path = Path(folder)
    else:
        path = Path(word)
        name = path.resolve().name.removesuffix(".longtail")
    if not name or len(name) > 200 or not name.isprintable():
        raise ModelError(f"{name!r} cannot be a model's name; name it: longtail serve NAME={path}")
    return name, path


def _why_not(model: Model) -> str | None:
    """Why labels cannot join, or None where they can."""
    if not isinstance(model.scorer, TakesLabels):
        return "it does not know labels by their texts; dpr, ngame and other encoders do"
    if model.rerankers:
        return "its re-rankers know only the labels they were fitted on"
    return None
