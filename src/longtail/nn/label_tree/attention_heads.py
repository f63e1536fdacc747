"""Classifiers with an attention of their own over the states of a text's tokens: each node of the tree looks at the
words that matter to it, and one small network, shared by all nodes, scores what it saw."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from longtail.arrays import Floats, Ints
from longtail.errors import DataError
from longtail.nn.encoders.bag_and_gru import Bag, Recurrent
from longtail.nn.encoders.build import Encoder
from longtail.nn.encoders.encode import batches
from longtail.nn.encoders.tokens import Tokens
from longtail.nn.encoders.transformer import Transformer
from longtail.nn.label_tree.candidate_blocks import blocks_of
from longtail.nn.label_tree.label_levels import LabelLevels
from longtail.nn.label_tree.level_heads import LevelFeature, LevelHeads

BATCH_TOKENS = 2048  # places read at once in prediction
BATCH_BYTES = 1 << 28  # that their candidates may take, and what all nodes at once see


class TokenStates(NamedTuple):
    """The states of the tokens of some texts."""

    states: Tensor  # (texts, places, width)
    mask: Tensor  # (texts, places) bool, which places hold a token

    def __len__(self) -> int:
        return len(self.states)


def token_states(encoder: Encoder, ids: Tensor, mask: Tensor) -> TokenStates:
    """The states of tokens, before an encoder pools them.

    Args:
        encoder: a transformer of ours, gru or bag.
        ids: (texts, places) int64.
        mask: (texts, places) bool.

    Returns:
        The states, in fp32.

    Raises:
        DataError: the encoder keeps its states to itself.
    """
    body = encoder.body
    if not isinstance(body, Bag | Recurrent | Transformer):
        raise DataError("attentionxml reads the states of tokens: use encoder='gru', 'bag', or a BERT-like transformer")
    return TokenStates(body.states(ids, mask).float(), mask)


class AttentionHeads(LevelHeads):
    """An attention vector for each node of each level, and one network that scores what was seen."""

    whole_path = True

    def __init__(self, levels: LabelLevels, width: int, hidden: int, dropout: float, beam: int) -> None:
        """Random weights.

        Args:
            levels: the tree.
            width: of the states.
            hidden: numbers of the network's hidden layer.
            dropout: on the states.
            beam: nodes of each level whose children are scored.
        """
        feature = LevelFeature(0, width, None, dropout)
        super().__init__(levels, [feature] * levels.count, [False] * levels.count, beam, by_parent=True)
        self.hidden, self.last = nn.Linear(width, hidden), nn.Linear(hidden, 1)

    def begin_at(self, positives: float) -> None:
        """Start the score at the log odds of a candidate of the last level. See `LevelHeads.begin_at`."""
        candidates = float(len(self.order))
        if self.levels.begins:
            candidates = self.beams[-1] * len(self.order) / self.levels.nodes(self.levels.count - 2)
        share = min(max(positives / candidates, 1e-6), 0.5)
        nn.init.constant_(self.last.bias, float(torch.logit(torch.tensor(share))))

    def attention(self, read: TokenStates, level: int, nodes: Tensor | slice) -> Tensor:
        """How much each node looks at each token.

        Args:
            read: the states of texts.
            level: of the nodes.
            nodes: (texts, nodes of a text) int64, or a run of the level's nodes for all texts.

        Returns:
            (texts, nodes, places); what is left to 1 looks at nothing.
        """
        weights = self.weights[level][nodes]
        if isinstance(nodes, slice):
            found = torch.einsum("btd,ld->blt", read.states, weights)
        else:
            found = torch.einsum("btd,bnd->bnt", read.states, weights)
        found = found.masked_fill(~read.mask.unsqueeze(1), -torch.inf)
        # A place of score 0 that says nothing: without it all nodes would see the same in a text of one word.
        return torch.softmax(F.pad(found, (0, 1)), dim=-1)[..., :-1]

    def _score(self, vectors: TokenStates, level: int, parents: Tensor | None) -> Tensor:
        dropout = self.features[level].dropout
        read = TokenStates(F.dropout(vectors.states, dropout, self.training), vectors.mask)
        if parents is None:
            return self._seen(read, level, slice(None))
        nodes = blocks_of(self._buffer("begins", level - 1), parents, self.levels.widest(level - 1)).nodes
        return self._seen(read, level, nodes.flatten(1)).view(nodes.shape)

    def _seen(self, read: TokenStates, level: int, nodes: Tensor | slice) -> Tensor:
        """Scores (texts, nodes). In prediction, where nothing is kept for gradients, some nodes at a time."""
        texts, places, width = read.states.shape
        number = len(self.weights[level]) if isinstance(nodes, slice) else nodes.shape[1]
        of_node = 4 * texts * (3 * places + 2 * width + 2 * self.hidden.out_features)
        if torch.is_grad_enabled() or number * of_node <= BATCH_BYTES:
            return self._scores_of(read, self.attention(read, level, nodes))
        step = max(BATCH_BYTES // of_node, 1)
        some = [slice(first, first + step) for first in range(0, number, step)]
        parts = some if isinstance(nodes, slice) else [nodes[:, one] for one in some]
        return torch.cat([self._scores_of(read, self.attention(read, level, part)) for part in parts], dim=1)

    def _scores_of(self, read: TokenStates, attention: Tensor) -> Tensor:
        seen = attention @ read.states  # (texts, nodes, width)
        scores: Tensor = self.last(F.relu(self.hidden(seen))).squeeze(-1)
        return scores


@torch.inference_mode()
def searched_tokens(
    encoder: Encoder, heads: AttentionHeads, tokens: Tokens, max_tokens: int, k: int
) -> tuple[Ints, Floats]:
    """The best labels of many texts, texts of similar length together.

    Args:
        encoder: as it is; its dropout is off.
        heads: on the same device; their dropout is off.
        tokens: of the texts.
        max_tokens: tokens of a text that are read.
        k: labels of a text.

    Returns:
        Labels (texts, k) int32, -1 behind the last candidate, and log odds (texts, k) float32, best first.
    """
    device = heads.order.device
    labels = np.full((len(tokens), k), -1, dtype=np.int32)
    scores = np.full((len(tokens), k), -100.0, dtype=np.float32)
    most = max(BATCH_BYTES // heads.row_bytes, 1)
    for batch in batches(np.minimum(tokens.lengths, max_tokens), BATCH_TOKENS):
        for rows in (batch[first : first + most] for first in range(0, len(batch), most)):
            ids, mask = tokens.batch(rows, max_tokens, 1)
            read = token_states(encoder, ids.to(device), mask.to(device))
            found, odds = heads.search(read, k)
            labels[rows], scores[rows] = found.int().cpu().numpy(), odds.float().cpu().numpy()
    return labels, scores
