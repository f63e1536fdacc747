"""From texts to an encoder of tokens and an attention for each label (AttentionXML)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch

from longtail.arrays import Floats, Ints, Longs
from longtail.data.dataset import Dataset
from longtail.errors import DataError
from longtail.linear.solvers.platt_scaling import PlattScaling
from longtail.nn.encoders.device_tokens import DeviceTokens
from longtail.nn.encoders.text_encoder import TextEncoder
from longtail.nn.encoders.tokens import Tokens, tokenise
from longtail.nn.label_tree.attention_heads import AttentionHeads, TokenStates, searched_tokens, token_states
from longtail.nn.label_tree.attention_scorer import AttentionScorer
from longtail.nn.label_tree.label_levels import LabelLevels
from longtail.nn.label_tree.tree_fit import TreeFit, label_levels
from longtail.nn.label_tree.tree_settings import TreeNetSettings
from longtail.nn.training.precision import autocast


@runtime_checkable
class AttentionSettings(Protocol):
    """The settings of the attention."""

    @property
    def hidden(self) -> int: ...
    @property
    def max_flat_labels(self) -> int: ...


@dataclass(eq=False)
class AttentionFit(TreeFit):
    """An encoder of tokens, and an attention for each node of the tree, in training."""

    @classmethod
    def make_levels(cls, settings: TreeNetSettings, train: Dataset) -> LabelLevels:
        """See `TreeFit.make_levels`: no clusters where all labels can be scored."""
        assert isinstance(settings, AttentionSettings)
        if len(train.labels) <= settings.max_flat_labels:
            return LabelLevels.flat(len(train.labels))
        return label_levels(settings, train)

    def make_heads(self) -> AttentionHeads:
        """See `TreeFit.make_heads`."""
        own = self.settings
        assert isinstance(own, AttentionSettings)
        if self.encoder.projection is not None:
            raise DataError(f"{own.name} reads the states of tokens at their own width: leave dimension out")
        heads = AttentionHeads(self.levels, self.encoder.dimension, own.hidden, own.dropout, own.beam)
        if own.bias_init == "auto":
            heads.begin_at(self.train.targets.nnz / max(len(self.train), 1))
        else:
            torch.nn.init.constant_(heads.last.bias, float(own.bias_init))
        return heads

    def reading(self, texts: DeviceTokens) -> Callable[[Longs], TokenStates]:
        """See `TreeFit.reading`: the states of every token."""
        kind = self.encoder.settings["kind"]

        def read(rows: Longs) -> TokenStates:
            ids, mask = texts.batch(rows)
            with autocast(self.settings.precision, self.device, kind):
                return token_states(self.encoder, ids, mask)

        return read

    def validate(self) -> dict[str, float]:
        """P@1 and PSP@1 of the held-out rows."""
        _, tokens = self.held_out

        def find(k: int) -> tuple[Ints, Floats]:
            labels, scores = searched_tokens(self.encoder, self.heads, tokens, self.max_tokens, k)
            return labels, PlattScaling(1.0, 0.0).of(scores)

        return self.measure(find)

    def scorer(self) -> AttentionScorer:
        """The trained model, calibrated on valid."""
        encoder = TextEncoder.of(self.encoder, self.tokenizer, self.max_tokens)
        weights = {name: np.asarray(value.cpu().numpy()) for name, value in self.heads.state_dict().items()}
        scorer = AttentionScorer(encoder, self.levels, weights, self.settings.beam, PlattScaling(1.0, 0.0))

        def queries(texts: Any, what: str) -> Any:
            found: Tokens = tokenise(texts, self.tokenizer, self.max_tokens, what=what)
            return found

        return self.calibrated(scorer, queries)
