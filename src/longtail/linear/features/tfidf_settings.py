"""How a learner reads examples: settings that all learners over word counts share.

Learners over words inherit these settings, so they exist only once. A learner calls `self.read(train)` in `fit` and
`self.seen(facts)` in `plan`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from longtail.arrays import Matrix
from longtail.data.dataset import Dataset
from longtail.errors import DataError, RecipeError
from longtail.linear.features.sparse_features import Features, dense_columns
from longtail.linear.features.word_counts import WordCounts
from longtail.plan import DataFacts
from longtail.progress import stage


@dataclass(frozen=True, kw_only=True)
class TfidfSettings:
    """An example as its words, weighted by tf-idf, and, where `feature_weight` asks for it, its own features.

    Learners inherit these fields behind their own. Examples without texts are read from their features alone.
    """

    bigrams: bool = False  # also pairs of neighbouring words
    sublinear_tf: bool = True  # repeats of a word count as 1 + ln(count), not as count
    hash_bits: int = 0  # b > 0: 2^b columns chosen by hash, and no vocabulary to keep
    min_df: int = 1  # words and pairs in fewer examples are dropped
    max_features: int = 0  # n > 0: only the n words and pairs that are in the most examples
    feature_weight: float = 0.0  # share of the examples' own features, such as vectors of an encoder; 1: they alone
    words: str = "plain"  # forms of words: plain, stem, lemma; joined to chars, compounds or pieces: "stem+chars"
    language: str = "auto"  # of the texts, for stems and lemmas: a code such as de; auto: the data's, or each text's
    title_weight: float = 1.0  # of the words of a text's first line, such as of title/text

    def __post_init__(self) -> None:
        self.word_counts()
        if not 0 <= self.feature_weight <= 1:
            raise RecipeError(
                "setting 'feature_weight' is the share of the examples' own features beside their words, 0 (words "
                f"alone) to 1 (features alone), got {self.feature_weight:g}"
            )

        if not 0 <= self.title_weight <= 1000:
            raise RecipeError(
                "setting 'title_weight' is how much the words of the first line count beside the others, 0 to 1000, "
                f"got {self.title_weight:g}"
            )

    @property
    def ignores_word_order(self) -> bool:
        """Whether texts with the same words in another order are the same to the learner."""
        return not self.bigrams

    def word_counts(self) -> WordCounts:
        """How texts become columns."""
        return WordCounts(
            self.bigrams,
            self.sublinear_tf,
            self.hash_bits,
            self.min_df,
            self.max_features,
            self.words,
            self.language,
        )

    def check(self, data: Dataset) -> None:
        """Check that the data has what `feature_weight` asks for.

        Args:
            data: training data.

        Raises:
            DataError: the examples have no features, or no texts, and the setting needs them.
        """
        if self.feature_weight > 0 and data.features is None:
            raise DataError(
                f"feature_weight={self.feature_weight:g} needs examples with features of their own, and these have "
                "texts alone; put vectors beside the texts (train.vectors.npy and so on), or leave the setting out"
            )
        if 0 < self.feature_weight < 1 and data.texts is None:
            raise DataError(
                f"feature_weight={self.feature_weight:g} joins features to words, and these examples have no texts; "
                "leave the setting out"
            )

    def read(self, train: Dataset) -> tuple[Features, Matrix]:
        """Learn the vocabulary and the idf weights.

        Args:
            train: training data.

        Returns:
            How to read examples, and the vectors of the training examples: csr (rows, columns).

        Raises:
            DataError: see `check`.
            RecipeError: `min_df` drops every word.
        """
        self.check(train)
        with stage("counting words"):
            features, rows = Features.learn(train, self.word_counts(), self.feature_weight, self.title_weight)
        if self.min_df > 1 and rows.nnz == 0:
            raise RecipeError(
                f"no word is in min_df={self.min_df:,} of the {len(train):,} training examples, so nothing can be "
                "learned; lower min_df"
            )
        return features, rows

    def seen(self, facts: DataFacts) -> DataFacts:
        """The sizes of the data as this learner reads it.

        The factors for pairs and rare words are those of book titles, dictionary entries and laws, which have 6 to 13
        times as many pairs as words.

        Args:
            facts: sizes of the data.

        Returns:
            The sizes with these settings.
        """
        if facts.characters and self.feature_weight < 1:
            if "chars" in self.words:  # a word of six letters has 22 n-grams, most of them shared with other words
                facts = replace(
                    facts,
                    terms=facts.terms + 2 * int(facts.terms**0.97),
                    terms_per_row=20 * facts.terms_per_row,
                    shared_terms=60 * facts.shared_terms,
                    mean_terms=15 * facts.mean_terms,
                )
            if self.bigrams:
                facts = replace(
                    facts,
                    terms=6 * facts.terms,  # 7 and more of them, but a pair keeps no letters
                    terms_per_row=2.2 * facts.terms_per_row,
                    shared_terms=1.2 * facts.shared_terms,
                    mean_terms=3 * facts.mean_terms,
                    characters=2 * facts.characters,
                )
            max_terms = self.max_features or facts.terms
            if self.hash_bits:
                max_terms = 1 << self.hash_bits
            kept = int(facts.terms * float(self.min_df) ** (-1.6 if self.bigrams else -0.9))
            facts = replace(facts, terms=max(min(kept, max_terms), 1))
        if facts.own_columns and self.feature_weight > 0:
            words = self.feature_weight < 1
            facts = replace(
                facts,
                terms=words * facts.terms + facts.own_columns,
                terms_per_row=words * facts.terms_per_row + facts.own_per_row,
                shared_terms=words * facts.shared_terms + facts.own_per_row**2 / facts.own_columns,
                mean_terms=words * facts.mean_terms + facts.labels * facts.own_columns,
                dense_columns=dense_columns(facts.own_columns, facts.own_per_row),
            )
        elif not facts.characters:
            facts = replace(facts, dense_columns=dense_columns(facts.terms, facts.terms_per_row))
        return facts
