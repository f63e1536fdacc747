"""Label vectors as a NumPy array, for any vector database.

vectors.npy     (labels, dimension) float32; search it by inner product
labels.jsonl    {"id", "text", "count"} of the label of each row
export.json     how to compare texts with the vectors, and how to turn products into probabilities
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from longtail.export.parts import ExportParts, writing
from longtail.model import Model


def export(model: Model, folder: str | Path, *, overwrite: bool = False) -> Path:
    """Writes the label vectors. Where labels have a bias, it is the last column: append 1 to the vectors of texts.

    Args:
        model: a model with an encoder and a vector for each label.
        folder: the folder to write.
        overwrite: replaces an export that is there.

    Returns:
        The folder.

    Raises:
        ModelError: the model has no vectors of labels, or the folder is taken.
    """
    parts = ExportParts.of(model)
    with writing(folder, overwrite) as place:
        write(parts, place)
    return Path(folder)


def write(parts: ExportParts, folder: Path) -> None:
    """Writes the files of this form into a folder that exists.

    Args:
        parts: of the model.
        folder: where to write.
    """
    np.save(folder / "vectors.npy", np.ascontiguousarray(parts.search_vectors, dtype=np.float32))
    parts.write_labels(folder)
