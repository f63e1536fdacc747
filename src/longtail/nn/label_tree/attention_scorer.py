"""The model of an attention for each label. Loads torch only to predict."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from longtail.arrays import AnyArray, Doubles, Floats, Ints
from longtail.data.dataset import Rows
from longtail.errors import DataError
from longtail.linear.solvers.platt_scaling import PlattScaling
from longtail.nn.encoders.encoder_declared import ENCODER, dimension_of
from longtail.nn.encoders.text_encoder import TextEncoder
from longtail.nn.label_tree.label_levels import MAX_LEVELS, LabelLevels, tree_declared
from longtail.nn.onevsall.onevsall_scorer import separated
from longtail.predictions import ranked
from longtail.seams import Array, AttendedWord, Declaration, Explanation, Misfit, State, Whole

if TYPE_CHECKING:
    from longtail.nn.encoders.build import Encoder
    from longtail.nn.encoders.tokens import Tokens
    from longtail.nn.label_tree.attention_heads import AttentionHeads

WORDS = 5  # of an explanation


@dataclass(frozen=True, eq=False)
class AttentionScorer:
    """Finds labels by what each of them sees in a text. Scores are probabilities, calibrated on held-out data, in the
    same order."""

    encoder: TextEncoder
    levels: LabelLevels
    weights: dict[str, AnyArray]  # of `AttentionHeads`, by name
    beam: int
    calibration: PlattScaling
    kind: ClassVar[str] = "attention.v1"
    probabilities: ClassVar[bool] = True
    declared: ClassVar[Declaration] = ENCODER + Declaration(
        settings={"clusters": Whole(0, MAX_LEVELS), "beam": Whole(1)},
        then=(lambda given: tree_declared(given["clusters"]), lambda given: _declared(given)),
    )

    def top(self, rows: Rows, k: int) -> tuple[Ints, Floats]:
        """See `Scorer.top`."""
        k = min(k, len(self.levels.order))
        if k < 1 or len(rows) == 0:
            return np.zeros((len(rows), 0), dtype=np.int32), np.zeros((len(rows), 0), dtype=np.float32)
        found, scores = self.nearest(self._tokens(rows), k)
        probabilities = np.where(found >= 0, separated(self.calibration.of(scores), scores), np.float32(0))
        return ranked(found, probabilities.astype(np.float32))

    def nearest(self, vectors: Any, k: int) -> tuple[Ints, Floats]:
        """Find the top labels of texts by beam search.

        Args:
            vectors: `Tokens` of the texts.
            k: number of labels for each text.

        Returns:
            Labels (int32), -1 behind the last candidate, and log odds (float32), each (texts, k), best first.
        """
        from longtail.nn.label_tree.attention_heads import searched_tokens

        encoder, heads = self._nets
        return searched_tokens(encoder, heads, vectors, self.encoder.max_tokens, k)

    def explain(self, rows: Rows, labels: Ints) -> list[list[Explanation]]:
        """See `Explains.explain`: the words that each label looked at most."""
        import torch

        from longtail.nn.label_tree.attention_heads import token_states

        encoder, heads = self._nets
        tokens = self._tokens(rows)
        words = {number: word for word, number in self.encoder.ready[1].words.items()}
        leaf = self.levels.node_of_label[-1]
        found = []
        for row, own in enumerate(labels):
            ids, mask = tokens.batch(np.array([row]), self.encoder.max_tokens, 1)
            nodes = torch.from_numpy(leaf[np.maximum(own, 0)].astype(np.int64))[None].to(heads.order.device)
            with torch.inference_mode():
                read = token_states(encoder, ids.to(nodes.device), mask.to(nodes.device))
                shares = heads.attention(read, self.levels.count - 1, nodes)[0].cpu().numpy()  # (labels, places)
            whole, place_of = _words([words.get(number, "") for number in ids[0].tolist()])
            found.append(
                [
                    Explanation(
                        words=_most(
                            whole, np.bincount(place_of, share.astype(np.float64), len(whole)).astype(np.float64)
                        )
                    )
                    if label >= 0
                    else Explanation()
                    for label, share in zip(own.tolist(), shares, strict=True)
                ]
            )
        return found

    def row_norms(self) -> Floats:
        """See `HasClassifierRows.row_norms`."""
        leaves = self.weights[f"weights.{self.levels.count - 1}"]
        found = np.empty(len(leaves), dtype=np.float32)
        found[self.levels.order] = np.sqrt(np.einsum("ld,ld->l", leaves, leaves))
        return found

    def _tokens(self, rows: Rows) -> Tokens:
        if rows.texts is None:
            raise DataError("this model reads texts; pass documents with texts, not only features")
        return self.encoder.tokens(rows.texts)

    @cached_property
    def _nets(self) -> tuple[Encoder, AttentionHeads]:
        import torch

        from longtail.nn.label_tree.attention_heads import AttentionHeads
        from longtail.nn.training.precision import best_device

        hidden, width = self.weights["hidden.weight"].shape
        heads = AttentionHeads(self.levels, width, hidden, 0.0, self.beam)
        heads.load_state_dict({name: torch.from_numpy(np.array(array)) for name, array in self.weights.items()})
        return self.encoder.ready[0], heads.to(best_device()).eval()

    def state(self) -> State:
        """See `Scorer.state`."""
        settings = {
            "encoder": self.encoder.settings,
            "max_tokens": self.encoder.max_tokens,
            "calibration": [self.calibration.scale, self.calibration.offset],
            "clusters": len(self.levels.begins),
            "beam": self.beam,
        }
        heads = {f"heads.{name}": array for name, array in self.weights.items()}
        return State(settings, {**self.encoder.tensors(), **self.levels.tensors(), **heads})

    @classmethod
    def restore(cls, state: State) -> AttentionScorer:
        """See `Scorer.restore`."""
        settings, tensors = state.settings, state.tensors
        return cls(
            TextEncoder.restore(settings["encoder"], settings["max_tokens"], None, tensors),
            LabelLevels.restore(settings["clusters"], tensors),
            {name.removeprefix("heads."): array for name, array in tensors.items() if name.startswith("heads.")},
            int(settings["beam"]),
            PlattScaling(*(float(value) for value in settings["calibration"])),
        )


def _words(pieces: list[str]) -> tuple[list[str], Ints]:
    """Whole words of a text's tokens, and the word of each token: `##` goes on with the word before."""
    whole: list[str] = []
    place_of = np.empty(len(pieces), dtype=np.int32)
    for place, piece in enumerate(pieces):
        if piece.startswith("##") and whole:
            whole[-1] += piece[2:]
        else:
            whole.append(piece)
        place_of[place] = len(whole) - 1
    return whole, place_of


def _most(words: list[str], shares: Doubles) -> tuple[AttendedWord, ...]:
    """The most attended words; special tokens such as [CLS] are none."""
    total: dict[str, float] = {}
    for word, share in zip(words, shares.tolist(), strict=True):
        if word and not (word.startswith("[") and word.endswith("]")):
            total[word] = total.get(word, 0.0) + share
    best = sorted(total, key=lambda word: -total[word])[:WORDS]
    return tuple(AttendedWord(word, total[word]) for word in best)


def _declared(given: Mapping[str, Any]) -> Declaration:
    width, clusters = dimension_of(given), given["clusters"]
    if given["encoder"].get("dimension") is not None and given["encoder"]["kind"] == "transformer":
        raise Misfit("encoder.dimension", "projects vectors, and this model reads states", "setting")
    arrays = {
        "heads.hidden.weight": Array("float32", f"hidden, {width}"),
        "heads.hidden.bias": Array("float32", "hidden"),
        "heads.last.weight": Array("float32", "1, hidden"),
        "heads.last.bias": Array("float32", "1"),
    }
    for level in range(clusters + 1):
        nodes = f"nodes {level}" if level < clusters else "labels"
        arrays[f"heads.weights.{level}"] = Array("float32", f"{nodes}, {width}")
    return Declaration(arrays)
