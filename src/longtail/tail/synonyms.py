"""Copies of training rows in which words are replaced by like ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy import sparse

from longtail.data.dataset import Dataset
from longtail.errors import RecipeError
from longtail.linear.row_plan import more_rows
from longtail.plan import Facts, Plan
from longtail.progress import stage

DIMENSION = 64  # of word vectors that are learned from the rows


@dataclass(frozen=True)
class SynonymRows:
    """Add copies of training rows in which some words are replaced by one of their nearest.

    Nearness is the cosine of word vectors: by default those learned from the training rows, in which words that stand
    in like rows are near; with `words="minilm"`, or an encoder's folder or name on the hub, those of its embedding
    table. Only words of the training rows come in. Rows without a word that has a near one get no copy.

    Paper: synonym replacement as compared with in Kharbanda et al., Gandalf (KDD 2024).
    Needs: texts. With an encoder's name, the extra nn. Goes on every learner.
    Costs: training of up to (1 + share) x rows; comparing every word with every other. Predicting costs what it did.
    Prefer instead: `gandalf` or `lever`; in the paper this lowered every measure.
    Example: longtail compare wordnet "parabel" "parabel + synonyms(change=0.1)"
    """

    share: float = 1.0  # of the rows that get a copy
    change: float = 0.2  # chance that a word is replaced; one of a row is at the least
    nearest: int = 5  # words to draw from
    least: float = 0.5  # cosine
    words: str = "data"  # where word vectors come from: data, minilm, a folder or owner/name
    most: int = 20_000  # words that may be replaced: those in the most rows
    seed: int = 0

    summary: ClassVar[str] = "copies of training rows with words replaced by like ones"
    needs: ClassVar[frozenset[str]] = frozenset()
    data_needs: ClassVar[frozenset[str]] = frozenset({"texts"})

    def __post_init__(self) -> None:
        if not (0 < self.share <= 1 and 0 <= self.change <= 1 and self.nearest > 0 and self.most > 0):
            raise RecipeError(
                "synonyms takes a share above 0 to 1, change from 0 to 1, nearest and most of at least 1, "
                f"got share={self.share:g}, change={self.change:g}, nearest={self.nearest}, most={self.most}"
            )
        if not -1 <= self.least <= 1:
            raise RecipeError(f"setting 'least' of synonyms is a cosine, from -1 to 1, got {self.least:g}")

    def augment(self, train: Dataset) -> Dataset:
        from longtail.linear.synonyms import Synonyms, own_words, word_vectors
        from longtail.search.exact import top_k

        assert train.texts is not None
        chance = np.random.default_rng(self.seed)
        with stage("finding like words"):
            names, rows = own_words(train, self.most)
            if not names:
                return train
            if self.words == "data":
                vectors = word_vectors(rows, DIMENSION, self.seed)
            else:
                from longtail.nn.extra import require

                require(f"words={self.words!r} of synonyms")
                from longtail.nn.word_table import word_table

                known, vectors = word_table(self.words, names)
                names = tuple(names[row] for row in known.tolist())
                if not names:
                    return train
            unit = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), np.float32(1e-12))
            nearest = max(min(self.nearest, len(names) - 1), 1)
            synonyms = Synonyms.of(names, *top_k(unit, unit, nearest + 1), nearest, self.least)
        drawn = np.sort(chance.permutation(len(train))[: round(self.share * len(train))])
        made = synonyms.swapped([train.texts[row] for row in drawn.tolist()], self.change, chance)
        kept = drawn[[text is not None for text in made]]
        return train.with_rows(
            targets=train.targets[kept],
            origin="synonyms",
            texts=[text for text in made if text is not None],
            features=None if train.features is None else sparse.csr_array(train.features[kept]),
        )

    def plan_on(self, before: Plan, facts: Facts) -> Plan:
        words = min(self.most, facts.terms)
        scratch = facts.reading_bytes + 4 * DIMENSION * (facts.rows + 3 * words)
        seconds = facts.reading_seconds + 1e-9 * DIMENSION * (10 * facts.row_terms + words**2 / 8)
        number, positives = self.share * facts.rows, self.share * facts.positives
        return more_rows(before, facts, number, positives, facts.terms_per_row, seconds=seconds, scratch=scratch)
