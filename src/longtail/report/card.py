"""The model card: what a model is, how good it is, what it cost, how to load it and whom to cite.

A card is three files in the model's folder: README.md for people, card.json with the facts behind it, and card.svg, its
picture. They are not part of the model: it loads without them, and people may edit them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from longtail.atomic import new_own_file
from longtail.data.files import whole_object
from longtail.data.labels import Propensity
from longtail.errors import LongtailError
from longtail.metrics.measures import Bin, Measures
from longtail.model_files import CARD_FILES, FittedModel
from longtail.report.card_picture import card_svg
from longtail.report.card_text import CardFacts, card_text, shown_split
from longtail.seams.declared import (
    AnyFields,
    Declared,
    Fields,
    Flag,
    Many,
    Nothing,
    Number,
    Whole,
    Words,
    check_settings,
)

TEXT, FACTS, PICTURE = CARD_FILES
MAX_EXAMPLES = 10_000  # of valid that are predicted for the card
COUNT, SHARE = Whole(0, 2**62), Number()
MEASURE = re.compile(r"[^@]{1,60}@[1-9][0-9]{0,5}")
FIELDS: Mapping[str, Declared] = {
    "data": Nothing(Words(), optional=True),
    "train_rows": Nothing(COUNT, optional=True),
    "valid_rows": Nothing(COUNT, optional=True),
    "train_seconds": Nothing(Number(0), optional=True),
    "peak_bytes": Nothing(COUNT, optional=True),
    "command": Nothing(Words(), optional=True),
    "measured": AnyFields(),
    "refit": Flag(optional=True),
    "how_found": Nothing(Words(), optional=True),
}
BIN = Fields(
    {
        "name": Words(), "low": COUNT, "high": COUNT, "labels": COUNT, "positives": COUNT,
        "contribution": SHARE, "recall": SHARE, "coverage": SHARE,
    }
)  # fmt: skip
MEASURES = Fields(
    {
        "values": AnyFields(), "bins": Many(BIN), "bins_at": COUNT, "rows": COUNT, "notes": Many(Words()),
        "propensity": Fields({"a": SHARE, "b": SHARE}),
    }
)  # fmt: skip


@dataclass(frozen=True)
class Card:
    """The facts of a card that only training and evaluation know; the rest is read off the model."""

    facts: CardFacts = field(default_factory=CardFacts)

    def with_measures(self, split: str, measures: Measures) -> Card:
        """A card that also has the figures of one split.

        Args:
            split: "train", "valid" or "test".
            measures: its figures; they replace those that the card had for this split.

        Returns:
            A new card.
        """
        return Card(replace(self.facts, measured={**self.facts.measured, split: measures}))

    def files(self, model: FittedModel) -> dict[str, str]:
        """Writes the card's three files as strings.

        Args:
            model: the model that the card describes.

        Returns:
            The content of each file by its name.
        """
        split = shown_split(self.facts.measured)
        measures = None if split is None else self.facts.measured[split]
        bins = () if measures is None else tuple(one for one in measures.bins if one.positives)
        recall_on = "" if measures is None else f"@{measures.bins_at} on {split}"
        return {
            TEXT: card_text(model, self.facts, PICTURE),
            FACTS: json.dumps(_plain(self.facts), indent=1, allow_nan=False) + "\n",
            PICTURE: card_svg(model.labels, bins, recall_on),
        }

    def write(self, model: FittedModel, folder: str | Path) -> None:
        """Writes the card's files into a model's folder.

        Args:
            model: the model that the card describes.
            folder: its folder. Each file appears only once it is complete.
        """
        for name, content in self.files(model).items():
            with new_own_file(Path(folder) / name) as file:
                file.write(content)

    @classmethod
    def read(cls, folder: str | Path) -> Card:
        """Reads the card of a model's folder.

        Args:
            folder: the model's folder.

        Returns:
            The card; an empty one where card.json is missing or cannot be read.
        """
        try:
            return cls(_facts(whole_object(Path(folder) / FACTS)))
        except (LongtailError, ValueError, KeyError, TypeError):
            return cls()


def _plain(facts: CardFacts) -> dict[str, Any]:
    """The facts as JSON values."""
    return {**asdict(facts), "measured": {split: asdict(one) for split, one in facts.measured.items()}}


def _facts(plain: Mapping[str, Any]) -> CardFacts:
    """The facts of a file that anybody may have edited: types and ranges are looked at first."""
    check_settings(FIELDS, plain, {})
    measured = {}
    for split, one in plain["measured"].items():
        MEASURES.check(split, one, {})
        if not one["values"] or not all(map(MEASURE.fullmatch, one["values"])):
            raise ValueError("a measure is named like P@1")
        for name, value in one["values"].items():
            SHARE.check(name, value, {})
        bins, propensity = tuple(Bin(**part) for part in one["bins"]), Propensity(**one["propensity"])
        values, notes = dict(one["values"]), tuple(one["notes"])
        measured[split] = Measures(values, bins, one["bins_at"], propensity, one["rows"], notes)
    return CardFacts(**{**plain, "measured": measured})
