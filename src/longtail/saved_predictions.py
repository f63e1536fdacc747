"""Predictions in one file of arrays (NumPy's .npz), with their labels: small, quick, and without code in it.

indices, scores           (rows, places)
ids, texts                UTF-8 of all labels, one behind the other; id_ends, text_ends: where each ends
counts, train_rows, propensity, format
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from longtail.arrays import AnyArray, Floats, Ints, Longs
from longtail.atomic import new_file
from longtail.data.labels import LabelSet, Propensity
from longtail.data.numpy_files import read_arrays
from longtail.data.opening import reading
from longtail.errors import DataError, counted

FORMAT = 1


def save_predictions(labels: LabelSet, indices: Ints, scores: Floats, path: str | Path) -> Path:
    """Write predictions and their labels. The file appears when it is whole; an older one is replaced.

    Args:
        labels: the label set.
        indices: (rows, places) label rows.
        scores: (rows, places).
        path: the file.

    Returns:
        The path.

    Raises:
        DataError: the file cannot be written.
    """
    target = Path(path)
    ids, id_ends = _packed(labels.ids)
    texts, text_ends = _packed(labels.texts)
    try:
        with new_file(target) as file:
            np.savez_compressed(
                file.buffer,
                indices=indices,
                scores=scores,
                ids=ids,
                id_ends=id_ends,
                texts=texts,
                text_ends=text_ends,
                counts=labels.counts,
                train_rows=np.int64(labels.train_rows),
                propensity=np.array([labels.propensity.a, labels.propensity.b]),
                format=np.int64(FORMAT),
            )
    except OSError as error:
        raise DataError(
            f"the predictions cannot be written here ({error.strerror or error}); give another path", target
        ) from error
    return target


def load_predictions(path: str | Path, labels: LabelSet | None = None) -> tuple[LabelSet, Ints, Floats]:
    """Read what `save_predictions` wrote.

    Args:
        path: the file.
        labels: the label set of the data, to share it; none: the labels in the file, without features.

    Returns:
        The label set, label rows and scores.

    Raises:
        DataError: the file is missing, damaged or of another kind, or `labels` has other ids.
    """
    source = Path(path)
    try:
        with reading(source):
            parts = read_arrays(source)
        if int(parts["format"]) != FORMAT:
            raise DataError(
                f"has format {int(parts['format'])}, and this version reads {FORMAT}; save it again", source
            )
        a, b = parts["propensity"].tolist()
        found = LabelSet(
            ids=_unpacked(parts["ids"], parts["id_ends"]),
            texts=_unpacked(parts["texts"], parts["text_ends"]),
            counts=parts["counts"],
            train_rows=int(parts["train_rows"]),
            propensity=Propensity(a, b),
        )
        indices, scores = parts["indices"], parts["scores"]
        if indices.dtype != np.int32 or scores.dtype != np.float32 or not np.isfinite(scores).all():
            raise ValueError("its label rows or scores are no such numbers")
    except DataError as error:
        if error.path is not None:
            raise
        raise _broken(error, source) from None
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError) as error:
        raise _broken(error, source) from None
    if labels is not None and labels.ids != found.ids:
        raise DataError(
            f"holds predictions over another label set ({counted(len(found), 'label')}) "
            f"than the one given ({len(labels)})",
            source,
        )
    return found if labels is None else labels, indices, scores


def _broken(error: Exception, source: Path) -> DataError:
    reason = " ".join(str(error)[:200].split())
    return DataError(f"is not a whole file of predictions ({reason}); give a file that Predictions.save wrote", source)


def _packed(words: Sequence[str]) -> tuple[AnyArray, Longs]:
    raw = [word.encode("utf-8", "surrogatepass") for word in words]
    ends: Longs = np.cumsum([len(word) for word in raw], dtype=np.int64)
    return np.frombuffer(b"".join(raw), dtype=np.uint8), ends


def _unpacked(raw: AnyArray, ends: AnyArray) -> tuple[str, ...]:
    """Raises ValueError where the strings do not follow one another: overlapping ones may take any memory."""
    stops = ends.tolist()
    if raw.dtype != np.uint8 or raw.ndim != 1 or ends.dtype != np.int64 or ends.ndim != 1:
        raise ValueError("its words are no bytes and places")
    if (np.diff(ends, prepend=0) < 0).any() or (stops[-1] if stops else 0) != len(raw):
        raise ValueError("its words do not follow one another")
    whole, starts = raw.tobytes(), [0, *stops][: len(stops)]
    return tuple(whole[a:b].decode("utf-8", "surrogatepass") for a, b in zip(starts, stops, strict=True))
