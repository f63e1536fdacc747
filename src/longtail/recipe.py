"""Learner + tail methods -> model. The one place where the two meet."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path

import numpy as np

from longtail import catalogue, grammar
from longtail.data.corpus import hashed
from longtail.data.dataset import Dataset
from longtail.data.labels import LabelSet
from longtail.errors import DataError, RecipeError
from longtail.memory import return_large_blocks, share_one_pool
from longtail.model import Model
from longtail.nn.extra import at_home
from longtail.plan import Facts, Plan
from longtail.predictions import CANDIDATES, Predictions
from longtail.progress import stage
from longtail.seams import (
    DATA_NEEDS,
    AddsCost,
    Augments,
    ChecksData,
    HasTeacher,
    Learner,
    Ready,
    Reranks,
    Scorer,
    TailMethod,
    WarmStarts,
    Wraps,
)


@dataclass(frozen=True)
class Recipe:
    """One learner and the tail methods on it, applied left to right.

    >>> str(Recipe.parse("centroid+rerank( strength = 0.5 )"))
    'centroid + rerank(strength=0.5)'
    """

    parts: tuple[grammar.Part, ...]

    def __post_init__(self) -> None:
        # Building the parts checks names, settings and whether the parts go together: all before any data is read.
        if isinstance(self.parts, str):  # type: ignore[unreachable]
            raise RecipeError(f"a recipe that is written is parsed: Recipe.parse({self.parts!r})")
        if not self.parts:
            raise RecipeError("a recipe needs a learner")
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
        self._wrapped  # noqa: B018  a teacher that cannot be read is told here too

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
        planned = self._wrapped.plan(facts)
        for method in self.tail:
            if isinstance(method, AddsCost):
                planned = method.plan_on(planned, facts)
        return planned

    @property
    def leaves(self) -> type[Scorer]:
        """What kind of scorer its model has."""
        return self._wrapped.scorer

    @property
    def reranks(self) -> bool:
        return any(isinstance(method, Reranks) for method in self.tail)

    @cached_property
    def _wrapped(self) -> Learner:
        """The learner inside the tail methods that fit it in parts or with a teacher."""
        learner = self.learner
        if isinstance(learner, WarmStarts) and learner.warm is not None:
            learner = learner.begun_from(self._teachers[learner.warm])
        for method in self.tail:
            if isinstance(method, Wraps):
                learner = method.wrap(learner)
            elif isinstance(method, HasTeacher):
                learner = method.wrap_with(learner, self._teachers[method.teacher])
        return learner

    @cached_property
    def _teachers(self) -> dict[str, Recipe | Ready]:
        """The models that parts ask for, by what they wrote."""
        asked = {method.teacher: method for method in self.tail if isinstance(method, HasTeacher)}
        found = {text: _teacher(text, f"teacher of {catalogue.name_of(method)}") for text, method in asked.items()}
        if isinstance(self.learner, WarmStarts) and self.learner.warm is not None:
            found[self.learner.warm] = _teacher(self.learner.warm, f"warm start of {self.parts[0].name}")
        return found

    def check(self, data: Dataset) -> None:
        """Whether the data has what the parts need."""
        if len(data.labels) == 0:
            raise DataError("the data has no labels at all; check the labels field or column")
        if data.targets.nnz == 0 and "label_texts" not in self.learner.data_needs:
            raise DataError(f"no row of train has a label, so {self.parts[0].name} has nothing to learn from")
        if self._reads_rows and data.features is None and not any(map(str.strip, data.texts or ())):
            raise DataError("every text of train is empty, so nothing can be learned; check the text field or column")
        needs = [self.learner.data_needs, *(method.data_needs for method in self.tail)]
        for part, needed in zip(self.parts, needs, strict=True):
            for need in sorted(needed):
                if not _has(data, need):
                    raise DataError(f"{part.name} needs {DATA_NEEDS[need]}{self._instead(part, need)}")
        if isinstance(self.learner, ChecksData):
            self.learner.check(data)
        warm = self.learner.warm if isinstance(self.learner, WarmStarts) else None
        for text, teacher in self._teachers.items():
            if isinstance(teacher, Recipe) or text != warm:  # of a saved model only the encoder goes on
                teacher.check(data)

    @property
    def _reads_rows(self) -> bool:
        """Whether it learns from the given rows alone: who needs only label texts does not look at them, and others may
        have the texts of labels as rows too."""
        return self.learner.data_needs != {"label_texts"} and not any(isinstance(one, Augments) for one in self.tail)

    def _instead(self, part: grammar.Part, need: str) -> str:
        """What else helps a user whose data lacks something."""
        if need != "label_texts":
            return ""
        if part is not self.parts[0]:
            return f", or leave {part.name} out"
        ids = f", read ids instead with {part.name}(ids_as_text=true)" if hasattr(self.learner, "ids_as_text") else ""
        return f"{ids}, or use a learner that does not read them"

    def fit(self, train: Dataset, valid: Dataset) -> Model:
        """Augment the training rows, wrap the learner, fit it, then fit the re-rankers on held-out rows."""
        return self._fit(train, valid, len(self.tail))

    def _fit(self, train: Dataset, valid: Dataset, methods: int) -> Model:
        """The model whose re-rankers are those among the first `methods` tail methods."""
        return_large_blocks()
        if "texts" not in self.learner.data_needs.union(*(method.data_needs for method in self.tail)):
            share_one_pool()  # what reads texts itself cuts them in threads that would wait for each other
        self.check(train)
        if valid.labels is not train.labels and valid.labels.ids != train.labels.ids:
            raise DataError("train and valid are over different label sets; split one data set")
        given = train
        for part, method in zip(self.parts[1:], self.tail, strict=True):
            if isinstance(method, Augments):
                with stage(f"augmenting with {part.name}"):
                    train = method.augment(train)
        scorer = self._wrapped.fit(train, valid, self.tail)
        model = Model(str(self), train.labels, scorer)
        for place, method in enumerate(self.tail[:methods]):
            if isinstance(method, Reranks):
                # A fold's model is made like this one up to here: the same augmenting, the same earlier re-rankers.
                fit_fold = partial(self._fit, valid=valid, methods=place)
                model = model.with_reranker(method.fit_reranker(_HeldOut(model, given, valid, fit_fold)))
        return model


def _teacher(text: str, what: str) -> Recipe | Ready:
    """The model that a part asks for: a folder with a saved one, or else a recipe."""
    from longtail.store import MANIFEST, load

    if (at_home(text) / MANIFEST).is_file():
        model = load(at_home(text))
        return Ready(model, bool(model.rerankers))
    try:
        return Recipe.parse(text)
    except RecipeError as error:
        raise RecipeError(f"the {what} is no recipe and no model folder: {error}") from None


@dataclass(frozen=True)
class _HeldOut:
    """Predictions on rows their model has not seen, made when asked."""

    model: Model
    train: Dataset  # as given, before any tail method added rows or entries
    rows: Dataset
    fit_fold: Callable[[Dataset], Model]

    @property
    def labels(self) -> LabelSet:
        return self.model.labels

    def valid(self) -> tuple[Predictions, Dataset]:
        return self.model.predict(self.rows.rows, CANDIDATES, self.rows.excluded), self.rows

    def folds(self, number: int, most: int | None = None, seed: int = 0) -> tuple[Predictions, Dataset]:
        given = np.flatnonzero(self.train.origins == 0)
        if len(given) < 2:
            raise DataError(
                f"train has {len(given)} row, and some rows must be held out from others to learn from: give 2 or more"
            )
        if not 2 <= number <= len(given):
            raise DataError(f"{len(given)} training rows cannot be cut into {number} folds; give 2 to {len(given)}")
        places = hashed([self.train.ids[row] for row in given], seed)
        mixed = given[np.argsort(places, kind="stable")]  # folds of equal size: rows are dealt in order of their hash
        wanted = mixed[:most]
        indices = np.full((len(wanted), CANDIDATES), -1, dtype=np.int32)
        scores = np.zeros((len(wanted), CANDIDATES), dtype=np.float32)
        with stage("predicting out of fold", total=number) as advance:
            for fold in range(number):
                others = np.setdiff1d(np.arange(len(self.train)), mixed[fold::number])
                unseen = self.train.take(wanted[fold::number])
                if len(unseen):
                    found = self.fit_fold(self.train.take(others)).predict(unseen.rows, CANDIDATES, unseen.excluded)
                    indices[fold::number, : found.places] = found.indices
                    scores[fold::number, : found.places] = found.scores
                advance(1)
        order = np.argsort(wanted)  # back in the order of the training rows
        return Predictions(self.labels, indices[order], scores[order]), self.train.take(wanted[order])


def _has(data: Dataset, need: str) -> bool:
    if need == "label_texts":
        return data.labels.has_texts or data.labels.features is not None
    return data.texts is not None
