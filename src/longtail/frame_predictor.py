"""A model as a function that other engines carry to their workers: Spark, Dask, Ray Data, a pool of processes.

It holds a path and a few settings, so it pickles in a hundred bytes, and loads the model once in each process.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from longtail.data.dataset import Rows
from longtail.data.text_language import LanguageCells
from longtail.errors import DataError
from longtail.store import load

if TYPE_CHECKING:
    from longtail.model import Model

KEPT = 2  # models that a process keeps loaded


@lru_cache(maxsize=KEPT)
def loaded_model(path: str, checksum: str | None = None) -> Model:
    """Load a model once in a process.

    Args:
        path: the model folder.
        checksum: of its manifest: another one is another model.

    Returns:
        The model.

    Raises:
        ModelError: the folder is missing or damaged.
    """
    return load(path)


@dataclass(frozen=True)
class Predictor:
    """Takes documents and returns their labels; pickles small, loads once a process. Made by `longtail.predictor`."""

    path: str
    k: int = 5
    threshold: float | None = None
    dial: float = 0.0
    text: str | None = None  # column of the texts; None: the one of training

    def __call__(self, documents: Any) -> Any:
        """Predict the labels of documents.

        Args:
            documents: a frame of pandas or Polars or an Arrow table, with the column of texts; or texts: a series, an
                array, a list.

        Returns:
            A frame: the one that was given, with the columns "labels" (ids, best first) and "scores" behind its own.
            A series: a frame of these two columns with the same index. An array or a list: one dict of the two for
            each text, as Spark's `predict_batch_udf` takes them.

        Raises:
            DataError: there is no column of texts, or a text is not a string.
        """
        kind = type(documents).__module__.partition(".")[0]
        columns = getattr(documents, "column_names", None) or getattr(documents, "columns", None)
        if columns is None:
            found = self._answers(list(documents), None)
            if kind != "pandas":
                return [{"labels": labels, "scores": scores} for labels, scores in zip(*found, strict=True)]
            import pandas  # type: ignore[import-untyped,unused-ignore]

            return pandas.DataFrame(dict(zip(("labels", "scores"), found, strict=True)), index=documents.index)
        names, field = list(map(str, columns)), self.model.language_field
        cells = LanguageCells()  # an unknown code is no reason to stop: that text's language is guessed
        languages = (
            [cells.code(one, Path(self.path), 0) for one in _listed(documents[field])] if field in names else None
        )
        labels, scores = self._answers(self._texts(documents, names), languages)
        if kind == "polars":
            import polars

            new = [
                polars.Series("labels", labels, dtype=polars.List(polars.String)),
                polars.Series("scores", scores, dtype=polars.List(polars.Float32)),
            ]
            return documents.with_columns(new)
        if kind == "pyarrow":
            import pyarrow

            return documents.append_column(
                "labels", pyarrow.array(labels, pyarrow.list_(pyarrow.string()))
            ).append_column("scores", pyarrow.array(scores, pyarrow.list_(pyarrow.float32())))
        return documents.assign(labels=labels, scores=scores)

    @property
    def model(self) -> Model:
        """The model, loaded on first use in this process."""
        return loaded_model(self.path)

    def _texts(self, frame: Any, columns: list[str]) -> list[Any]:
        """The texts of a frame; several fields are joined as in training."""
        field = self.text or self.model.text_field
        wanted = [field] if field in columns else [name for name in field.split("+") if name in columns]
        wanted = wanted or [name for name in ("text",) if name in columns and self.text is None]
        if not wanted:
            raise DataError(
                f"the frame has no column {field!r}; its columns are {', '.join(columns[:30])}; name the column of the "
                "texts: longtail.predictor(path, text=...)"
            )
        cells = [_listed(frame[name]) for name in wanted]
        if len(cells) == 1:
            return cells[0]
        return [" ".join(part for part in parts if part) for parts in zip(*cells, strict=True)]

    def _answers(
        self, texts: Sequence[Any], languages: Sequence[str] | None
    ) -> tuple[list[list[str]], list[list[float]]]:
        wrong = next((place for place, text in enumerate(texts) if text is not None and not isinstance(text, str)), -1)
        if wrong >= 0:
            raise DataError(f"text {wrong} is not a string but {type(texts[wrong]).__name__}: {texts[wrong]!s:.40}")
        if not texts:
            return [], []
        model = self.model
        rows = Rows(texts=tuple(text or "" for text in texts), languages=languages)
        predictions = model.predict(rows, max(min(self.k, len(model.labels)), 1), None, self.dial)
        if self.threshold is not None:
            predictions = predictions.above(self.threshold)
        labels = [[answer.id for answer in answers] for answers in predictions]
        scores = [[float(np.float32(answer.score)) for answer in answers] for answers in predictions]
        return labels, scores


def predictor(
    path: str | Path, k: int = 5, threshold: float | None = None, dial: float = 0.0, text: str | None = None
) -> Predictor:
    """Make a function of a model that pickles small and loads once a process.

    Args:
        path: the model folder, on a disk that every worker sees.
        k: most labels of a document.
        threshold: labels that score less are left out.
        dial: see `Model.predict`.
        text: column of the texts in frames; None: the one of training, or "text".

    Returns:
        The function; see `Predictor.__call__`.

    Raises:
        DataError: k is below 1.
    """
    if k < 1:
        raise DataError(f"k must be at least 1, got {k}")
    return Predictor(str(Path(path).resolve()), k, threshold, dial, text)


def _listed(column: Any) -> list[Any]:
    for name in ("to_pylist", "to_list", "tolist"):
        if hasattr(column, name):
            return [None if value != value else value for value in getattr(column, name)()]  # NaN: pandas' lack of one
    return list(column)
