"""What a line of a comparison is: a recipe to train, with a seed, the folder of a saved model, or saved predictions."""

from __future__ import annotations

import re
from dataclasses import dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from longtail.data.corpus import Corpus
from longtail.data.dataset import Dataset
from longtail.errors import DataError, RecipeError, counted
from longtail.grammar import Member, Part, Setting
from longtail.model import MAX_SHARED_EXCLUSIONS, Model
from longtail.predictions import Predictions
from longtail.predictions_file import read_predictions
from longtail.recipe import Recipe
from longtail.store import MANIFEST, load

ARRAYS = ".npz"
PREDICTIONS_FILE = re.compile(r"[^'\"()]+(\.npz|\.jsonl(\.gz|\.xz)?)")  # never a recipe
A_PATH = re.compile(
    r"(?!.*\.toml$)[^'\"()=+]*[/.][^'\"()=+]*"
)  # never a recipe; those of a TOML file are read elsewhere
INNER_RECIPES = ("teacher", "tail_model", "init_from", "members")  # settings that name other recipes


@dataclass(frozen=True)
class SavedModel:
    """The folder of a model, as a line of a comparison. Nothing is trained."""

    folder: Path

    def __str__(self) -> str:
        return str(self.folder)

    @cached_property
    def model(self) -> Model:
        """The model in the folder."""
        return load(self.folder)

    def predict(self, data: Dataset, places: int) -> Predictions:
        """Predict over the labels of the data, matched by id; labels that only the model has are dropped.

        Args:
            data: the documents.
            places: labels a document.

        Returns:
            Predictions over the labels of the data.

        Raises:
            DataError: model and data have no label in common.
        """
        model = self.model
        if model.labels.ids == data.labels.ids:
            found = model.predict(data.rows, places, data.excluded)
            return Predictions(data.labels, found.indices, found.scores)
        row_of = np.array([data.labels.row_of.get(label, -1) for label in model.labels.ids], dtype=np.int32)
        if not (row_of >= 0).any():
            raise DataError(
                f"none of the {len(model.labels):,} labels of the model {self.folder} is a label of the data; compare "
                "it on data with the same label ids"
            )
        found = model.predict(data.rows, places + MAX_SHARED_EXCLUSIONS)  # more, because some are dropped
        indices = np.where(found.indices < 0, np.int32(-1), row_of[found.indices])
        order = np.argsort(indices < 0, axis=1, kind="stable")
        kept = Predictions(
            data.labels, np.take_along_axis(indices, order, axis=1), np.take_along_axis(found.scores, order, axis=1)
        )
        return kept.without(data.excluded).top(places)

    def notes(self, corpus: Corpus) -> tuple[str, ...]:
        """What a reader of its figures should know.

        Args:
            corpus: the data that it is compared on.

        Returns:
            Sentences.
        """
        model, labels = self.model, corpus.labels
        found = [f"a saved model, not trained here: {model.recipe}"]
        if model.text_field != corpus.text_field:
            found.append(f"it was trained on {model.text_field}, the data was read as {corpus.text_field}")
        counts = dict(zip(labels.ids, labels.counts.tolist(), strict=True))
        if [counts.get(label, 0) for label in model.labels.ids] != model.labels.counts.tolist():
            found.append(
                f"it was trained on {model.labels.train_rows:,} other examples; those measured on may be among them"
            )
        unknown = sum(label not in labels.row_of for label in model.labels.ids)
        if unknown:
            found.append(f"{unknown:,} of its labels are not in the data and were dropped")
        return tuple(found)


@dataclass(frozen=True)
class SavedPredictions:
    """A file of predictions for the documents that are compared on, as a line of a comparison.

    Either from `Predictions.save`, one row a document in the order of the data; or with a JSON object a line, as
    `longtail predict` writes it, matched by the documents' ids.
    """

    file: Path

    def __str__(self) -> str:
        return str(self.file)

    def predict(self, data: Dataset, places: int) -> Predictions:
        """Read the predictions.

        Args:
            data: the documents.
            places: labels a document.

        Returns:
            Predictions over the labels of the data.

        Raises:
            DataError: the file cannot be read, or is not about these documents and labels.
        """
        if self.file.suffix != ARRAYS:
            found = read_predictions(self.file, data)
        else:
            found = Predictions.load(self.file, data.labels)
            if len(found) != len(data):
                raise DataError(
                    f"has predictions for {counted(len(found), 'document')}, "
                    f"and {len(data):,} are compared on; predict those",
                    self.file,
                )
        return found.without(data.excluded).top(places)

    def notes(self, corpus: Corpus) -> tuple[str, ...]:
        """What a reader of its figures should know.

        Args:
            corpus: the data that it is compared on.

        Returns:
            Sentences.
        """
        return ("read from a file: nothing was trained or predicted here, and the size is that of the file",)


Saved = SavedModel | SavedPredictions
Entry = Recipe | Saved


def parse_entry(text: str | Entry) -> Entry:
    """Read a line of a comparison.

    Args:
        text: a recipe, the folder of a saved model, or a file of predictions.

    Returns:
        The recipe, the model or the predictions.

    Raises:
        RecipeError: the text is none of them.
        DataError: the text is the path of something else, or of nothing.
    """
    return (saved_entry(text) or Recipe.parse(text)) if isinstance(text, str) else text


def saved_entry(text: str) -> Saved | None:
    """Tell whether a line is something saved.

    Args:
        text: a line of a comparison.

    Returns:
        The model or the predictions; None for a recipe.

    Raises:
        DataError: the text is the path of something else, or of nothing.
    """
    if not text or "\0" in text or len(text) >= 4096:
        return None
    path = Path(text).expanduser()
    if (path / MANIFEST).is_file():
        return SavedModel(path)
    if not PREDICTIONS_FILE.fullmatch(text):
        if A_PATH.fullmatch(text):
            what = "is no folder of a saved model" if path.exists() else "does not exist"
            wanted = "the folder of a saved model, a file of predictions, or a recipe; recipe files end in .toml"
            raise DataError(f"{what}; give {wanted}", path)
        return None
    if not path.is_file():
        raise DataError("does not exist; give a file of predictions, a recipe or the folder of a saved model", path)
    return SavedPredictions(path)


def reseeded(recipe: Recipe, seed: int) -> Recipe:
    """Add to the seed of each part, and of the recipes that parts name.

    Args:
        recipe: the recipe as written.
        seed: 0 leaves it as it is.

    Returns:
        The recipe; equal to the one given where none of its parts draws random numbers.
    """
    if seed == 0:
        return recipe
    objects = (recipe.learner, *recipe.tail)
    return Recipe(tuple(_reseeded(part, one, seed) for part, one in zip(recipe.parts, objects, strict=True)))


def _reseeded(part: Part, built: Any, seed: int) -> Part:
    names = {field.name for field in fields(built)}
    changed = {"seed": built.seed + seed} if "seed" in names else {}
    for name in INNER_RECIPES:
        if name in names:
            value = getattr(built, name)
            several = isinstance(value, tuple | list)
            texts = [_reseeded_text(text, seed) for text in (value if several else [value])]
            if texts != list(value if several else [value]):
                changed[name] = tuple(texts) if several else texts[0]
    members = tuple(map(Member, changed.pop("members"))) if "members" in changed else part.members
    kept = tuple(one for one in part.settings if one.name not in changed)
    settings = (*kept, *(Setting(name, value) for name, value in changed.items()))
    return replace(part, members=members, settings=settings)


def _reseeded_text(text: Any, seed: int) -> Any:
    """An inner recipe with another seed; a folder, a file and other values stay as they are."""
    if not isinstance(text, str) or Path(text).expanduser().exists():
        return text
    try:
        recipe = Recipe.parse(text)
    except RecipeError:
        return text
    other = reseeded(recipe, seed)
    return text if other == recipe else str(other)


def read_seeds(given: int | str | tuple[int, ...] | list[int]) -> tuple[int, ...]:
    """Read how many seeds, or which.

    Args:
        given: 5 for the seeds 0 to 4, or a list; as text "5" or "3,7,11".

    Returns:
        The seeds, in their order.

    Raises:
        DataError: no number, a number below 0, or a seed twice.
    """
    try:
        if isinstance(given, str):
            words = [int(word) for word in given.split(",") if word.strip()]
            seeds = tuple(words) if "," in given else tuple(range(*words))
        else:
            seeds = tuple(range(given)) if isinstance(given, int) else tuple(map(int, given))
    except (TypeError, ValueError):
        seeds = ()
    if not seeds or min(seeds) < 0 or len(set(seeds)) < len(seeds) or len(seeds) > 1000:
        raise DataError(f"seeds are a number such as 5, or a list of different ones such as 3,7,11, got {given!r}")
    return seeds
