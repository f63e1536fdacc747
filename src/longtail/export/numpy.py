"""Label vectors as a NumPy array, for any vector database.

vectors.npy     (labels, dimension) float32; search it by inner product
labels.jsonl    {"id", "text", "count"} of each row of it
export.json     how texts are compared with it, and how products become chances
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from longtail.export.parts import Parts, writing
from longtail.model import Model


def export(model: Model, folder: str | Path, *, overwrite: bool = False) -> Path:
    """Write the label vectors. A bias is the last column, and the text's vector then gets a 1 at its end."""
    parts = Parts.of(model)
    with writing(folder, overwrite) as place:
        write(parts, place)
    return Path(folder)


def write(parts: Parts, folder: Path) -> None:
    np.save(folder / "vectors.npy", np.ascontiguousarray(parts.searched, dtype=np.float32))
    parts.write_labels(folder)
