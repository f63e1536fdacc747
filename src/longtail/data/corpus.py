"""Train, valid and test over one label set, with the facts of the data set."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from longtail.arrays import Bools
from longtail.data.dataset import Dataset
from longtail.data.labels import LabelSet, Propensity
from longtail.errors import DataError


@dataclass(frozen=True, eq=False, kw_only=True)
class Corpus:
    """A data set as users know it: three splits, one `LabelSet`, and what was noticed on the way in."""

    name: str
    train: Dataset
    valid: Dataset  # may have no rows
    test: Dataset  # may have no rows
    text_field: str = "text"  # which fields of a row became its text
    id_field: str = "id"  # which field named it
    drawn: tuple[str, ...] = ()  # splits that were not given and are held out of train
    notes: tuple[str, ...] = ()  # what a user should know: held-out splits, guessed columns

    def __post_init__(self) -> None:
        if len(self.train) == 0:
            raise DataError(f"{self.name}: the train split has no rows; nothing can be learned from it")
        if self.valid.labels is not self.train.labels or self.test.labels is not self.train.labels:
            raise DataError(f"{self.name}: the splits do not share one label set")

    @property
    def labels(self) -> LabelSet:
        return self.train.labels

    @property
    def propensity(self) -> Propensity:
        return self.labels.propensity


def held_out(ids: Sequence[str], share: float, salt: int | str = 0) -> Bools:
    """Which rows to hold out: a seeded hash of each row's id falls below the share.

    A row keeps its side when other rows come, go or move. At least one row lands on each side where
    there are two or more; a single row stays.
    """
    if not 0 < share < 1:
        raise DataError(f"the share of rows to hold out lies between 0 and 1, got {share}")
    places = hashed(ids, salt)
    chosen: Bools = places < np.uint64(int(share * 2**64))
    if len(ids) > 1 and not chosen.any():
        chosen[int(places.argmin())] = True
    if len(ids) and chosen.all():
        chosen[int(places.argmax())] = False
    return chosen


def hashed(ids: Sequence[str], salt: int | str = 0) -> npt.NDArray[np.uint64]:
    """A salted hash of each id: chance that does not depend on the order or number of rows."""
    prefix = hashlib.blake2b(f"longtail:{salt}:".encode(), digest_size=8)
    places = np.empty(len(ids), dtype=np.uint64)
    for row, name in enumerate(ids):
        digest = prefix.copy()
        digest.update(name.encode("utf-8", "surrogatepass"))
        places[row] = int.from_bytes(digest.digest(), "little")
    return places


def make_corpus(
    *,
    name: str,
    train: Dataset,
    valid: Dataset | None,
    test: Dataset | None,
    valid_share: float = 0.05,
    test_share: float | None = None,
    seed: int = 0,
    text_field: str = "text",
    id_field: str = "id",
    notes: Sequence[str] = (),
) -> Corpus:
    """Join the splits: count the labels on the given train rows, then hold out what was not given.

    A missing valid split is held out of train, unless `valid_share` is 0. A missing test split is held out only when
    `test_share` says so, and then before counting: its rows are test rows, not training rows.
    """
    said, drawn = list(notes), []
    if len(train) == 0:
        raise DataError(f"{name}: the train split has no rows; nothing can be learned from it")
    if test is None and test_share is not None:
        away = held_out(train.ids, test_share, seed + 1)
        train, test = train.take(np.flatnonzero(~away)), train.take(np.flatnonzero(away))
        drawn.append("test")
        said.append(f"no test split was given: {len(test)} rows ({test_share:.0%}) of train were held out as test")
    labels = train.labels.counted(train.targets)
    if valid is None:
        # Another salt than any test split's: rows that were kept out of test are not a random half of that hash.
        away = held_out(train.ids, valid_share, f"valid:{seed}") if valid_share else np.zeros(len(train), dtype=bool)
        train, valid = train.take(np.flatnonzero(~away)), train.take(np.flatnonzero(away))
        if valid_share:
            drawn.append("valid")
            said.append(
                f"no valid split was given: {len(valid)} rows ({valid_share:.0%}) of train were held out as valid"
            )
    nothing = train.take([])
    return Corpus(
        name=name,
        train=train.over(labels),
        valid=valid.over(labels),
        test=(nothing if test is None else test).over(labels),
        text_field=text_field,
        id_field=id_field,
        drawn=tuple(drawn),
        notes=tuple(said),
    )
