"""Learner + tail methods -> model. The one file where the two meet.

A teacher is passed in, not imported. `lever`, `ensemble` and the setting `init_from` of a learner name another recipe
or the folder of a saved model, and so do the members of `fuse`. The recipe parses that name when it is parsed itself,
checks the teacher with the data, and passes it to `wrap_with`, `initialised_from` or `made_of` as something that can
be planned and fitted. What no model holds but
a report shows, such as how good the teacher was, goes through `longtail.progress.emit`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, cast

from longtail import catalogue, grammar
from longtail.data.dataset import Dataset
from longtail.errors import DataError, RecipeError
from longtail.held_out import HeldOutPredictions
from longtail.memory import return_large_blocks, share_one_pool
from longtail.model import Model
from longtail.nn.extra import expand_home
from longtail.pairs import check_pairs
from longtail.plan import DataFacts, Plan
from longtail.progress import stage
from longtail.reuse import stage_model
from longtail.seams import (
    DATA_NEEDS,
    AddsCost,
    Augments,
    ChecksData,
    ChoosesOnValid,
    FittedTeacher,
    HasMembers,
    HasTeacher,
    Learner,
    Reranks,
    Scorer,
    TailMethod,
    WarmStarts,
    Wraps,
    seams_of,
    shared_fit,
)
from longtail.store import MANIFEST, load

if TYPE_CHECKING:
    from longtail.seams import MemberRecipe

MAX_DEPTH = 4  # recipes inside recipes


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
            raise RecipeError(f"a recipe as text must be parsed: Recipe.parse({self.parts!r})")
        if not self.parts:
            raise RecipeError("a recipe needs a learner")
        object.__setattr__(self, "parts", (catalogue.spelled_out(self.parts[0]), *self.parts[1:]))
        check_pairs(self.parts, self.learner, self.tail)
        if self.depth > MAX_DEPTH:
            raise RecipeError(f"members in members: {self.depth} levels of recipes, and at most {MAX_DEPTH} are read")
        self.fitted_learner  # noqa: B018  raises an error for a teacher that cannot be read

    @classmethod
    def parse(cls, text: str) -> Recipe:
        """Read a recipe.

        Args:
            text: `learner(setting=value) + method(...)`.

        Returns:
            The recipe.

        Raises:
            RecipeError: the text is no recipe, a name or a setting is unknown, or the parts do not go together.
        """
        return cls(grammar.parse(text))

    @classmethod
    def of(cls, learner: Learner, *tail: TailMethod) -> Recipe:
        """Make a recipe from objects.

        Args:
            learner: a learner with its settings.
            tail: tail methods with theirs, in the order in which they are applied.

        Returns:
            The recipe; its text has only the settings that differ from their defaults.

        Raises:
            RecipeError: an object is not in the catalogue, or the parts do not go together.
        """
        return cls(tuple(catalogue.describe(part) for part in (learner, *tail)))

    @classmethod
    def from_toml(cls, text: str, path: str | Path | None = None) -> list[Recipe]:
        """Read the recipes of a TOML file.

        Args:
            text: the content of the file.
            path: the file, for error messages.

        Returns:
            The recipes, in their order.

        Raises:
            RecipeError: the text is no TOML, or one of the recipes is wrong.
        """
        return [cls(parts) for parts in grammar.read_toml(text, path)]

    def to_toml(self) -> str:
        """Write the recipe as TOML.

        Returns:
            A text that `from_toml` reads.
        """
        return grammar.to_toml(self.parts)

    def __str__(self) -> str:
        return " + ".join(map(str, self.parts))

    @cached_property
    def learner(self) -> Learner:
        """The learner with its settings."""
        first = self.parts[0]
        return catalogue.build(first, catalogue.learner_class(first.name))  # type: ignore[no-any-return]

    @cached_property
    def tail(self) -> tuple[TailMethod, ...]:
        """The tail methods with their settings."""
        return tuple(catalogue.build(part, catalogue.tail_class(part.name)) for part in self.parts[1:])

    def plan(self, facts: DataFacts) -> Plan:
        """Estimate the memory and time that this recipe needs.

        Args:
            facts: sizes of the data, from `DataFacts.of(train)`.

        Returns:
            The plan of the learner and all tail methods.
        """
        planned = self.fitted_learner.plan(facts)
        for method in self.tail:
            if isinstance(method, AddsCost):
                planned = method.plan_on(planned, facts)
        return planned

    @property
    def scorer_class(self) -> type[Scorer]:
        """The class of the scorer that its model has."""
        return self.fitted_learner.scorer

    @property
    def reranks(self) -> bool:
        """Whether its model has re-rankers."""
        return any(isinstance(method, Reranks) for method in self.tail)

    @property
    def runs_in_jobs(self) -> bool:
        """Whether parts of its training can run as jobs: those of its learner, members or teachers, or folds."""
        return self._cuts_itself or any(getattr(one, "folds", 0) for one in (self.learner, *self.tail))

    @property
    def _cuts_itself(self) -> bool:
        """Whether trees are trained in jobs, rather than whole folds."""
        inner = (self.learner, *self._teachers.values(), *self._members)
        return any(getattr(one, "runs_in_jobs", False) for one in inner)

    @property
    def is_fitted(self) -> bool:
        """See `MemberRecipe.is_fitted`."""
        return False

    @property
    def depth(self) -> int:
        """Levels of recipes: 1 without members."""
        inner = (member.depth if isinstance(member, Recipe) else 1 for member in self._members)
        return 1 + max(inner, default=0)

    @property
    def member_recipes(self) -> tuple[Recipe, ...]:
        """The members that are recipes, not saved models."""
        return tuple(member for member in self._members if isinstance(member, Recipe))

    @cached_property
    def fits(self) -> tuple[str, ...]:
        """See `MemberRecipe.fits`."""
        return (self._scorer_parts, *(one for member in self._members for one in member.fits))

    @cached_property
    def _scorer_parts(self) -> str:
        """The parts that make the scorer, with all their settings: those that only re-rank leave it as it is."""
        return " + ".join(map(repr, (self.learner, *filter(_trains, self.tail))))

    @cached_property
    def _members(self) -> tuple[Recipe | FittedTeacher, ...]:
        """The members of a learner that combines recipes."""
        learner, name = self.learner, self.parts[0].name
        members = learner.members if isinstance(learner, HasMembers) else ()
        return tuple(_teacher(text, f"member {text!r} of {name}") for text in members)

    @cached_property
    def fitted_learner(self) -> Learner:
        """The learner that `fit` trains: with its members, inside the tail methods that wrap it."""
        learner = self.learner
        if isinstance(learner, HasMembers):
            learner = learner.made_of(cast("tuple[MemberRecipe, ...]", self._members))
        if isinstance(learner, WarmStarts) and learner.init_from is not None:
            learner = learner.initialised_from(self._teachers[learner.init_from])
        for method in self.tail:
            if isinstance(method, ChoosesOnValid):
                learner = method.chosen_on_valid(learner)
            if isinstance(method, Wraps):
                learner = method.wrap(learner)
            elif isinstance(method, HasTeacher) and method.teacher is not None:
                learner = method.wrap_with(learner, self._teachers[method.teacher])
        return learner

    @cached_property
    def _teachers(self) -> dict[str, Recipe | FittedTeacher]:
        """The models that parts need, by the text that names them."""
        asking = [method for method in self.tail if isinstance(method, HasTeacher)]
        needed = {method.teacher: method for method in asking if method.teacher is not None}
        found = {text: _teacher(text, f"teacher of {catalogue.name_of(method)}") for text, method in needed.items()}
        if isinstance(self.learner, WarmStarts) and self.learner.init_from is not None:
            found[self.learner.init_from] = _teacher(self.learner.init_from, f"warm start of {self.parts[0].name}")
        return found

    def check(self, data: Dataset) -> None:
        """Check that the data has what the parts need.

        Args:
            data: training rows.

        Raises:
            DataError: something is missing; the message names what to do.
        """
        if len(data.labels) == 0:
            raise DataError("the data has no labels at all; check the labels field or column")
        if data.targets.nnz == 0 and "label_texts" not in self.learner.data_needs:
            raise DataError(f"no example of train has a label, so {self.parts[0].name} has nothing to learn from")
        if self._reads_rows and data.features is None and not any(map(str.strip, data.texts or ())):
            raise DataError("every text of train is empty, so nothing can be learned; check the text field or column")
        needs = [self.learner.data_needs, *(method.data_needs for method in self.tail)]
        for part, needed in zip(self.parts, needs, strict=True):
            for need in sorted(needed):
                if not _has(data, need):
                    raise DataError(f"{part.name} needs {DATA_NEEDS[need]}{self._instead(part, need)}")
        if isinstance(self.learner, ChecksData):
            self.learner.check(data)
        for member in self._members:
            if isinstance(member, Recipe):
                member.check(data)
            elif not any(label in member.model.labels.row_of for label in data.labels.ids):
                raise DataError(
                    f"the saved model {member.model.recipe} and the data have no label in common, so it cannot be a "
                    f"member of {self.parts[0].name}; train it on this data, or name its recipe instead of its folder"
                )
        init_from = self.learner.init_from if isinstance(self.learner, WarmStarts) else None
        for text, teacher in self._teachers.items():
            # A saved model to start from may know other labels: only its encoder is used.
            if isinstance(teacher, Recipe) or text != init_from:
                teacher.check(data)

    @property
    def _reads_rows(self) -> bool:
        """Whether it learns from the given rows alone: it reads them, and no tail method may add texts of labels."""
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
        """Augment the training rows, wrap the learner, fit it, then fit the re-rankers on held-out rows.

        Args:
            train: rows to learn from.
            valid: rows to choose and calibrate on, over the same label set; there may be none.

        Returns:
            The fitted model.

        Raises:
            DataError: the data lacks what a part needs, or train and valid have different label sets.
        """
        return self.fit_first(train, valid, len(self.tail))

    def refit(self, chosen: Model, train: Dataset) -> Model:
        """Train the learner once more, on all rows, and keep the re-rankers that were fitted on held-out ones.

        A learner that stops early or keeps its best epoch on valid trains all its epochs here.

        Args:
            chosen: the model of this recipe, fitted on train and valid.
            train: the rows of train and valid together, from `Corpus.train_and_valid`.

        Returns:
            The model.
        """
        return replace(self.fit_first(train, train.take([]), 0), rerankers=chosen.rerankers)

    def fit_first(self, train: Dataset, valid: Dataset, methods: int) -> Model:
        """See `fit`: with the re-rankers among the first `methods` tail methods, as folds for the next one are."""
        return_large_blocks()
        needs = self.learner.data_needs.union(*(method.data_needs for method in self.tail))
        if not self._members and "texts" not in needs:
            share_one_pool()  # not with tokenizers: their threads allocate without pause and would wait for each other
        self.check(train)
        if valid.labels is not train.labels and valid.labels.ids != train.labels.ids:
            raise DataError("train and valid are over different label sets; split one data set")
        name = self.trained_part
        model = stage_model(name, train, valid, partial(self._fit_learner, train, valid))
        model = replace(model, recipe=str(self), labels=train.labels)
        for place, (part, method) in enumerate(zip(self.parts[1:], self.tail[:methods], strict=False)):
            if isinstance(method, Reranks):
                # A fold's model is made like this one so far: the same augmenting, the same earlier re-rankers.
                fit_fold = partial(self.fit_first, valid=valid, methods=place)
                elsewhere = "" if self._cuts_itself else str(self)
                held_out = HeldOutPredictions(model, train, valid, fit_fold, name, elsewhere, place)
                name = f"{name} | {part}"
                model = stage_model(name, train, valid, partial(_with_reranker, model, method, held_out))
                model = replace(model, recipe=str(self), labels=train.labels)
        return model

    @property
    def trained_part(self) -> str:
        """The recipe without what only re-ranks: recipes with the same text here train the same learner."""
        trained = zip(self.parts[1:], self.tail, strict=True)
        return " + ".join(str(part) for part in (self.parts[0], *(part for part, one in trained if _trains(one))))

    @property
    def stages(self) -> tuple[str, ...]:
        """The names of all stages that `fit` asks `longtail.reuse` for, those of teachers and members first."""
        inner = (*self._teachers.values(), *self._members)
        names = [name for one in inner if isinstance(one, Recipe) for name in one.stages]
        names.append(self.trained_part)
        for part, method in zip(self.parts[1:], self.tail, strict=True):
            if isinstance(method, Reranks):
                names.append(f"{names[-1]} | {part}")
        return tuple(names)

    def _fit_learner(self, train: Dataset, valid: Dataset) -> Model:
        """The model without re-rankers."""
        inside = tuple(filter(_trains, self.tail))
        scorer = shared_fit(
            self._scorer_parts, train, valid, lambda: self.fitted_learner.fit(self._augmented(train), valid, inside)
        )
        return Model(str(self), train.labels, scorer)

    def _augmented(self, train: Dataset) -> Dataset:
        """The training rows with what the tail methods add."""
        for part, method in zip(self.parts[1:], self.tail, strict=True):
            if isinstance(method, Augments):
                with stage(f"augmenting with {part.name}"):
                    train = method.augment(train)
        return train


def _trains(method: TailMethod) -> bool:
    """Whether a tail method has a part in training the learner, and does not only re-rank."""
    return seams_of(type(method)) != ("rerank",)


def _with_reranker(model: Model, method: Reranks, held_out: HeldOutPredictions) -> Model:
    return model.with_reranker(method.fit_reranker(held_out))


def _teacher(text: str, what: str) -> Recipe | FittedTeacher:
    """The model that a part needs: the folder of a saved one, or else a recipe."""
    if (expand_home(text) / MANIFEST).is_file():
        model = load(expand_home(text))
        return FittedTeacher(model, bool(model.rerankers))
    try:
        return Recipe.parse(text)
    except RecipeError as error:
        raise RecipeError(f"the {what} is no recipe and no model folder: {error}") from None


def _has(data: Dataset, need: str) -> bool:
    labels = data.labels
    named = labels.has_texts or labels.features is not None
    return {"hierarchy": labels.broader is not None, "label_texts": named, "texts": data.texts is not None}[need]
