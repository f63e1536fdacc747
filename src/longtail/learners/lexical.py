"""Names of labels found in the text; boosted trees learn when a found name is right."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from longtail.arrays import Ints, Longs, Matrix
from longtail.data.corpus import held_out
from longtail.data.dataset import Dataset
from longtail.errors import RecipeError
from longtail.linear.features.languages import main_language
from longtail.linear.features.word_counts import WordCounts
from longtail.linear.fusion.boosted_trees import BoostedTrees, Growing, grow, require_lightgbm
from longtail.linear.lexical.learned_names import learn_names
from longtail.linear.lexical.lexical_scorer import LexicalScorer
from longtail.linear.lexical.match_facts import FACTS, NameFacts, hits, pair_facts
from longtail.linear.lexical.names import Names
from longtail.papers import MAUI, Paper
from longtail.plan import DataFacts, Plan
from longtail.progress import stage
from longtail.seams import Scorer, TailMethod

HELD_OUT = 0.2  # of the training texts, on which the trees learn what names of the others are worth
MAX_PAIRS = 3_000_000  # (text, label) pairs that the trees learn from
STOPPING = 5  # one held-out text in so many decides when to stop growing


@dataclass(frozen=True)
class Lexical:
    """Find the names of labels in the text, and learn which of the labels found are right.

    A label has its text as a name, and the further names that a vocabulary gives it (altLabel in SKOS). Names are found
    by their stems, inside compounds too. Words that go with a label in training texts are names as well
    (`learned_names`), so texts in another language than the labels are matched by what they say themselves. For each
    label found, boosted trees see how often and where its names stand, by which name, how many labels share the name,
    how often the label was right before, and how many broader, narrower and related labels were found.

    Needs: texts and label texts, and the extra `fuse` for training (LightGBM), `words` for stems.
    Costs: minutes for a hundred thousand texts; memory of the order of the texts.
    Prefer instead: `parabel` or `bonsai` where labels have many examples. As a member of `fuse` it brings labels that
    no example has.
    Example: longtail compare wordnet "bm25" "lexical"
    """

    words: str = "stem+compounds"  # forms of words: plain, stem, lemma; joined to compounds
    language: str = "auto"  # of texts and labels: a code such as de; auto: the data's, or label texts'
    learned_names: int = 20  # words and pairs of words a label that are learned as names; 0: its own names only
    min_share: float = 0.1  # of the texts with a learned name that have the label
    min_texts: int = 2  # texts that have both a learned name and the label
    trees: int = 300  # at most
    leaves: int = 31
    seed: int = 0

    summary: ClassVar[str] = "finds names of labels in the text and learns which are right"
    papers: ClassVar[tuple[Paper, ...]] = (MAUI,)
    offers: ClassVar[frozenset[str]] = frozenset()
    data_needs: ClassVar[frozenset[str]] = frozenset({"texts", "label_texts"})
    scorer: ClassVar[type[Scorer]] = LexicalScorer

    def __post_init__(self) -> None:
        if "chars" in self.words or "pieces" in self.words:
            raise RecipeError(
                f"lexical looks for whole names, so words takes no chars or pieces, got words={self.words!r}"
            )
        WordCounts(words=self.words, language=self.language)  # raises an error for wrong settings
        if self.learned_names < 0 or not 0 < self.min_share <= 1 or self.min_texts < 1:
            raise RecipeError(
                "lexical takes learned_names of at least 0, a min_share above 0 to 1 and min_texts of at least 1, got "
                f"learned_names={self.learned_names}, min_share={self.min_share:g}, min_texts={self.min_texts}"
            )
        if self.trees < 1 or self.leaves < 2 or self.seed < 0:
            raise RecipeError(
                "lexical takes at least one tree, two leaves and a seed of at least 0, got "
                f"trees={self.trees}, leaves={self.leaves}, seed={self.seed}"
            )

    def fit(self, train: Dataset, valid: Dataset, parts: tuple[TailMethod, ...]) -> LexicalScorer:
        """See `Learner.fit`."""
        require_lightgbm()  # before the work
        assert train.texts is not None
        settings = WordCounts(words=self.words, language=self.language).told(train.language)
        if settings.language == "auto":
            settings = replace(settings, language=main_language(train.labels.texts))
        with stage("reading names"):
            names = Names.of_labels(train.labels, settings)
            if self.learned_names:
                names = names.with_terms_of(train.texts)
            stream, bounds = names.stream(train.texts)
        right = _right(train.targets)
        relations = (train.labels.broader, train.labels.related)
        chosen = held_out(train.ids, HELD_OUT, f"lexical:{self.seed}")
        rest, apart = np.flatnonzero(~chosen), np.flatnonzero(chosen)
        with stage("learning which names are right"):
            part = _rows(stream, bounds, rest)
            some, matches_facts = self._learn(names, *part, right[rest], relations)
            apart = apart[: _affordable(some, stream, bounds, apart)]
            judged = _rows(stream, bounds, apart)
            pairs = pair_facts(some, some.find_in(*judged), matches_facts)
            growing = Growing(
                trees=self.trees, leaves=self.leaves, min_leaf=max(min(100, len(pairs.rows) // 200), 1), seed=self.seed
            )
            watched = pairs.rows % STOPPING == 0
            hit = hits(right[apart], pairs)
            enough = hit[watched].any() and not hit[watched].all() and hit[~watched].any()
            if hit.all() or not hit.any():  # nothing to tell apart, or nothing found
                trees = BoostedTrees.constant(float(np.log((hit.sum() + 0.5) / ((~hit).sum() + 0.5))), len(FACTS))
            else:
                trees = grow(pairs.numbers, hit, watched if enough else None, growing)
        with stage("counting names in all texts"):
            names, facts = self._learn(names, stream, bounds, right, relations)
        return LexicalScorer(names, facts, trees)

    def _learn(
        self, names: Names, stream: Ints, bounds: Longs, right: Matrix, relations: tuple[Matrix | None, ...]
    ) -> tuple[Names, NameFacts]:
        """Learned names, and the facts of names and labels, from the same texts."""
        if self.learned_names:
            limits = (self.learned_names, self.min_share, self.min_texts)
            found = learn_names(stream, bounds, len(names.terms), right, *limits)
            names = names.with_learned(found.tokens, found.bounds, found.labels, found.weights)
        return names, NameFacts.learn(names, names.find_in(stream, bounds), right, relations)

    def plan(self, facts: DataFacts) -> Plan:
        """See `Learner.plan`."""
        terms = facts.rows * facts.terms_per_row
        names = facts.labels * (1 + self.learned_names)
        pairs = min(0.3 * terms, 10 * MAX_PAIRS)
        return Plan(
            train_bytes=int(30_000_000 + 24 * terms + 120 * facts.terms + 60 * names + 300 * min(pairs, MAX_PAIRS)),
            model_bytes=int(40 * names + 20 * facts.terms + 60 * facts.labels),
            train_seconds=2 + 6e-5 * facts.terms + 4e-7 * terms + 3e-5 * min(pairs, MAX_PAIRS),
            predict_seconds=1000 * (2e-5 + 4e-7 * facts.terms_per_row),
            steps=(("texts as terms", int(24 * terms)), ("names", int(60 * names))),
        )


def _right(targets: Matrix) -> Matrix:
    """The targets of at least one half: a name is right or it is not."""
    kept = targets.copy()
    kept.data = (kept.data >= 0.5).astype(np.float32)
    kept.eliminate_zeros()
    return kept


def _rows(stream: Ints, bounds: Longs, rows: Longs) -> tuple[Ints, Longs]:
    """The terms of some texts."""
    sizes = np.diff(bounds)[rows]
    new = np.concatenate([[0], np.cumsum(sizes)])
    return stream[np.arange(new[-1]) - np.repeat(new[:-1] - bounds[rows], sizes)], new


def _affordable(names: Names, stream: Ints, bounds: Longs, rows: Longs) -> int:
    """How many of these texts the trees can learn from, judged by the matches of the first hundred."""
    if len(rows) <= 100:
        return len(rows)
    matches = len(names.find_in(*_rows(stream, bounds, rows[:100])).rows)
    return min(len(rows), max(100, int(100 * MAX_PAIRS / max(matches, 1))))
