"""Compiling kernels before anybody waits for them or is charged for them.

    python -m longtail.warmup "parabel + ranknet" "fastxml"

Numba compiles a kernel when it first runs and keeps it on disk, once a machine. Running a recipe on a handful of rows
is the surest way to meet every kernel it needs; an installation or the build of a container can do so ahead.
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
from longtail.progress import stage
from longtail.recipe import Recipe
from longtail.seams import HasTeacher

LABELS = 240  # more than a leaf of a label tree holds, so that the tree has a fork
ROWS = 480


def warm_up(recipes: Sequence[Recipe], like: Dataset) -> None:
    """Train each of the recipes on a few rows that have what `like` has, texts or features, and ask it once.

    A recipe all of whose parts another one has is not run, and one that these rows are too few for is let go: its
    kernels compile when they are needed.
    """
    with stage("compiling kernels"):
        _compile_measures()
        rows = few_rows(like.texts is not None, like.features is not None)
        covered: set[str] = set()
        for recipe in sorted(map(_untaught, recipes), key=lambda one: -len(one.parts)):
            parts = set(map(str, recipe.parts))
            if _compiles(recipe) and not parts <= covered:
                covered |= parts
                with suppress(LongtailError):
                    recipe.fit(rows, rows).predict(rows.rows, 5)


def _untaught(recipe: Recipe) -> Recipe:
    """Without the tail methods that train a teacher first: it may be large, and the rest has the kernels."""
    taught = [isinstance(method, HasTeacher) for method in recipe.tail]
    return Recipe((recipe.parts[0], *(part for part, has in zip(recipe.parts[1:], taught, strict=True) if not has)))


def _compiles(recipe: Recipe) -> bool:
    """Whether the learner is of those over words: others have no kernels, or load an encoder first."""
    from longtail.linear.reading import Reading

    return isinstance(recipe.learner, Reading)


def _compile_measures() -> None:
    from longtail.linear.text import Vocabulary
    from longtail.linear.top import sparse_top

    Vocabulary.learn(["a word"])[0].count(["a word"])
    one = sparse.csr_array(np.ones((1, 1), dtype=np.float32))
    sparse_top(one, one, 1)


def few_rows(texts: bool, features: bool = False) -> Dataset:
    """Rows of two labels each that name them."""
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
    """Warm up for data with texts."""
    texts = few_rows(texts=True)
    try:
        warm_up([Recipe.parse(recipe) for recipe in recipes], texts)
    except LongtailError as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main(sys.argv[1:])
