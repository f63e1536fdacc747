"""The model card: README.md beside a model, with what it is, how good, what it cost, how to load it, whom to cite.

Three files stand beside the model's own: README.md for people, card.json with the facts it is written from, and
card.svg, its picture. They are not part of the model: it loads without them, and they may be edited.
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
from longtail.model import Model
from longtail.report.card_picture import card_svg
from longtail.report.card_text import Facts, card_text, shown_split
from longtail.store import CARD_FILES

TEXT, FACTS, PICTURE = CARD_FILES
MOST_ROWS = 10_000  # of valid that are predicted for the card


@dataclass(frozen=True)
class Card:
    """What a card is written from, beside the model itself: what only training and evaluation know."""

    facts: Facts = field(default_factory=Facts)

    def with_measures(self, split: str, measures: Measures) -> Card:
        """The figures of one split; what was known of it before is replaced."""
        return Card(replace(self.facts, measured={**self.facts.measured, split: measures}))

    def files(self, model: Model) -> dict[str, str]:
        """The three files by name."""
        split = shown_split(self.facts.measured)
        measures = None if split is None else self.facts.measured[split]
        bins = () if measures is None else tuple(one for one in measures.bins if one.positives)
        said = "" if measures is None else f"@{measures.bins_at} on {split}"
        return {
            TEXT: card_text(model, self.facts, PICTURE),
            FACTS: json.dumps(_plain(self.facts), indent=1, allow_nan=False) + "\n",
            PICTURE: card_svg(model.labels, bins, said),
        }

    def write(self, model: Model, folder: str | Path) -> None:
        """Into a model's folder, each file whole."""
        for name, content in self.files(model).items():
            with new_file(Path(folder) / name) as file:
                file.write(content)

    @classmethod
    def read(cls, folder: str | Path) -> Card:
        """The card of a model's folder; an empty one where it has none, or one that somebody has broken."""
        try:
            return cls(_facts(json.loads((Path(folder) / FACTS).read_text(encoding="utf-8"))))
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return cls()


def _plain(facts: Facts) -> dict[str, Any]:
    """As JSON values."""
    return {**asdict(facts), "measured": {split: asdict(one) for split, one in facts.measured.items()}}


def _facts(plain: Mapping[str, Any]) -> Facts:
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
    return Facts(**{**plain, "measured": measured})
