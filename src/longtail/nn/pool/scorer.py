"""What learning over pools leaves behind: an encoder, its heads, and up to two vectors a label that are searched as
one. Loads torch only to read texts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar, Literal, get_args

import numpy as np

from longtail.arrays import AnyArray, Floats, Ints
from longtail.data.dataset import Rows
from longtail.nn.blend import Odds
from longtail.nn.settings import SEARCHES, Search
from longtail.nn.towers import NEAR, Reader, TowerScorer, unit
from longtail.seams import State

if TYPE_CHECKING:
    import torch

Unseen = Literal["zero", "mapped"]
PULL = 1.0  # how strongly, in known labels, the relation of texts and classifiers stays a multiple of the identity


@dataclass(frozen=True, eq=False)
class Head:
    """A linear layer, and tanh after it where it bends."""

    weight: Floats  # (dimension, dimension)
    bias: Floats  # (dimension,)
    bends: bool

    def of(self, encoded: Floats) -> Floats:
        """Of length 1, given what the encoder says."""
        found = unit(encoded) @ self.weight.T + self.bias
        return unit(np.tanh(found) if self.bends else found)


@dataclass(frozen=True, eq=False)
class HeadedReader(Reader):
    """Texts to one vector of length 1: of one head, or of both side by side."""

    heads: tuple[Head, ...] = ()

    def shaped(self, encoded: Floats) -> Floats:
        return beside([head.of(encoded) for head in self.heads])

    def there(self, texts: Sequence[str], what: str = "texts") -> torch.Tensor:
        import torch

        return torch.from_numpy(self.vectors(texts, what))  # heads speak on the host


@dataclass(frozen=True, eq=False)
class PoolScorer:
    """The labels whose vectors are nearest to the row's, by texts, by classifiers, or by the weighed mean of both
    cosines. Scores are chances, learned on held-out rows, in the same order."""

    reader: Reader  # the encoder alone
    heads: tuple[Head, Head | None]  # of texts, and of classifiers
    texts: Floats | None  # (labels, dimension) of length 1; none: they are not searched
    classifiers: Floats | None  # likewise, of length 1 or as much of their own as counts
    odds: Odds
    unseen: Unseen = "mapped"  # what stands for the classifier of a label without one
    moved: bool = False  # a label tower moved the texts' vectors
    search: Search = "auto"
    share: float = 0.5  # of the classifiers, where both are searched
    kind: ClassVar[str] = "pool.v1"

    def top(self, rows: Rows, k: int) -> tuple[Ints, Floats]:
        return self.tower.top(rows, k)

    def nearest(self, vectors: Floats, k: int) -> tuple[Ints, Floats]:
        """The k best labels of each vector that `queries` makes, and their cosines; none is missed."""
        return self.tower.nearest(vectors, k)

    def queries(self, texts: Sequence[str], what: str = "texts") -> Floats:
        """What texts ask with (texts, searched numbers), of length 1."""
        return self.tower.reader.vectors(texts, what)

    @property
    def label_vectors(self) -> Floats:
        return self.tower.label_vectors

    def row_vectors(self, rows: Rows) -> Floats:
        return self.tower.row_vectors(rows)

    @property
    def searching(self) -> str:
        return self.tower.searching

    @cached_property
    def tower(self) -> TowerScorer:
        """One vector a label, and a reader that ends in the heads."""
        used = [
            head
            for head, half in zip(self.heads, (self.texts, self.classifiers), strict=True)
            if half is not None and head is not None
        ]
        own = self.reader
        reader = HeadedReader(own.settings, own.weights, own.definition, own.longest, own.cut, tuple(used))
        return TowerScorer(reader, joined(self.texts, self.classifiers, self.share), self.odds, search=self.search)

    def with_labels(self, texts: Sequence[str], known: Sequence[str]) -> PoolScorer:
        """The same model with more labels, told from their texts; `known` are the texts of those it has.

        Where classifiers are searched, a new label has none: zero leaves its half empty, and the other one counts
        alone; mapped puts a classifier where the known labels' texts and classifiers say that it would lie.
        """
        new = self.heads[0].of(self.reader.lengthy(texts, "new labels"))
        mapped = self.classifiers is not None and (self.unseen == "mapped" or self.texts is None)
        plain = self.heads[0].of(self.reader.lengthy(known, "labels")) if mapped or self.moved else None
        classifiers = self.classifiers
        if classifiers is not None:
            found = (
                np.zeros_like(new) if plain is None or not mapped else unit(new @ relation(plain, unit(classifiers)))
            )
            classifiers = np.concatenate([classifiers, found])
        if self.moved and plain is not None and self.texts is not None:
            from longtail.search.exact import top_k

            new = unit(new + (self.texts - plain)[top_k(new, plain, NEAR)[0]].mean(axis=1))
        joined = None if self.texts is None else np.concatenate([self.texts, new])
        return replace(self, texts=joined, classifiers=classifiers)

    def state(self) -> State:
        settings = {
            "encoder": self.reader.settings,
            "longest": self.reader.longest,
            "odds": [self.odds.slope, self.odds.offset],
            "unseen": self.unseen,
            "moved": self.moved,
            "search": self.search,
            "share": self.share,
        }
        tensors: dict[str, AnyArray] = dict(self.reader.tensors())
        for name, head in zip(("texts", "classifiers"), self.heads, strict=True):
            if head is not None:
                tensors |= {f"head.{name}.weight": head.weight, f"head.{name}.bias": head.bias}
        for name, half in (("texts", self.texts), ("classifiers", self.classifiers)):
            if half is not None:
                tensors[name] = half
        return State(settings, tensors)

    @classmethod
    def restore(cls, state: State) -> PoolScorer:
        settings, tensors = state.settings, state.tensors
        reader = Reader.restore(settings["encoder"], settings["longest"], None, tensors)
        first, second = (_head(tensors, name, bends) for name, bends in (("texts", True), ("classifiers", False)))
        texts, classifiers = tensors.get("texts"), tensors.get("classifiers")
        if first is None or (classifiers is not None and second is None) or (texts is None and classifiers is None):
            raise ValueError("a head or the label vectors are missing")
        dimension = len(first.bias)
        for half in (texts, classifiers):
            if half is not None and (
                half.ndim != 2 or half.dtype != np.float32 or half.shape[1] != dimension or not np.isfinite(half).all()
            ):
                raise ValueError("the label vectors are not one finite vector a label")
        if texts is not None and classifiers is not None and len(texts) != len(classifiers):
            raise ValueError(f"{len(texts)} labels with texts and {len(classifiers)} with classifiers")
        if settings["search"] not in SEARCHES or settings["unseen"] not in get_args(Unseen):
            raise ValueError(f"a search {settings['search']!r} with new labels {settings['unseen']!r}")
        slope, offset = (float(value) for value in settings["odds"])
        share = float(settings.get("share", 0.5))  # models of before it was asked for have none
        if not 0 < share < 1:
            raise ValueError(f"classifiers have a share of {share}")
        return cls(
            reader, (first, second), texts, classifiers, Odds(slope, offset), settings["unseen"],
            bool(settings["moved"]), settings["search"], share,
        )  # fmt: skip


def _head(tensors: dict[str, AnyArray], name: str, bends: bool) -> Head | None:
    weight, bias = tensors.get(f"head.{name}.weight"), tensors.get(f"head.{name}.bias")
    if weight is None or bias is None:
        return None
    if weight.ndim != 2 or weight.shape[0] != len(bias) or not (np.isfinite(weight).all() and np.isfinite(bias).all()):
        raise ValueError(f"the head of {name} is not a finite matrix with a number a row")
    return Head(weight, bias, bends)


def beside(halves: Sequence[Floats]) -> Floats:
    """Side by side, of length 1: a product of two such is the mean of the halves' cosines. A half of zeros counts for
    nothing, and the other one is as long as both."""
    return halves[0] if len(halves) == 1 else unit(np.concatenate(halves, axis=1))


def joined(texts: Floats | None, classifiers: Floats | None, share: float = 0.5) -> Floats:
    """What stands for each label: its product with what `beside` makes of a row is the mean of the halves' cosines, the
    classifiers' weighing `share`. Classifiers need not be of length 1; an empty one leaves the text as long as both."""
    if texts is None or classifiers is None:
        only = classifiers if texts is None else texts
        assert only is not None
        return only
    first, second = 2**0.5 * (1 - share), 2**0.5 * share
    empty = ~classifiers.any(axis=1, keepdims=True)
    whole = np.where(empty, np.float32(np.hypot(first, second)), np.float32(first))
    found: Floats = np.concatenate([whole * texts, np.float32(second) * classifiers], axis=1)
    return found


def lengthened(rows: Floats, power: float) -> Floats:
    """Classifiers with as much of their lengths as the power says, the mean being 1: none at 0, all at 1."""
    if power == 0:
        return unit(rows)
    lengths = np.sqrt(np.einsum("ld,ld->l", rows, rows))
    longer = (lengths / max(float(lengths.mean()), 1e-12)) ** np.float32(power)
    found: Floats = unit(rows) * longer.astype(np.float32)[:, None]
    return found


def relation(texts: Floats, classifiers: Floats) -> Floats:
    """The matrix that takes texts nearest to classifiers, in squares."""
    near = max(float(np.einsum("ld,ld->l", texts, classifiers).mean()), 0.1)
    pull = PULL * np.eye(texts.shape[1])
    inner = (texts.T @ texts).astype(np.float64) + pull
    found: Floats = np.linalg.solve(inner, (texts.T @ classifiers).astype(np.float64) + near * pull).astype(np.float32)
    return found
