"""How a learner reads a row: settings that all learners over word counts share."""

from __future__ import annotations

from dataclasses import dataclass, replace

from longtail.arrays import Matrix
from longtail.data.dataset import Dataset
from longtail.errors import DataError, RecipeError
from longtail.linear.text import Features
from longtail.linear.words import Words
from longtail.plan import Facts
from longtail.progress import stage


@dataclass(frozen=True, kw_only=True)
class Reading:
    """A row as its words, weighed by tf-idf, and, where the data has them and `vectors` asks for it, its own features.

    Learners inherit these fields behind their own. Rows without texts are read from their features as they come.
    """

    pairs: bool = False  # also two words that stand side by side
    sublinear: bool = True  # repeats of a word count as 1 + ln(count), not as count
    hashed_bits: int = 0  # b > 0: 2^b columns chosen by hash, and no vocabulary to keep
    min_rows: int = 1  # words and pairs in fewer rows fall out
    max_columns: int = 0  # n > 0: only the n words and pairs that stand in the most rows
    vectors: float = 0.0  # share of the rows' own features, such as an encoder's vectors, beside words; 1: they alone

    def __post_init__(self) -> None:
        self.words()
        if not 0 <= self.vectors <= 1:
            raise RecipeError(
                f"setting 'vectors' is the share of the rows' own features beside their words, 0 (words alone) to 1 "
                f"(features alone), got {self.vectors:g}"
            )

    def words(self) -> Words:
        return Words(self.pairs, self.sublinear, self.hashed_bits, self.min_rows, self.max_columns)

    def check(self, data: Dataset) -> None:
        """Whether the data has what `vectors` asks for."""
        if self.vectors > 0 and data.features is None:
            raise DataError(
                f"vectors={self.vectors:g} needs rows with features of their own, and these have texts alone; put "
                "vectors beside the texts (train.vectors.npy and so on), or leave the setting out"
            )
        if 0 < self.vectors < 1 and data.texts is None:
            raise DataError(
                f"vectors={self.vectors:g} joins features to words, and these rows have no texts; leave the setting out"
            )

    def read(self, train: Dataset) -> tuple[Features, Matrix]:
        """What to see in rows, learned from the training rows, and their vectors."""
        self.check(train)
        with stage("counting words"):
            features, rows = Features.learn(train, self.words(), self.vectors)
        if self.min_rows > 1 and rows.nnz == 0:
            raise RecipeError(
                f"no word of the {len(train):,} training rows stands in min_rows={self.min_rows:,} of them, so nothing "
                "can be learned; lower it"
            )
        return features, rows

    def seen(self, facts: Facts) -> Facts:
        """The sizes of the data as this learner reads it. Factors for pairs and rare words are those of book titles,
        dictionary entries and laws, whose pairs are 6 to 13 times as many as their words."""
        if facts.characters and self.vectors < 1:
            if self.pairs:
                facts = replace(
                    facts,
                    terms=6 * facts.terms,  # 7 and more of them, but a pair keeps no letters
                    terms_per_row=2.2 * facts.terms_per_row,
                    shared_terms=1.2 * facts.shared_terms,
                    mean_terms=3 * facts.mean_terms,
                    characters=2 * facts.characters,
                )
            most = self.max_columns or facts.terms
            if self.hashed_bits:
                most = 1 << self.hashed_bits
            kept = int(facts.terms * float(self.min_rows) ** (-1.6 if self.pairs else -0.9))
            facts = replace(facts, terms=max(min(kept, most), 1))
        if facts.own_columns and self.vectors > 0:
            words = self.vectors < 1
            facts = replace(
                facts,
                terms=words * facts.terms + facts.own_columns,
                terms_per_row=words * facts.terms_per_row + facts.own_per_row,
                shared_terms=words * facts.shared_terms + facts.own_per_row**2 / facts.own_columns,
                mean_terms=words * facts.mean_terms + facts.labels * facts.own_columns,
            )
        return facts
