"""Copies of training examples in which words are replaced by similar words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy import sparse

from longtail.data.dataset import Dataset
from longtail.data.mapped_texts import taken
from longtail.errors import RecipeError
from longtail.linear.features.added_rows_plan import more_rows
from longtail.papers import GANDALF, Paper
from longtail.plan import DataFacts, Plan
from longtail.progress import stage

DIMENSION = 64  # of word vectors that are learned from the examples


@dataclass(frozen=True)
class SynonymRows:
    """Add copies of training examples in which some words are replaced by one of their nearest neighbours.

    Words are compared by the cosine of word vectors: by default vectors learned from the training examples, where words
    of similar examples are near; with `word_vectors="minilm"`, or the folder or hub name of an encoder, those of its
    embedding table. Only words of the training examples are used. An example without a word that has neighbours gets no
    copy.

    Published form: synonym replacement as Gandalf compares with it; there BERT proposes the words. A sentence encoder
    such as minilm ships without the head that proposes words, and `tiny` never had one: neighbours stand in for it.
    Needs: texts. With an encoder's name, the extra nn. Goes on every learner.
    Costs: training on up to 1 + fraction times the examples; comparing every word with every other. Predicting costs
    what it did.
    Prefer instead: `gandalf` or `lever`; in the paper this lowered every measure.
    Example: longtail compare wordnet "parabel" "parabel + synonyms(replace_probability=0.1)"
    """

    fraction: float = 1.0  # of the examples that get a copy
    replace_probability: float = 0.2  # of each word that has neighbours; at least one word of an example is replaced
    neighbours: int = 5  # words to draw from
    min_similarity: float = 0.5  # cosine
    word_vectors: str = "data"  # where word vectors come from: data, minilm, a folder or owner/name
    vocabulary_size: int = 20_000  # words that may be replaced: those in the most examples
    seed: int = 0

    summary: ClassVar[str] = "copies of training examples with similar words"
    papers: ClassVar[tuple[Paper, ...]] = (GANDALF,)
    needs: ClassVar[frozenset[str]] = frozenset()
    data_needs: ClassVar[frozenset[str]] = frozenset({"texts"})

    def __post_init__(self) -> None:
        if not (
            0 < self.fraction <= 1
            and 0 <= self.replace_probability <= 1
            and self.neighbours > 0
            and self.vocabulary_size > 0
        ):
            raise RecipeError(
                "synonyms takes a fraction above 0 to 1, a replace_probability from 0 to 1, and neighbours and a "
                f"vocabulary_size of at least 1, got fraction={self.fraction:g}, "
                f"replace_probability={self.replace_probability:g}, neighbours={self.neighbours}, "
                f"vocabulary_size={self.vocabulary_size}"
            )
        if not -1 <= self.min_similarity <= 1:
            raise RecipeError(
                f"setting 'min_similarity' of synonyms is a cosine, from -1 to 1, got {self.min_similarity:g}"
            )

    def augment(self, train: Dataset) -> Dataset:
        """See `Augments.augment`."""
        from longtail.linear.features.word_synonyms import Synonyms, own_words, word_vectors
        from longtail.search.exact import top_k

        assert train.texts is not None
        rng = np.random.default_rng(self.seed)
        with stage("finding similar words"):
            names, rows = own_words(train, self.vocabulary_size)
            if not names:
                return train
            if self.word_vectors == "data":
                vectors = word_vectors(rows, DIMENSION, self.seed)
            else:
                from longtail.nn.extra import require

                require(f"word_vectors={self.word_vectors!r} of synonyms")
                from longtail.nn.encoders.pretrained_words import word_table

                known, vectors = word_table(self.word_vectors, names)
                names = tuple(names[row] for row in known.tolist())
                if not names:
                    return train
            unit = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), np.float32(1e-12))
            nearest = max(min(self.neighbours, len(names) - 1), 1)
            synonyms = Synonyms.of(names, *top_k(unit, unit, nearest + 1), nearest, self.min_similarity)
        drawn = np.sort(rng.permutation(len(train))[: round(self.fraction * len(train))])
        made = synonyms.swapped([train.texts[row] for row in drawn.tolist()], self.replace_probability, rng)
        kept = drawn[[text is not None for text in made]]
        return train.with_rows(
            targets=train.targets[kept],
            origin="synonyms",
            texts=[text for text in made if text is not None],
            features=None if train.features is None else sparse.csr_array(train.features[kept]),
            languages=None if train.languages is None else taken(train.languages, kept),
        )

    def plan_on(self, before: Plan, facts: DataFacts) -> Plan:
        """See `AddsCost.plan_on`."""
        words = min(self.vocabulary_size, facts.terms)
        scratch = facts.reading_bytes + 4 * DIMENSION * (facts.rows + 3 * words)
        seconds = facts.reading_seconds + 1e-9 * DIMENSION * (10 * facts.row_terms + words**2 / 8)
        number, positives = self.fraction * facts.rows, self.fraction * facts.positives
        return more_rows(before, facts, number, positives, facts.terms_per_row, seconds=seconds, scratch=scratch)
