"""Learner + tail methods -> model. The one place where the two meet."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from longtail import catalogue, grammar
from longtail.data.dataset import Dataset
from longtail.data.labels import LabelSet
from longtail.errors import DataError, RecipeError
from longtail.model import Model
from longtail.plan import Facts, Plan
from longtail.predictions import CANDIDATES, Predictions
from longtail.progress import stage
from longtail.seams import DATA_NEEDS, Augments, Learner, Reranks, TailMethod, Wraps


@dataclass(frozen=True)
class Recipe:
    """One learner and the tail methods on it, applied left to right.

    >>> str(Recipe.parse("centroid+rerank( strength = 0.5 )"))
    'centroid + rerank(strength=0.5)'
    """

    parts: tuple[grammar.Part, ...]

    def __post_init__(self) -> None:
        # Building the parts checks names, settings and whether the parts go together: all before any data is read.
        offers = self.learner.offers
        for part, method in zip(self.parts[1:], self.tail, strict=True):
            missing = sorted(method.needs - offers)
            if missing:
                able = [name for name in catalogue.LEARNERS if method.needs <= catalogue.learner_class(name).offers]
                instead = f"use it on {', '.join(able)}" if able else "no learner of this release offers it"
                raise RecipeError(
                    f"{part.name} needs {', '.join(missing)}, which {self.parts[0].name} does not offer; {instead}. "
                    "All pairs: longtail methods"
                )

    @classmethod
    def parse(cls, text: str) -> Recipe:
        """Read `learner(setting=value) + method(...)`."""
        return cls(grammar.parse(text))

    @classmethod
    def of(cls, learner: Learner, *tail: TailMethod) -> Recipe:
        """A recipe from objects; only settings that differ from their defaults are written."""
        return cls(tuple(catalogue.describe(part) for part in (learner, *tail)))

    @classmethod
    def from_toml(cls, text: str, path: str | Path | None = None) -> list[Recipe]:
        """The recipes of a TOML file."""
        return [cls(parts) for parts in grammar.read_toml(text, path)]

    def to_toml(self) -> str:
        return grammar.to_toml(self.parts)

    def __str__(self) -> str:
        return " + ".join(map(str, self.parts))

    @cached_property
    def learner(self) -> Learner:
        first = self.parts[0]
        return catalogue.build(first, catalogue.learner_class(first.name))  # type: ignore[no-any-return]

    @cached_property
    def tail(self) -> tuple[TailMethod, ...]:
        return tuple(catalogue.build(part, catalogue.tail_class(part.name)) for part in self.parts[1:])

    def plan(self, facts: Facts) -> Plan:
        """Memory and time this recipe will need on data of these sizes."""
        return self.learner.plan(facts)

    def check(self, data: Dataset) -> None:
        """Whether the data has what the parts need."""
        if len(data.labels) == 0:
            raise DataError("the data has no labels at all; check the labels field or column")
        if data.targets.nnz == 0 and "label_texts" not in self.learner.data_needs:
            raise DataError(f"no row of train has a label, so {self.parts[0].name} has nothing to learn from")
        needs = [self.learner.data_needs, *(method.data_needs for method in self.tail)]
        for part, needed in zip(self.parts, needs, strict=True):
            for need in sorted(needed):
                if not _has(data, need):
                    raise DataError(f"{part.name} needs {DATA_NEEDS[need]}")

    def fit(self, train: Dataset, valid: Dataset) -> Model:
        """Augment the training rows, wrap the learner, fit it, then fit the re-rankers on held-out rows."""
        self.check(train)
        learner, given = self.learner, train
        for method in self.tail:
            if isinstance(method, Wraps):
                learner = method.wrap(learner)
        for part, method in zip(self.parts[1:], self.tail, strict=True):
            if isinstance(method, Augments):
                with stage(f"augmenting with {part.name}"):
                    train = method.augment(train)
        scorer = learner.fit(train, valid, self.tail)
        model = Model(str(self), train.labels, scorer)
        for method in self.tail:
            if isinstance(method, Reranks):
                reranker = method.fit_reranker(_HeldOut(model, given, valid))
                model = model.with_reranker(reranker)
        return model


@dataclass(frozen=True)
class _HeldOut:
    """Predictions of the model so far on the valid split, made when asked."""

    model: Model
    train: Dataset  # as given, before any tail method added rows or entries
    rows: Dataset

    @property
    def labels(self) -> LabelSet:
        return self.model.labels

    def valid(self) -> tuple[Predictions, Dataset]:
        return self.model.predict(self.rows.rows, CANDIDATES, self.rows.excluded), self.rows


def _has(data: Dataset, need: str) -> bool:
    if need == "label_texts":
        return data.labels.has_texts or data.labels.features is not None
    return data.texts is not None
