"""Nearest training examples in the space of another recipe's encoder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np
from scipy import sparse

from longtail.arrays import Floats, Ints, Matrix, pack_strings, unpack_strings
from longtail.data.dataset import Dataset, Rows
from longtail.errors import DataError, RecipeError
from longtail.linear.features.sparse_features import matrix_from, matrix_state
from longtail.linear.features.sparse_top import sparse_top
from longtail.papers import NEAREST_MEMORY, Paper
from longtail.plan import DataFacts, Plan
from longtail.progress import stage
from longtail.seams import (
    Array,
    Contents,
    Declaration,
    Explanation,
    HasVectors,
    Learner,
    MemberRecipe,
    Misfit,
    Number,
    RememberedExample,
    Scorer,
    State,
    TailMethod,
    Whole,
    Words,
    csr,
    strings,
)
from longtail.seams.declared import LARGEST

if TYPE_CHECKING:
    from longtail.search.approximate import Approximate
    from longtail.search.exact import Exact

Search = Literal["auto", "exact", "approximate"]
SEARCHES = ("auto", "exact", "approximate")
QUICK = "dpr(encoder='bag', epochs=3)"  # a member that trains without a GPU
SINGLE = 16  # texts of a call up to which each is searched by itself; more share one matrix product
PAIRS = 1 << 23  # (document, neighbour) pairs held at once
DIMENSION = 384  # of an encoder's vectors, for plans
SHOWN = 120  # characters of a remembered example that an explanation shows
NEAREST = 3  # remembered examples that an explanation shows


def _is_there_an_example(stored: Contents) -> None:
    if not len(stored.tensors["vectors"]):
        raise Misfit("vectors", "has no example to remember")


@dataclass(frozen=True, eq=False)
class MemoryScorer:
    """The vectors of the training examples and their targets. Scores are shares of the vote, in (0, 1]."""

    encoding: HasVectors  # the scorer whose encoder makes the vectors
    vectors: Floats  # (examples, dimension), unit-norm
    targets: Matrix  # csr (examples, labels)
    ids: tuple[str, ...]  # of the examples
    beginnings: tuple[str, ...]  # of their texts
    recipe: str  # of the encoder
    neighbours: int
    temperature: float
    encoder_labels: int  # labels that the encoder's scorer knows; new examples may bring more
    search: Search = "auto"
    kind: ClassVar[str] = "memory.v1"
    declared: ClassVar[Declaration] = (
        Declaration(
            {"vectors": Array("float32", "examples, dimension")},
            {
                "recipe": Words(),
                "neighbours": Whole(1, LARGEST),
                "temperature": Number(above=0, most=1e6),
                "encoder_labels": Whole(0, LARGEST, size="encoder labels"),
                "search": Words(SEARCHES),
            },
            parts={"encoder": "encoder labels"},
            checks=(_is_there_an_example,),
        )
        + csr("targets", "examples", "labels", least=0, most=1)
        + strings("ids", "id_offsets", "examples", empty=True)
        + strings("beginnings", "beginning_offsets", "examples", empty=True)
    )

    def top(self, rows: Rows, k: int) -> tuple[Ints, Floats]:
        """See `Scorer.top`."""
        if k < 1 or len(rows) == 0:
            return np.zeros((len(rows), 0), dtype=np.int32), np.zeros((len(rows), 0), dtype=np.float32)
        step = max(PAIRS // max(min(self.neighbours, len(self.vectors)), 1), 1)
        if len(rows) > step:
            parts = [self.top(rows[start : start + step], k) for start in range(0, len(rows), step)]
            labels, scores = (np.concatenate(part) for part in zip(*parts, strict=True))
            return labels, scores
        near, cosines = self._nearest(rows)
        found = near >= 0
        weights = np.exp((np.where(found, cosines, -np.inf) - cosines[:, :1]) / np.float32(self.temperature))
        weights = (weights / weights.sum(axis=1, keepdims=True)).astype(np.float32)
        starts = np.concatenate([[0], np.cumsum(found.sum(axis=1))])
        votes = sparse.csr_array((weights[found], near[found], starts), shape=(len(rows), self.targets.shape[0]))
        labels, scores = sparse_top(votes, self.targets, k)
        return labels, np.minimum(scores, np.float32(1))  # rounding may bring sums of shares above 1

    def _nearest(self, rows: Rows) -> tuple[Ints, Floats]:
        """The nearest examples (rows, neighbours) and their cosines, best first; -1 where there are fewer."""
        quick = self.search == "approximate" or (self.search == "auto" and len(rows) <= SINGLE)
        index = self._quick if quick else self._exact
        return index.top(self.encoding.row_vectors(rows), min(self.neighbours, len(self.vectors)))

    @cached_property
    def _exact(self) -> Exact:
        from longtail.search.exact import Exact

        return Exact(self.vectors)

    @cached_property
    def _quick(self) -> Exact | Approximate:
        """The index for a few texts at a time. It is not saved: it depends on the timing of threads."""
        from longtail.search.approximate import build
        from longtail.search.choose import choose

        asked = self.search == "approximate"
        choice = choose(len(self.vectors), self.vectors.shape[1], queries=None)
        if choice.kind == "exact" and not asked:
            return self._exact
        with stage("approximate search: the recipe asks for it" if asked else choice.reason):
            return build(self.vectors, "hnsw")

    def explain(self, rows: Rows, labels: Ints) -> list[list[Explanation]]:
        """See `Explains.explain`: the nearest examples that have the label."""
        near, cosines = self._nearest(rows)
        counts = np.bincount(self.targets.indices, minlength=self.targets.shape[1])
        found = []
        for row in range(len(rows)):
            examples = self.targets[np.maximum(near[row], 0)]  # (neighbours, labels)
            owners = np.repeat(np.arange(len(near[row])), np.diff(examples.indptr))
            found.append(
                [
                    Explanation(
                        train_rows=int(counts[label]),
                        neighbours=tuple(
                            self._neighbour(int(near[row, place]), float(cosines[row, place]))
                            for place in owners[examples.indices == label][:NEAREST]
                            if near[row, place] >= 0
                        ),
                    )
                    if label >= 0
                    else Explanation()
                    for label in labels[row].tolist()
                ]
            )
        return found

    def _neighbour(self, example: int, similarity: float) -> RememberedExample:
        return RememberedExample(self.ids[example], self.beginnings[example], similarity)

    def with_rows(self, rows: Rows, targets: Matrix, ids: Sequence[str]) -> MemoryScorer:
        """See `TakesRows.with_rows`: the encoder reads them; nothing is trained."""
        if rows.texts is None:
            raise DataError("this model remembers texts; give new examples with texts, not only features")
        known = self.targets
        wider = sparse.csr_array((known.data, known.indices, known.indptr), shape=(known.shape[0], targets.shape[1]))
        return replace(
            self,
            vectors=np.concatenate([self.vectors, self.encoding.row_vectors(rows)]),
            targets=sparse.vstack([wider, targets], format="csr").astype(np.float32),
            ids=(*self.ids, *ids),
            beginnings=(*self.beginnings, *(text[:SHOWN] for text in rows.texts)),
        )

    def state(self) -> State:
        """See `Scorer.state`."""
        settings = {
            "recipe": self.recipe,
            "neighbours": self.neighbours,
            "temperature": self.temperature,
            "encoder_labels": self.encoder_labels,
            "search": self.search,
        }
        tensors = {"vectors": self.vectors, **matrix_state("targets", self.targets)}
        tensors["ids"], tensors["id_offsets"] = pack_strings(self.ids)
        tensors["beginnings"], tensors["beginning_offsets"] = pack_strings(self.beginnings)
        return State(settings, tensors, {"encoder": self.encoding})

    @classmethod
    def restore(cls, state: State) -> MemoryScorer:
        """See `Scorer.restore`."""
        settings, tensors, encoder = state.settings, state.tensors, state.parts["encoder"]
        vectors, targets = tensors["vectors"], matrix_from("targets", tensors)
        ids = tuple(unpack_strings(tensors["ids"], tensors["id_offsets"]))
        beginnings = tuple(unpack_strings(tensors["beginnings"], tensors["beginning_offsets"]))
        if not isinstance(encoder, HasVectors):
            raise ValueError("the memory has no encoder")
        given = (settings[name] for name in ("recipe", "neighbours", "temperature", "encoder_labels", "search"))
        return cls(encoder, vectors, targets, ids, beginnings, *given)


@dataclass(frozen=True)
class Memory:
    """An example gets the labels of the training examples whose vectors are nearest; another recipe's encoder makes
    the vectors.

    Nothing is trained beyond that recipe, and new examples join by `model.with_rows` without training. Neighbours vote
    with softmax(cosine / temperature). Beside its encoder's recipe in `fuse`, the encoder is trained and stored once.

    Without a member it trains a bag of word vectors for a few epochs, which takes minutes without a GPU. The encoder of
    memory("ngame") finds better neighbours and is best trained on a GPU.

    Needs: a member with an encoder, such as memory("ngame").
    Costs: its encoder's training, one reading of all examples, and their vectors.
    Prefer instead: `knn`, which compares words and trains nothing at all.
    Example: longtail train wordnet memory --out model
    """

    members: tuple[str, ...] = (QUICK,)  # the recipe or model folder whose encoder is used
    neighbours: int = 50  # training examples that vote
    temperature: float = 0.05
    search: Search = "auto"  # approximate for few texts over many examples; exact; approximate

    summary: ClassVar[str] = "votes of the nearest training examples in an encoder's space"
    papers: ClassVar[tuple[Paper, ...]] = (NEAREST_MEMORY,)
    offers: ClassVar[frozenset[str]] = frozenset()
    data_needs: ClassVar[frozenset[str]] = frozenset({"texts"})
    scorer: ClassVar[type[Scorer]] = MemoryScorer
    spells_out_members: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if len(self.members) != 1:
            raise RecipeError(
                f'memory has one member, whose encoder it uses, as memory("ngame"); got {len(self.members)}'
            )
        if self.neighbours < 1:
            raise RecipeError(f"setting 'neighbours' of memory is at least 1, got {self.neighbours}")
        if not 0 < self.temperature <= 100:
            raise RecipeError(f"setting 'temperature' of memory lies in (0, 100], got {self.temperature:g}")

    def made_of(self, members: tuple[MemberRecipe, ...]) -> Learner:
        """See `HasMembers.made_of`."""
        if not (hasattr(members[0].scorer_class, "row_vectors") and hasattr(members[0].scorer_class, "label_vectors")):
            raise RecipeError(
                f"memory uses the encoder of another recipe, and {self.members[0]!r} has none; take one that encodes "
                "examples and labels, such as dpr, ngame or unidec"
            )
        return MemoryLearner(self, members[0])

    def fit(self, train: Dataset, valid: Dataset, parts: tuple[TailMethod, ...]) -> Scorer:
        """See `Learner.fit`; a recipe fits what `made_of` returns."""
        raise RecipeError("memory is fitted by a recipe, which knows its member: Recipe.of(memory).fit(train, valid)")

    def plan(self, facts: DataFacts) -> Plan:
        """See `Learner.plan`; a recipe plans what `made_of` returns."""
        raise RecipeError("memory is planned by a recipe, which knows its member: Recipe.of(memory).plan(facts)")


@dataclass(frozen=True)
class MemoryLearner:
    """Memory with the recipe whose encoder it uses."""

    settings: Memory
    member: MemberRecipe

    summary: ClassVar[str] = Memory.summary
    offers: ClassVar[frozenset[str]] = Memory.offers
    data_needs: ClassVar[frozenset[str]] = Memory.data_needs
    scorer: ClassVar[type[Scorer]] = MemoryScorer

    def fit(self, train: Dataset, valid: Dataset, parts: tuple[TailMethod, ...]) -> MemoryScorer:
        """See `Learner.fit`."""
        own = self.settings
        with stage(f"encoder: {own.members[0]}"):
            model = self.member.fit(train, valid)
        assert isinstance(model.scorer, HasVectors) and train.texts is not None
        with stage("remembering examples"):
            return MemoryScorer(
                model.scorer,
                np.ascontiguousarray(model.scorer.row_vectors(train.rows), dtype=np.float32),
                train.targets.copy(),
                tuple(train.ids),
                tuple([text[:SHOWN] for text in train.texts]),
                model.recipe,
                own.neighbours,
                own.temperature,
                len(model.labels),
                own.search,
            )

    def plan(self, facts: DataFacts) -> Plan:
        """See `Learner.plan`."""
        inner = self.member.plan(facts)
        vectors = 4 * DIMENSION * facts.rows
        held = vectors + 8 * facts.positives + (2 * SHOWN + 60) * facts.rows
        return Plan(
            train_bytes=max(inner.train_bytes, inner.model_bytes + vectors + held),
            model_bytes=inner.model_bytes + held,
            train_seconds=inner.train_seconds + 0.5 * inner.predict_seconds * facts.rows / 1000,
            predict_seconds=inner.predict_seconds + 1000 * 4e-11 * DIMENSION * facts.rows,
            steps=(*inner.steps, ("vectors of the examples", vectors)),
        )
