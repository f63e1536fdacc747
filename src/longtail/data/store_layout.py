"""The files of a store: what `longtail convert --to store` writes and `load` maps into memory.

    store.json            format, facts of the data set, sizes of the splits; size and checksum of each file
    labels.jsonl          the labels, as in the folder layout
    labels.counts         (labels,) int64: training examples of each label
    SPLIT.texts           UTF-8 of all texts, one behind the other; SPLIT.texts.starts (rows + 1,) int64
    SPLIT.ids             the same of the ids; SPLIT.languages, where the data has them
    SPLIT.targets         (entries,) float32; SPLIT.targets.labels (entries,); SPLIT.targets.starts (rows + 1,)
    SPLIT.features, SPLIT.excluded     like targets, where the data has them

Numbers are little-endian, without a header. Columns and starts of a matrix are int32, or int64 where it has 2^31
entries or more. The splits are those of the data set; what is missing was held out when the store was written.
"""

from __future__ import annotations

from pathlib import Path

STORE = "store.json"
FORMAT = "longtail store"
VERSION = 1
SPLITS = ("train", "valid", "test")
MATRICES = {"targets": "<f4", "features": "<f4", "excluded": "|b1"}  # and the type of their entries


def is_store(folder: Path) -> bool:
    """Whether a folder holds a store.

    Args:
        folder: any path.

    Returns:
        True where it does.
    """
    return (folder / STORE).is_file()
