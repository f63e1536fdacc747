"""Models in folders: save one, load one. What a folder holds, file by file, is in `longtail.model_files`."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING

from longtail.model import Model
from longtail.model_files import CARD_FILES as CARD_FILES
from longtail.model_files import MANIFEST as MANIFEST
from longtail.model_files import check_place as check_place
from longtail.model_files import size_on_disk as size_on_disk
from longtail.model_loading import read_model

if TYPE_CHECKING:
    from longtail.data.labels import LabelSet
    from longtail.report.card import Card


def save(model: Model, path: str | Path, *, overwrite: bool = False, card: Card | None = None) -> Path:
    """Write the model as a folder, all of it or nothing.

    Args:
        model: the model.
        path: the folder; it must not exist unless `overwrite` is set.
        overwrite: replace a model that is already there.
        card: the model card; without one the model gets a card of what it knows itself.

    Returns:
        The path of the folder.
    """
    return model.save(path, overwrite=overwrite, card=card)


def load(path: str | Path, *, mapped: bool = False, known: LabelSet | None = None) -> Model:
    """Read a model folder. Nothing in it is executed.

    Args:
        path: the folder.
        mapped: map its files instead of reading them into memory: processes that serve the same model share its
            arrays. The files must not be edited in place meanwhile; replacing the folder does no harm.
        known: labels that the model may have, such as those of the data it was trained on; if it has exactly these,
            they are not read again, which takes most of the time of loading a small model with many labels.

    Returns:
        The model as it was saved.

    Raises:
        ModelError: the folder is not exactly what was written, or another release wrote it.
    """
    parts = read_model(path, mapped, known)
    return Model(**{field.name: getattr(parts, field.name) for field in fields(parts)})
