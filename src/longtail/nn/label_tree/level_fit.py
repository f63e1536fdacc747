"""From texts to an encoder and one head for each level of a label tree (CascadeXML, LightXML)."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
import torch

from longtail.linear.solvers.platt_scaling import PlattScaling
from longtail.nn.encoders.text_encoder import TextEncoder
from longtail.nn.label_tree.label_levels import LabelLevels
from longtail.nn.label_tree.level_heads import LevelFeature, LevelHeads
from longtail.nn.label_tree.tree_fit import TreeFit, layers_of
from longtail.nn.label_tree.tree_scorer import TreeNetScorer
from longtail.nn.label_tree.tree_settings import TreeNetSettings


@dataclass(eq=False)
class LevelFit(TreeFit):
    """An encoder and a head for each level; a subclass says what each level sees."""

    by_parent: bool = True

    @abstractmethod
    def features(self) -> list[LevelFeature]:
        """What each level sees of the encoder's vector, the labels' level last."""

    def biased(self) -> list[bool]:
        """Whether the nodes of each level have biases."""
        return [True] * self.levels.count

    def make_heads(self) -> LevelHeads:
        """See `TreeFit.make_heads`."""
        own = self.settings
        heads = LevelHeads(self.levels, self.features(), self.biased(), own.beam, self.by_parent)
        if own.bias_init == "auto":
            heads.begin_at(self.train.targets.nnz / max(len(self.train), 1))
        else:
            for bias in heads.bias.values():
                bias.data.fill_(float(own.bias_init))
        if self.starts_at_texts:
            heads.begin_with(torch.from_numpy(self.text_vectors()))
        return heads

    def scorer(self) -> TreeNetScorer:
        """The trained model, calibrated on valid."""
        encoder = TextEncoder.of(self.encoder, self.tokenizer, self.max_tokens)
        weights = {name: np.asarray(value.cpu().numpy()) for name, value in self.heads.state_dict().items()}
        features = tuple(
            {"first": one.first, "last": one.last, "mapped": one.mapped, "biased": biased}
            for one, biased in zip(self.features(), self.biased(), strict=True)
        )
        scorer = TreeNetScorer(
            encoder, self.levels, weights, features, self.settings.beam, self.by_parent, PlattScaling(1.0, 0.0)
        )
        return self.calibrated(scorer, encoder.unnormalised)


class CascadeFit(LevelFit):
    """Each level reads a layer of its own; the first reads two where there are many."""

    @classmethod
    def taps(cls, settings: TreeNetSettings, layers: int, levels: LabelLevels) -> tuple[int, ...]:
        """See `TreeFit.taps`."""
        if layers == 1:
            return ()
        return tuple(sorted({layer for read in layers_of_levels(layers, levels.count) for layer in read}))

    def features(self) -> list[LevelFeature]:
        """See `LevelFit.features`."""
        count, dropout = self.levels.count, self.settings.dropout
        taps = self.encoder.settings.get("taps", [])
        width = self.encoder.dimension // max(len(taps), 1)
        found = []
        for level, read in enumerate(layers_of_levels(layers_of(self.encoder), count)):
            first = taps.index(read[0]) * width if taps else 0
            last = first + width * (len(read) if taps else 1)
            mapped = width if len(read) > 1 else None
            found.append(LevelFeature(first, last, mapped, dropout * (0.4 + 0.6 * level / (count - 1))))
        return found


class LightFit(LevelFit):
    """Clusters and labels read the last layers side by side, labels through a linear layer and without a bias."""

    @classmethod
    def taps(cls, settings: TreeNetSettings, layers: int, levels: LabelLevels) -> tuple[int, ...]:
        """See `TreeFit.taps`."""
        assert isinstance(settings, LastLayers)
        return tuple(range(max(layers - settings.layers, 0) + 1, layers + 1)) if layers > 1 else ()

    def features(self) -> list[LevelFeature]:
        """See `LevelFit.features`."""
        assert isinstance(self.settings, LastLayers)
        width, dropout = self.encoder.dimension, self.settings.dropout
        clusters = [LevelFeature(0, width, None, dropout)] * (self.levels.count - 1)
        return [*clusters, LevelFeature(0, width, self.settings.hidden, dropout)]

    def biased(self) -> list[bool]:
        """See `LevelFit.biased`."""
        return [True] * (self.levels.count - 1) + [False]


@runtime_checkable
class LastLayers(Protocol):
    """The settings of a net that reads the last layers side by side."""

    @property
    def layers(self) -> int: ...
    @property
    def hidden(self) -> int: ...


def layers_of_levels(layers: int, levels: int) -> list[tuple[int, ...]]:
    """The layers that each level of the tree reads, evenly spaced over the last two fifths of the encoder.

    Args:
        layers: of the encoder.
        levels: of the tree, the labels' own included.

    Returns:
        Layers from 1; the first level reads two of an encoder with six or more.
    """
    found = [(max(round(layers * (0.6 + 0.4 * level / (levels - 1))), 1),) for level in range(levels)]
    if layers >= 6:
        (first,) = found[0]
        return [(first - 1, first) if layers < 12 else (first, first + 1), *found[1:]]
    return list(found)
