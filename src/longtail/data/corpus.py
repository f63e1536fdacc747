"""Train, valid and test over one label set, with the facts of the data set."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
from scipy import sparse

from longtail.arrays import Bools
from longtail.data.dataset import GIVEN, Dataset
from longtail.data.labels import LabelSet, Propensity
from longtail.data.mapped_texts import MappedTexts
from longtail.data.table_facts import TableFacts
from longtail.errors import DataError, counted


@dataclass(frozen=True, eq=False, kw_only=True)
class Corpus:
    """A data set as users know it: three splits over one `LabelSet`, and notes from reading it."""

    name: str
    train: Dataset
    valid: Dataset  # may be empty
    test: Dataset  # may be empty
    text_field: str = "text"  # the fields of a document that made its text
    id_field: str = "id"  # the field that had its id
    language_field: str | None = None  # the field that had its language
    table: TableFacts | None = None  # how it was read, where it is or was a table
    label_language: str | None = None  # of its label names, where it is known
    drawn: tuple[str, ...] = ()  # splits that were not given and are held out of train
    held_out_labels: int = 0  # labels that lost their training rows on purpose (`longtail build holdout`)
    licence: str | None = None  # of the data, where it is known
    private: bool = False  # a .gitignore keeps it out of repositories: it may not be passed on
    notes: tuple[str, ...] = ()  # what a user should know: held-out splits, guessed columns

    def __post_init__(self) -> None:
        if len(self.train) == 0:
            raise DataError(f"{self.name}: the train split has no examples; add some")
        if self.valid.labels is not self.train.labels or self.test.labels is not self.train.labels:
            raise DataError(f"{self.name}: the splits do not share one label set")

    @property
    def labels(self) -> LabelSet:
        """The labels of all splits."""
        return self.train.labels

    @property
    def language(self) -> str:
        """The language of its texts, a code such as de; "" where each text's is guessed."""
        return self.train.language

    @property
    def propensity(self) -> Propensity:
        """The propensity constants of the data set."""
        return self.labels.propensity

    @property
    def is_mapped(self) -> bool:
        """Whether the documents lie in the files of a store, and only those in use are in memory."""
        return isinstance(self.train.ids, MappedTexts)

    def train_and_valid(self) -> Dataset:
        """Join train and valid, to train once more on both after everything was chosen on valid.

        Returns:
            The rows of train, then those of valid. Label counts stay as they are.
        """
        train, valid = self.train, self.valid
        if len(valid) == 0:
            return train
        both = train.with_rows(
            targets=valid.targets, origin=GIVEN, texts=valid.texts, features=valid.features, ids=valid.ids,
            languages=valid.languages,
        )  # fmt: skip
        if train.excluded is None and valid.excluded is None:
            return both
        empty = [sparse.csr_array(one.targets.shape, dtype=np.bool_) for one in (train, valid)]
        parts = [
            one.excluded if one.excluded is not None else no for one, no in zip((train, valid), empty, strict=True)
        ]
        return replace(both, excluded=sparse.vstack(parts, format="csr"))

    def judged_on_valid(self, valid_share: float = 0.05, seed: int = 0) -> Corpus:
        """Put valid in the place of test, so that choosing between recipes never touches test.

        Learners that choose or calibrate get another valid split, held out of train: the rows that judge must not be
        those that were chosen on.

        Args:
            valid_share: of train to hold out as the new valid; 0 leaves it empty.
            seed: of the split.

        Returns:
            A corpus whose test rows are the valid rows of this one.

        Raises:
            DataError: there is no valid row.
        """
        if len(self.valid) == 0:
            raise DataError(f"{self.name} has no valid examples to judge on; give a valid split or a --valid-share")
        out = np.zeros(len(self.train), dtype=np.bool_)
        note = f"judged on the {counted(len(self.valid), 'example')} of valid; test was not touched"
        if valid_share:
            out = held_out(self.train.ids, valid_share, f"valid of train:{seed}")
            others = counted(int(out.sum()), "other example of train takes", "other examples of train take")
            note += f"; {others} the place of valid"
        return replace(
            self,
            train=self.train.take(np.flatnonzero(~out)),
            valid=self.train.take(np.flatnonzero(out)),
            test=self.valid,
            notes=(*self.notes, note),
        )


def held_out(ids: Sequence[str], share: float, salt: int | str = 0) -> Bools:
    """Chooses the rows to hold out: those whose salted hash of the id falls below the share.

    A row stays on its side when other rows are added, removed or moved. Of two or more rows at least one is held out
    and at least one stays; a single row stays.

    Args:
        ids: of the rows.
        share: of the rows to hold out, between 0 and 1.
        salt: another one gives another choice.

    Returns:
        (rows,) True where a row is held out.

    Raises:
        DataError: the share is not between 0 and 1.
    """
    if not 0 < share < 1:
        raise DataError(f"the share of examples to hold out must be between 0 and 1, got {share}")
    places = hashed(ids, salt)
    chosen: Bools = places < np.uint64(int(share * 2**64))
    if len(ids) > 1 and not chosen.any():
        chosen[int(places.argmin())] = True
    if len(ids) and chosen.all():
        chosen[int(places.argmax())] = False
    return chosen


def hashed(ids: Sequence[str], salt: int | str = 0) -> npt.NDArray[np.uint64]:
    """A salted hash of each id: random bits that do not depend on the order or number of rows.

    Args:
        ids: of the rows.
        salt: another one gives other bits.

    Returns:
        (rows,) uint64
    """
    prefix = hashlib.blake2b(f"longtail:{salt}:".encode(), digest_size=8)
    places = np.empty(len(ids), dtype=np.uint64)
    for row, name in enumerate(ids):
        digest = prefix.copy()
        digest.update(name.encode("utf-8", "surrogatepass"))
        places[row] = int.from_bytes(digest.digest(), "little")
    return places


def held_out_note(split: str, rows: int, share: float) -> str:
    """What a corpus notes where the data had no such split.

    Args:
        split: its name.
        rows: number of examples held out for it.
        share: of train that was asked for.

    Returns:
        A sentence.
    """
    examples = counted(rows, f"example ({share:.0%}) of train was", f"examples ({share:.0%}) of train were")
    return f"no {split} split was given: {examples} held out as {split}"


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
    language: str = "",
) -> Corpus:
    """Joins splits into a corpus: counts the labels on train as given, then holds out the splits that are missing.

    Args:
        name: of the corpus.
        train: the train split.
        valid: the valid split; None holds it out of train, after counting.
        test: the test split; None leaves it empty, or holds it out of train, before counting.
        valid_share: of train to hold out as valid; 0 leaves valid empty.
        test_share: of train to hold out as test; None holds nothing out.
        seed: of the held-out splits.
        text_field: the fields of a document that made its text.
        id_field: the field that had its id.
        notes: from reading the data.
        language: of the texts; "" where each text's is guessed.

    Returns:
        The corpus; its notes name the splits that were held out.

    Raises:
        DataError: train is empty, or a share is out of range.
    """
    all_notes, drawn = list(notes), []
    if language:
        train = replace(train, language=language)
        valid, test = (None if one is None else replace(one, language=language) for one in (valid, test))
    if len(train) == 0:
        raise DataError(f"{name}: the train split has no examples; add some")
    if test is None and test_share is not None:
        out = held_out(train.ids, test_share, seed + 1)
        train, test = train.take(np.flatnonzero(~out)), train.take(np.flatnonzero(out))
        drawn.append("test")
        all_notes.append(held_out_note("test", len(test), test_share))
    labels = train.labels.counted(train.targets)
    if valid is None:
        # Another salt than for test: rows that stayed out of test all have large hashes under that salt.
        out = held_out(train.ids, valid_share, f"valid:{seed}") if valid_share else np.zeros(len(train), dtype=bool)
        train, valid = train.take(np.flatnonzero(~out)), train.take(np.flatnonzero(out))
        if valid_share:
            drawn.append("valid")
            all_notes.append(held_out_note("valid", len(valid), valid_share))
    empty = train.take([])
    return Corpus(
        name=name,
        train=train.over(labels),
        valid=valid.over(labels),
        test=(empty if test is None else test).over(labels),
        text_field=text_field,
        id_field=id_field,
        drawn=tuple(drawn),
        notes=tuple(all_notes),
    )
