"""The model card: what a model is, how good it is, what it cost, how to load it and whom to cite.

A card is three files in the model's folder: README.md for people, card.json with the facts behind it, and card.svg, its
picture. They are not part of the model: it loads without them, and people may edit them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from longtail.atomic import new_file
from longtail.data.labels import Propensity
from longtail.metrics.measures import Bin, Measures
from longtail.model_files import CARD_FILES, FittedModel
from longtail.report.card_picture import card_svg
from longtail.report.card_text import CardFacts, card_text, shown_split

TEXT, FACTS, PICTURE = CARD_FILES
MAX_EXAMPLES = 10_000  # of valid that are predicted for the card


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
            with new_file(Path(folder) / name) as file:
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
            return cls(_facts(json.loads((Path(folder) / FACTS).read_text(encoding="utf-8"))))
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return cls()


def _plain(facts: CardFacts) -> dict[str, Any]:
    """The facts as JSON values."""
    return {**asdict(facts), "measured": {split: asdict(one) for split, one in facts.measured.items()}}


def _facts(plain: Mapping[str, Any]) -> CardFacts:
    measured = {
        str(split): Measures(
            values={str(name): float(value) for name, value in one["values"].items()},
            bins=tuple(Bin(**part) for part in one["bins"]),
            bins_at=int(one["bins_at"]),
            propensity=Propensity(**one["propensity"]),
            rows=int(one["rows"]),
            notes=tuple(map(str, one["notes"])),
        )
        for split, one in plain["measured"].items()
    }
    return CardFacts(**{**plain, "measured": measured})
