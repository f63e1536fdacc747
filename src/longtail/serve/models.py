"""A loaded model under its name, with the labels that were added while it was served.

A served model never changes; adding labels makes the next version. Requests under way keep the version they began
with, so there is no lock between predicting and adding.
"""

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
from longtail.seams import takes_labels
from longtail.serve.finder import Finder
from longtail.serve.journal import Entry, Journal, journal_of
from longtail.serve.shared_labels import SharedLabels, StoredLabel
from longtail.store import load

SEVERAL = "several workers serve it, and the others would not have them; start the service with --database"
KEPT = "--database keeps them, and these are not there; add them once more with POST /labels"
WARM = ("a first text to read", " ".join(["a longer one, of many words"] * 12))


class IdTaken(LongtailError):
    """A label with this id exists and has another text."""


@dataclass(frozen=True, eq=False)
class Version:
    """The model at one moment. Adding labels makes a new version; predictions that use this one are not disturbed."""

    model: Model
    trained: int  # labels before this row are from training
    finder: Finder

    def label(self, row: int) -> dict[str, Any]:
        """A label as the schema has it.

        Args:
            row: of the label.

        Returns:
            JSON values.
        """
        labels = self.model.labels
        return {
            "id": labels.ids[row],
            "text": labels.word(row),
            "count": int(labels.counts[row]),
            "band": BANDS[self.finder.bands[row]],
            "added": row >= self.trained,
        }


class Served:
    """A loaded model. Any thread may predict; labels are added by one request at a time.

    Args:
        name: the name that requests use.
        path: its folder.
        several: whether other processes of this machine serve it, too: then its files are mapped, and it takes new
            labels only through a database, because the others would not have them.
        database: address of the database that keeps its added labels, instead of the journal.

    Raises:
        ModelError: the model cannot be loaded, or the journal of its added labels cannot be used.
        NotStored: the database does not answer, or refuses.
    """

    def __init__(self, name: str, path: Path, *, several: bool = False, database: str | None = None) -> None:
        self.name, self.path = name, path
        model = load(path, mapped=several)
        self._adding = threading.Lock()
        self.journal: Journal | None = None
        self.shared: SharedLabels | None = None
        self._seen = 0  # number of the last label that came from the database
        self.renamed = 0  # added labels whose id the model, trained again, now has with another text
        self.why_not = _why_not(model) or (SEVERAL if several and database is None else None)
        self._now = Version(model, len(model.labels), Finder(model.labels))
        if self.why_not is None and database is None:
            self.journal = self._open()
            if self.journal is not None:
                try:
                    self._take(self.journal.entries)
                except BaseException:
                    self.journal.close()
                    raise
        elif journal_of(path).exists() and journal_of(path).stat().st_size:
            raise ModelError(
                f"{journal_of(path)} has labels that were added to {path}, but no labels can be added to this model: "
                f"{self.why_not or KEPT}; move the file away to serve the model without them"
            )
        elif self.why_not is None and database is not None:
            self.shared = SharedLabels(database, name)
            self.catch_up()

    @property
    def now(self) -> Version:
        """The newest version."""
        return self._now

    def warm_up(self) -> None:
        """Predicts few texts, then many, so that the first client does not wait for what is built at first use.

        Raises:
            ModelError: the model cannot predict texts.
        """
        model = self._now.model
        k = min(5, max(len(model.labels), 1))
        try:
            for texts in (WARM[:1], WARM * 32):
                model.predict(Rows(texts=texts), k)
        except DataError as error:
            raise ModelError(f"{self.path} cannot be served: {error}") from None
        self._now.finder.find("a", 1)
        self.facts()

    def probe(self) -> None:
        """Predicts one known text, to see whether the model still works.

        Raises:
            BaseException: what the model raises where it does not.
        """
        self._now.model.predict(Rows(texts=WARM[:1]), 1)

    def predict(self, texts: Sequence[str], k: int, dial: float = 0.0, language: str = "") -> list[dict[str, Any]]:
        """Predicts the labels of texts.

        Args:
            texts: the texts.
            k: the most labels of a text.
            dial: see `Model.predict`.
            language: of the texts, for a model that learned languages from a column; "": guessed.

        Returns:
            The answer of each text as the schema has it: its labels, best first, and why the model is unsure, if it is.
        """
        return self._answers(texts, k, dial, language, why=False)

    def explained(self, texts: Sequence[str], k: int, dial: float = 0.0, language: str = "") -> list[dict[str, Any]]:
        """Predicts the labels of texts, and says of each who proposed it, its frequency and its record.

        Args:
            texts: the texts.
            k: the most labels of a text.
            dial: see `Model.predict`.
            language: see `predict`.

        Returns:
            As `predict`; each label has "why".
        """
        return self._answers(texts, k, dial, language, why=True)

    def _answers(self, texts: Sequence[str], k: int, dial: float, language: str, why: bool) -> list[dict[str, Any]]:
        version = self._now
        languages = (language,) * len(texts) if language else None
        rows, places = Rows(texts=tuple(texts), languages=languages), min(k, max(len(version.model.labels), 1))
        found = version.model.predict(rows, places, dial=dial)
        unsure = version.model.unsure(texts, None if dial else found)
        # The shortest decimal that is this float32, as `longtail predict` writes it.
        answers = [
            [
                {**version.label(label), "score": float(str(np.float32(score)))}
                for label, score in zip(labels, scores, strict=True)
                if label >= 0
            ]
            for labels, scores in zip(found.indices.tolist(), found.scores.tolist(), strict=True)
        ]
        for labels, known, reasons in zip(
            answers, found.indices >= 0, version.model.explain(rows, found) if why else [], strict=False
        ):
            for label, place in zip(labels, np.flatnonzero(known).tolist(), strict=True):
                label["why"] = reasons[place].as_json()
        return [
            {"labels": labels, **({} if doubt is None else {"unsure": doubt})}
            for labels, doubt in zip(answers, unsure, strict=True)
        ]

    def add(self, entries: Sequence[Entry]) -> tuple[list[str], list[str]]:
        """Adds labels. When this returns, they are on the disk and predicted; after an error, none of them is (but see
        `SharedLabels.adding`).

        Args:
            entries: the labels.

        Returns:
            Ids of the labels that are new, and of those that the model had with the same text.

        Raises:
            DataError: the model takes no new labels.
            IdTaken: a label with this id has another text.
            WriteError: the journal cannot be written.
            NotStored: the database cannot.
            BaseException: what the model raises on these texts.
        """
        if self.why_not is not None or (self.journal is None and self.shared is None):
            raise DataError(f"{self.name} takes no new labels: {self.why_not}")
        with self._adding:
            if self.shared is not None:
                return self._add_shared(self.shared, entries)
            assert self.journal is not None
            new, known = self._sorted(entries)
            if new:
                grown = self._grown(new)
                self.journal.add(new)
                self._now = grown
            return [entry.id for entry in new], [entry.id for entry in known]

    def _add_shared(self, shared: SharedLabels, entries: Sequence[Entry]) -> tuple[list[str], list[str]]:
        grown = None
        with shared.adding(self._seen) as (others, write):
            self._take_stored(others)
            new, known = self._sorted(entries)
            if new:
                grown = self._grown(new)
                last = write(new)
        if grown is not None:  # committed
            self._now, self._seen = grown, last
        return [entry.id for entry in new], [entry.id for entry in known]

    def catch_up(self) -> None:
        """Takes in what others have added to the database.

        Raises:
            NotStored: the database does not answer, or refuses.
            BaseException: what the model raises on these labels.
        """
        if self.shared is not None:
            with self._adding:
                self._take_stored(self.shared.after(self._seen))

    def _take_stored(self, rows: Sequence[StoredLabel]) -> None:
        if rows:
            self._take([row.entry for row in rows])
            self._seen = rows[-1].number

    def facts(self) -> dict[str, Any]:
        """The model as `GET /models` describes it."""
        model, counted = self._now.model, np.bincount(self._now.finder.bands, minlength=len(BANDS))
        return {
            "name": self.name,
            "recipe": model.recipe,
            "labels": len(model.labels),
            "added": len(model.labels) - self._now.trained,
            "train_rows": model.labels.train_rows,
            "text_field": model.text_field,
            "bands": dict(zip(BANDS, counted.tolist(), strict=True)),
            "probabilities": model.probabilities,
            "cutoff": None if model.cutoff is None else model.cutoff.as_json(),
            "takes_labels": self.why_not is None,
            "why_not": self.why_not,
        }

    def close(self) -> None:
        """Closes the journal, or the connection to the database."""
        for kept in (self.journal, self.shared):
            if kept is not None:
                kept.close()

    def _open(self) -> Journal | None:
        place = journal_of(self.path)
        try:
            return Journal(place)
        except ModelError as error:
            if place.exists():  # it has labels, or another service holds it
                raise
            self.why_not = str(error)
            return None

    def _take(self, entries: Sequence[Entry]) -> None:
        """Takes in labels that were written before, or by others."""
        # A model that was trained again may have some of the labels itself; its own texts win.
        labels = self._now.model.labels
        rows = labels.row_of
        added = {entry.id: entry.text for entry in entries}
        self.renamed += sum(labels.word(rows[name]) != text for name, text in added.items() if name in rows)
        new = list({entry.id: entry for entry in entries if entry.id not in rows}.values())
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
                raise IdTaken(f"the label {entry.id!r} exists and has the text {text!r}; give the new label another id")
            if row is None:
                new[entry.id] = entry
            else:
                known[entry.id] = entry
        return list(new.values()), list(known.values())

    def _grown(self, new: Sequence[Entry]) -> Version:
        before = self._now
        model = before.model.with_labels([entry.text for entry in new], [entry.id for entry in new])
        grown = Version(model, before.trained, Finder(model.labels))
        model.predict(Rows(texts=WARM[:1]), 1)  # builds what the first prediction needs, before a client waits for it
        grown.label(0)
        return grown


def load_models(words: Sequence[str], *, several: bool = False, database: str | None = None) -> dict[str, Served]:
    """Loads the models of the command line.

    Args:
        words: FOLDER, which is named as the folder is, or NAME=FOLDER.
        several: see `Served`.
        database: see `Served`.

    Returns:
        Models by name.

    Raises:
        ModelError: a model cannot be loaded, or two have the same name.
    """
    served: dict[str, Served] = {}
    try:
        for word in words:
            name, path = _named(word)
            if name in served:
                raise ModelError(f"two models have the name {name}; rename one: longtail serve OTHER={path}")
            served[name] = Served(name, path, several=several, database=database)
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
        raise ModelError(f"{name!r} cannot be the name of a model; give another: longtail serve NAME={path}")
    return name, path


def _why_not(model: Model) -> str | None:
    """Why labels cannot be added; None where they can."""
    if not takes_labels(model.scorer):
        return "its learner cannot take new labels; dpr, ngame and other encoders can"
    if model.rerankers:
        return "its re-rankers know only the labels they were fitted on"
    return None
