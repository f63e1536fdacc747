"""Compile kernels ahead, so that nobody waits for them and no recipe's time includes them.

    python -m longtail.warmup "parabel + ranknet" "fastxml"

Numba compiles a kernel when it first runs and keeps it on disk, once a machine. Training a recipe on a handful of rows
runs every kernel it needs; an installation or the build of a container can do so ahead.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import suppress

import numpy as np
from scipy import sparse

from longtail.data.dataset import Dataset
from longtail.data.labels import LabelSet
from longtail.errors import LongtailError
from longtail.progress import checking, stage
from longtail.recipe import Recipe
from longtail.seams import HasTeacher

LABELS = 240  # more than a leaf of a label tree holds, so that the tree is split
ROWS = 480


def warm_up(recipes: Sequence[Recipe], like: Dataset) -> None:
    """Train each recipe on a few rows and predict once, so that its kernels are compiled.

    A recipe is left out where a longer one has all its parts. One that cannot be trained on so few rows is left out
    too: its kernels compile when they are needed.

    Args:
        recipes: the recipes.
        like: the few rows have texts or features as this data has, since kernels are compiled for types.
    """
    with stage("compiling kernels"):
        _compile_measures()
        rows = few_rows(like.texts is not None, like.features is not None)
        covered: set[str] = set()
        for recipe in sorted(map(_without_teachers, recipes), key=lambda one: -len(one.parts)):
            parts = set(map(str, recipe.parts))
            if _compiles(recipe) and not parts <= covered:
                covered |= parts
                # What is chosen on these rows is not what will be chosen on the data, so nothing of it is logged.
                with suppress(LongtailError), checking(lambda: None, quiet=True):
                    recipe.fit(rows, rows).predict(rows.rows, 5)


def _without_teachers(recipe: Recipe) -> Recipe:
    """The recipe without tail methods that train a teacher first: it may be large, and the rest has the kernels."""
    tail = zip(recipe.parts[1:], recipe.tail, strict=True)
    return Recipe((recipe.parts[0], *(part for part, method in tail if not isinstance(method, HasTeacher))))


def _compiles(recipe: Recipe) -> bool:
    """Whether the learner reads tf-idf features: others have no Numba kernels, or load an encoder first. A combination
    has kernels of its own where all its members are such learners, or search label texts."""
    from longtail.linear.features.tfidf_settings import TfidfSettings

    members = recipe.member_recipes
    if members:
        return all(_compiles(member) or member.learner.data_needs == {"label_texts"} for member in members)
    return isinstance(recipe.learner, TfidfSettings)


def _compile_measures() -> None:
    from longtail.linear.features.sparse_features import Vocabulary
    from longtail.linear.features.sparse_top import sparse_top

    Vocabulary.learn(["a word"])[0].count(["a word"])
    one = sparse.csr_array(np.ones((1, 1), dtype=np.float32))
    sparse_top(one, one, 1)


def few_rows(texts: bool, features: bool = False) -> Dataset:
    """Make a small data set, whose rows name their two labels.

    Args:
        texts: whether rows have texts.
        features: whether rows have features.

    Returns:
        ROWS rows over LABELS labels.
    """
    labels = LabelSet(ids=tuple(map(str, range(LABELS))), texts=tuple(f"word{label}" for label in range(LABELS)))
    columns = np.sort((np.arange(2 * ROWS, dtype=np.int32) * 7 % LABELS).reshape(ROWS, 2), axis=1)
    starts = np.arange(0, 2 * ROWS + 1, 2)
    targets = sparse.csr_array((np.ones(2 * ROWS, dtype=np.float32), columns.ravel(), starts), shape=(ROWS, LABELS))
    return Dataset(
        labels=labels.counted(targets),
        targets=targets,
        ids=tuple(map(str, range(ROWS))),
        texts=tuple(f"word{first} and word{second}" for first, second in columns) if texts else None,
        features=targets.copy() if features else None,
    )


def main(recipes: Sequence[str]) -> None:
    """Warm up for data with texts, and end the process with a message where a recipe is wrong.

    Args:
        recipes: recipes as text.
    """
    texts = few_rows(texts=True)
    try:
        warm_up([Recipe.parse(recipe) for recipe in recipes], texts)
    except LongtailError as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main(sys.argv[1:])
