"""Labels whose names stand in the text, ranked by the probability that they are right."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar

import numpy as np

from longtail.arrays import AnyArray, Bools, Doubles, Floats, Ints, pack_strings, unpack_strings
from longtail.data.dataset import Rows
from longtail.errors import DataError
from longtail.linear.features.sparse_features import VOCABULARY, matrix_from, matrix_state
from longtail.linear.features.word_counts import WordCounts
from longtail.linear.fusion.boosted_trees import BoostedTrees
from longtail.linear.lexical.match_facts import FACTS, FoundPairs, NameFacts, pair_facts
from longtail.linear.lexical.names import LEARNED, Names
from longtail.seams import Array, Declaration, Flag, State, Whole, csr, strings
from longtail.seams.declared import LARGEST, Contents, Misfit

BLOCK = 2048  # texts at a time, so that memory does not grow with their number
COUNTS = ("texts_with", "counts", "found", "right")


def _declared_relations(settings: Mapping[str, Any]) -> Declaration:
    found = Declaration()
    for name in ("broader", "related"):
        if settings[name]:
            found += csr(name, "labels", "labels")
    return found


def _terms_differ(stored: Contents) -> None:
    """Names that join are numbered by a table of the terms, which would have fewer than the names before them count."""
    terms = unpack_strings(stored.tensors["terms"], stored.tensors["term_offsets"])
    if len(set(terms)) < len(terms):
        raise Misfit("terms", "has a term twice")


@dataclass(frozen=True, eq=False)
class LexicalScorer:
    """Names, what training texts said of them, and trees over the facts of a match. Scores are probabilities."""

    names: Names
    facts: NameFacts
    trees: BoostedTrees
    kind: ClassVar[str] = "lexical.v1"
    probabilities: ClassVar[bool] = True
    declared: ClassVar[Declaration] = (
        Declaration(
            {
                "tokens": Array("int32", "terms of names", least=0, below="terms"),
                "bounds": Array("int64", "names + 1", points_to="terms of names", rising=True),
                "labels": Array("int32", "names", least=0, below="labels"),
                "kinds": Array("uint8", "names", most=LEARNED),
                "weights": Array("float32", "names", least=0, most=1),
                "texts_with": Array("int32", "names", least=0),
                **{name: Array("int32", "labels", least=0) for name in ("counts", "found", "right")},
            },
            {
                "words": VOCABULARY,
                "texts": Whole(0, LARGEST),
                "broader": Flag(),
                "related": Flag(),
            },
            then=(_declared_relations,),
            checks=(_terms_differ,),
        )
        + strings("terms", "term_offsets", "terms")
        + BoostedTrees.declared()
    )

    def pairs(self, texts: Sequence[str]) -> tuple[FoundPairs, Doubles]:
        """Find labels in texts.

        Args:
            texts: the texts.

        Returns:
            The labels found in each, and the probability that each is right (pairs,).
        """
        found = pair_facts(self.names, self.names.find(texts), self.facts)
        probability: Doubles = 1 / (1 + np.exp(-self.trees.log_odds(found.numbers)))
        return found, probability

    def top(self, rows: Rows, k: int) -> tuple[Ints, Floats]:
        """See `Scorer.top`."""
        if rows.texts is None:
            raise DataError("the model was trained on texts and cannot read examples that have only features")
        labels = np.full((len(rows.texts), k), -1, dtype=np.int32)
        scores = np.zeros((len(rows.texts), k), dtype=np.float32)
        for begin in range(0, len(rows.texts), BLOCK):
            found, probability = self.pairs(rows.texts[begin : begin + BLOCK])
            chosen = probability.astype(np.float32)
            order = np.lexsort((found.labels, -chosen, found.rows))
            row = found.rows[order]
            place = np.arange(len(order)) - np.searchsorted(row, row)  # of a label in its row
            kept = place < k
            labels[begin + row[kept], place[kept]] = found.labels[order][kept]
            scores[begin + row[kept], place[kept]] = chosen[order][kept]
        return labels, scores

    def knows_words(self, rows: Rows) -> Bools:
        """See `KnowsWords`: whether a name stands in the text."""
        known = np.zeros(len(rows), dtype=np.bool_)
        known[self.names.find(rows.texts or ()).rows] = True
        return known

    def with_labels(self, texts: Sequence[str], known: Sequence[str]) -> LexicalScorer:
        """See `TakesLabels`."""
        names = self.names.with_texts(len(known), texts)
        names_more = len(names.labels) - len(self.names.labels)
        facts = self.facts

        def longer(array: Ints, more: int) -> Ints:
            return np.concatenate([array, np.zeros(more, dtype=array.dtype)])

        new = len(texts)
        return replace(
            self,
            names=names,
            facts=replace(
                facts,
                texts_with=longer(facts.texts_with, names_more),
                counts=longer(facts.counts, new),
                found=longer(facts.found, new),
                right=longer(facts.right, new),
                broader=None,
                related=None,
            ),
        )

    def state(self) -> State:
        """See `Scorer.state`."""
        names, facts = self.names, self.facts
        packed, offsets = pack_strings(names.terms)
        tensors: dict[str, AnyArray] = {"terms": packed, "term_offsets": offsets}
        tensors |= {"tokens": names.tokens, "bounds": names.bounds, "labels": names.labels}
        tensors |= {"kinds": names.kinds, "weights": names.weights, **self.trees.tensors()}
        tensors |= {name: getattr(facts, name) for name in COUNTS}
        settings: dict[str, Any] = {"words": asdict(names.settings), "texts": facts.texts}
        for name in ("broader", "related"):
            relation = getattr(facts, name)
            settings[name] = relation is not None
            if relation is not None:
                tensors |= matrix_state(name, relation)
        return State(settings, tensors)

    @classmethod
    def restore(cls, state: State) -> LexicalScorer:
        """See `Scorer.restore`."""
        tensors = state.tensors
        terms = tuple(unpack_strings(tensors["terms"], tensors["term_offsets"]))
        arrays = {name: tensors[name] for name in ("tokens", "bounds", "labels", "kinds", "weights")}
        counts = {name: tensors[name] for name in COUNTS}
        relations: dict[str, Any] = {
            name: matrix_from(name, tensors) if state.settings[name] else None for name in ("broader", "related")
        }
        return cls(
            Names(terms, WordCounts(**state.settings["words"]), **arrays),
            NameFacts(state.settings["texts"], **counts, **relations),
            BoostedTrees.from_tensors(tensors, len(FACTS)),
        )
