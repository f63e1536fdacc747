"""A trained model over pools: an encoder, its heads, and up to two vectors per label that are searched as one. Loads
torch only to encode texts.

The two vectors of a label lie side by side, so that one product is the weighted mean of both cosines, the second one
times as much of the classifier's norm as counts. By default all of it counts, because that has the most P@1 on valid of
both data sets that were tried. The search is that of `DualEncoderScorer`, with a text encoder that ends in the heads;
exports contain it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Literal, get_args

import numpy as np

from longtail.arrays import AnyArray, Floats, Ints
from longtail.data.dataset import Rows
from longtail.errors import ModelError
from longtail.linear.solvers.platt_scaling import PlattScaling
from longtail.nn.dual.dual_scorer import NEAR, DualEncoderScorer
from longtail.nn.dual.dual_settings import SEARCHES, Search
from longtail.nn.encoders.encoder_declared import ENCODER, dimension_of
from longtail.nn.encoders.text_encoder import TextEncoder, normalised
from longtail.seams import Array, Contents, Declaration, Flag, Misfit, Number, State, Words
from longtail.search.blas_threads import single_threaded_blas

if TYPE_CHECKING:
    import torch

Unseen = Literal["zero", "mapped"]
HALVES = ("texts", "classifiers")
RIDGE = 1.0  # strength, in known labels, of the penalty that keeps the map near a multiple of the identity


@dataclass(frozen=True, eq=False)
class ProjectionHead:
    """A linear layer, followed by tanh where it bends."""

    weight: Floats  # (head dimension, dimension)
    bias: Floats  # (head dimension,)
    bends: bool

    def of(self, encoded: Floats) -> Floats:
        """The head's vectors.

        Args:
            encoded: (texts, dimension) from the encoder.

        Returns:
            (texts, head dimension) unit vectors.
        """
        with single_threaded_blas():  # the bits of a product depend on OpenBLAS's threads
            found = normalised(encoded) @ self.weight.T + self.bias
        return normalised(np.tanh(found) if self.bends else found)


@dataclass(frozen=True, eq=False)
class ProjectedTextEncoder(TextEncoder):
    """Texts to unit vectors of one head, or of both heads side by side."""

    heads: tuple[ProjectionHead, ...] = ()

    def shaped(self, encoded: Floats) -> Floats:
        """See `TextEncoder.shaped`."""
        if any(head.weight.shape[1] != encoded.shape[1] for head in self.heads):  # only the network itself knows
            raise ModelError(f"the heads do not take the {encoded.shape[1]} numbers of the encoder's vectors")
        return side_by_side([head.of(encoded) for head in self.heads])

    def encode_to_device(self, texts: Sequence[str], what: str = "texts") -> torch.Tensor:
        """See `TextEncoder.encode_to_device`; the heads compute on the host."""
        import torch

        return torch.from_numpy(self.vectors(texts, what))


def _declared_heads(settings: Mapping[str, Any]) -> Declaration:
    """The head that is compared with texts, and the one that is compared with classifiers."""
    weight = f"head, {dimension_of(settings)}"
    return Declaration(
        {
            "head.texts.weight": Array("float32", weight),
            "head.texts.bias": Array("float32", "head"),
            "head.classifiers.weight": Array("float32", weight, optional=True),
            "head.classifiers.bias": Array("float32", "head", optional=True),
        }
    )


def _check_halves(stored: Contents) -> None:
    """Labels have texts' vectors or classifiers, and classifiers have a whole head."""
    head = [name for name in ("head.classifiers.weight", "head.classifiers.bias") if name in stored.tensors]
    if len(head) == 1 or ("classifiers" in stored.tensors and not head):
        raise Misfit("head.classifiers.weight", "or its bias is missing")
    if not any(name in stored.tensors for name in HALVES):
        raise Misfit("texts", "is missing, and so is 'classifiers'")


@dataclass(frozen=True, eq=False)
class PoolScorer:
    """Finds the labels nearest to the row by texts, by classifiers, or by the weighted mean of both cosines. Scores are
    probabilities that keep the order of the cosines."""

    encoder: TextEncoder  # without the heads
    heads: tuple[ProjectionHead, ProjectionHead | None]  # compared with texts, and with classifiers
    texts: Floats | None  # (labels, dimension) unit vectors; None: they are not searched
    classifiers: Floats | None  # (labels, dimension), with as much of their norms as counts; None: not searched
    calibration: PlattScaling
    unseen: Unseen = "mapped"  # the classifier of a label that joins later
    moved: bool = False  # a label tower moved the label vectors away from their texts' vectors
    search: Search = "auto"
    classifier_share: float = 0.5  # weight of the classifiers in the score, where both are searched
    kind: ClassVar[str] = "pool.v2"
    probabilities: ClassVar[bool] = True
    declared: ClassVar[Declaration] = ENCODER + Declaration(
        {name: Array("float32", "labels, head", optional=True) for name in HALVES},
        {
            "unseen": Words(get_args(Unseen)),
            "moved": Flag(),
            "search": Words(SEARCHES),
            "classifier_share": Number(above=0, most=1 - 1e-9),
        },
        then=(_declared_heads,),
        checks=(_check_halves,),
    )

    def top(self, rows: Rows, k: int) -> tuple[Ints, Floats]:
        """See `Scorer.top`."""
        return self.tower.top(rows, k)

    def nearest(self, vectors: Floats, k: int) -> tuple[Ints, Floats]:
        """The k best labels by exact search.

        Args:
            vectors: (rows, searched dimension) from `queries`.
            k: labels of a row.

        Returns:
            Labels (rows, k) and their cosines, best first.
        """
        return self.tower.nearest(vectors, k)

    def queries(self, texts: Sequence[str], what: str = "texts") -> Floats:
        """The vectors that texts are searched with.

        Args:
            texts: of rows.
            what: what they are, for the progress line.

        Returns:
            (texts, searched dimension) unit vectors.
        """
        return self.tower.encoder.vectors(texts, what)

    @property
    def label_vectors(self) -> Floats:
        """(labels, searched dimension) unit vectors."""
        return self.tower.label_vectors

    def row_vectors(self, rows: Rows) -> Floats:
        """See `HasVectors.row_vectors`."""
        return self.tower.row_vectors(rows)

    @property
    def searching(self) -> str:
        """See `DualEncoderScorer.searching`."""
        return self.tower.searching

    @cached_property
    def tower(self) -> DualEncoderScorer:
        """The same model as a dual encoder: one vector per label, and an encoder that ends in the heads."""
        used = [
            head
            for head, half in zip(self.heads, (self.texts, self.classifiers), strict=True)
            if half is not None and head is not None
        ]
        own = self.encoder
        encoder = ProjectedTextEncoder(own.settings, own.weights, own.definition, own.max_tokens, own.cut, tuple(used))
        labels = join_halves(self.texts, self.classifiers, self.classifier_share)
        return DualEncoderScorer(encoder, labels, self.calibration, search=self.search)

    def with_labels(self, texts: Sequence[str], known: Sequence[str]) -> PoolScorer:
        """The same model with more labels, each at its text's vector.

        Where classifiers are searched, a new label has none. `unseen="zero"` leaves its half empty, so its text counts
        alone; "mapped" makes a classifier from its text, by the map that fits the known labels best.

        Args:
            texts: of the new labels.
            known: texts of the labels that the model has.

        Returns:
            A new scorer; this one does not change.
        """
        new = self.heads[0].of(self.encoder.unnormalised(texts, "new labels"))
        mapped = self.classifiers is not None and (self.unseen == "mapped" or self.texts is None)
        plain = self.heads[0].of(self.encoder.unnormalised(known, "labels")) if mapped or self.moved else None
        classifiers = self.classifiers
        if classifiers is not None:
            found = np.zeros_like(new)
            if plain is not None and mapped:
                found = normalised(new @ text_to_classifier_map(plain, normalised(classifiers)))
            classifiers = np.concatenate([classifiers, found])
        if self.moved and plain is not None and self.texts is not None:
            from longtail.search.exact import top_k

            new = normalised(new + (self.texts - plain)[top_k(new, plain, NEAR)[0]].mean(axis=1))
        all_texts = None if self.texts is None else np.concatenate([self.texts, new])
        return replace(self, texts=all_texts, classifiers=classifiers)

    def state(self) -> State:
        """See `Scorer.state`."""
        settings = {
            "encoder": self.encoder.settings,
            "max_tokens": self.encoder.max_tokens,
            "calibration": [self.calibration.scale, self.calibration.offset],
            "unseen": self.unseen,
            "moved": self.moved,
            "search": self.search,
            "classifier_share": self.classifier_share,
        }
        tensors: dict[str, AnyArray] = dict(self.encoder.tensors())
        for name, head in zip(("texts", "classifiers"), self.heads, strict=True):
            if head is not None:
                tensors |= {f"head.{name}.weight": head.weight, f"head.{name}.bias": head.bias}
        for name, half in (("texts", self.texts), ("classifiers", self.classifiers)):
            if half is not None:
                tensors[name] = half
        return State(settings, tensors)

    @classmethod
    def restore(cls, state: State) -> PoolScorer:
        """See `Scorer.restore`."""
        settings, tensors = state.settings, state.tensors
        encoder = TextEncoder.restore(settings["encoder"], settings["max_tokens"], None, tensors)
        first, second = (_head(tensors, name, bends) for name, bends in (("texts", True), ("classifiers", False)))
        texts, classifiers = tensors.get("texts"), tensors.get("classifiers")
        assert first is not None
        scale, offset = (float(value) for value in settings["calibration"])
        share = float(settings["classifier_share"])
        return cls(
            encoder, (first, second), texts, classifiers, PlattScaling(scale, offset), settings["unseen"],
            bool(settings["moved"]), settings["search"], share,
        )  # fmt: skip


def _head(tensors: dict[str, AnyArray], name: str, bends: bool) -> ProjectionHead | None:
    weight, bias = tensors.get(f"head.{name}.weight"), tensors.get(f"head.{name}.bias")
    if weight is None or bias is None:
        return None
    return ProjectionHead(weight, bias, bends)


def side_by_side(halves: Sequence[Floats]) -> Floats:
    """Vectors of a row side by side, as one unit vector. The product of two such vectors is the mean of the halves'
    cosines. A half of zeros does not count.

    Args:
        halves: one or two, each (rows, dimension) unit vectors.

    Returns:
        (rows, halves x dimension) unit vectors.
    """
    return halves[0] if len(halves) == 1 else normalised(np.concatenate(halves, axis=1))


def join_halves(texts: Floats | None, classifiers: Floats | None, classifier_share: float = 0.5) -> Floats:
    """One vector per label, whose product with a row's `side_by_side` is the weighted mean of the halves' cosines.

    Args:
        texts: (labels, dimension) unit vectors, where labels are found by them.
        classifiers: (labels, dimension) of any norm, where labels are found by them. Where one is zeros, its text gets
            the norm of both halves.
        classifier_share: the classifiers' weight in the mean.

    Returns:
        (labels, halves x dimension).
    """
    if texts is None or classifiers is None:
        only = classifiers if texts is None else texts
        assert only is not None
        return only
    first, second = 2**0.5 * (1 - classifier_share), 2**0.5 * classifier_share
    empty = ~classifiers.any(axis=1, keepdims=True)
    text_norms = np.where(empty, np.float32(np.hypot(first, second)), np.float32(first))
    found: Floats = np.concatenate([text_norms * texts, np.float32(second) * classifiers], axis=1)
    return found


def with_norm_power(rows: Floats, power: float) -> Floats:
    """Classifiers with their norms, relative to the mean norm, raised to a power.

    Args:
        rows: (labels, dimension) classifiers.
        power: 0 for unit vectors, 1 for norms in full.

    Returns:
        (labels, dimension).
    """
    if power == 0:
        return normalised(rows)
    norms = np.sqrt(np.einsum("ld,ld->l", rows, rows))
    scales = (norms / max(float(norms.mean()), 1e-12)) ** np.float32(power)
    found: Floats = normalised(rows) * scales.astype(np.float32)[:, None]
    return found


def text_to_classifier_map(texts: Floats, classifiers: Floats) -> Floats:
    """The linear map from texts to classifiers by ridge regression towards a multiple of the identity.

    Args:
        texts: (labels, dimension) unit vectors.
        classifiers: (labels, dimension) unit vectors.

    Returns:
        (dimension, dimension): texts @ map is near the classifiers.
    """
    near = max(float(np.einsum("ld,ld->l", texts, classifiers).mean()), 0.1)
    ridge = RIDGE * np.eye(texts.shape[1])
    inner = (texts.T @ texts).astype(np.float64) + ridge
    found: Floats = np.linalg.solve(inner, (texts.T @ classifiers).astype(np.float64) + near * ridge).astype(np.float32)
    return found
