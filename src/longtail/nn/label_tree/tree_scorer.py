"""The model of a net over a label tree. Loads torch only to predict."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from longtail.arrays import AnyArray, Floats, Ints
from longtail.data.dataset import Rows
from longtail.errors import DataError
from longtail.linear.solvers.platt_scaling import PlattScaling
from longtail.nn.encoders.encoder_declared import ENCODER, dimension_of
from longtail.nn.encoders.text_encoder import TextEncoder
from longtail.nn.label_tree.label_levels import MAX_LEVELS, LabelLevels, tree_declared
from longtail.nn.onevsall.onevsall_scorer import separated
from longtail.predictions import ranked
from longtail.seams import Array, Declaration, Fields, Flag, Many, Misfit, Nothing, State, Whole
from longtail.seams.declared import LARGEST

if TYPE_CHECKING:
    from longtail.nn.label_tree.level_heads import LevelHeads

ROWS = 256  # at once
LEVEL = Fields({"first": Whole(), "last": Whole(1), "mapped": Nothing(Whole(1, LARGEST)), "biased": Flag()})


@dataclass(frozen=True, eq=False)
class TreeNetScorer:
    """Finds labels by beam search over a tree: clusters first, then the labels of the best. Scores are probabilities,
    calibrated on held-out data, in the same order."""

    encoder: TextEncoder
    levels: LabelLevels
    weights: dict[str, AnyArray]  # of `LevelHeads`, by name
    features: tuple[dict[str, Any], ...]  # what each level sees of the encoder's vector, as in LEVEL
    beam: int
    by_parent: bool
    calibration: PlattScaling
    kind: ClassVar[str] = "treenet.v1"
    probabilities: ClassVar[bool] = True
    declared: ClassVar[Declaration] = ENCODER + Declaration(
        settings={
            "clusters": Whole(1, MAX_LEVELS),
            "beam": Whole(1),
            "by_parent": Flag(),
            "levels": Many(LEVEL, MAX_LEVELS + 1),
        },
        then=(lambda given: tree_declared(given["clusters"]), lambda given: _declared(given)),
    )

    def top(self, rows: Rows, k: int) -> tuple[Ints, Floats]:
        """See `Scorer.top`."""
        if rows.texts is None:
            raise DataError("this model reads texts; pass documents with texts, not only features")
        k = min(k, len(self.levels.order))
        if k < 1 or len(rows) == 0:
            return np.zeros((len(rows), 0), dtype=np.int32), np.zeros((len(rows), 0), dtype=np.float32)
        found, scores = self.nearest(self.encoder.unnormalised(rows.texts), k)
        probabilities = np.where(found >= 0, separated(self.calibration.of(scores), scores), np.float32(0))
        return ranked(found, probabilities.astype(np.float32))

    def nearest(self, vectors: Floats, k: int) -> tuple[Ints, Floats]:
        """Find the top labels of vectors by beam search.

        Args:
            vectors: (rows, dimension) float32, of the encoder.
            k: number of labels for each row.

        Returns:
            Labels (int32), -1 behind the last candidate, and log odds (float32), each (rows, k), best first.
        """
        import torch

        from longtail.nn.label_tree.tree_fit import searched

        device = self._heads.order.device
        return searched(self._heads, torch.from_numpy(np.ascontiguousarray(vectors)).to(device), k, ROWS)

    def row_norms(self) -> Floats:
        """See `HasClassifierRows.row_norms`."""
        leaves = self.weights[f"weights.{self.levels.count - 1}"]
        found = np.empty(len(leaves), dtype=np.float32)
        found[self.levels.order] = np.sqrt(np.einsum("ld,ld->l", leaves, leaves))
        return found

    @cached_property
    def _heads(self) -> LevelHeads:
        import torch

        from longtail.nn.label_tree.level_heads import LevelFeature, LevelHeads
        from longtail.nn.training.precision import best_device

        features = [LevelFeature(one["first"], one["last"], one["mapped"], 0.0) for one in self.features]
        heads = LevelHeads(self.levels, features, [one["biased"] for one in self.features], self.beam, self.by_parent)
        heads.load_state_dict({name: torch.from_numpy(np.array(array)) for name, array in self.weights.items()})
        return heads.to(best_device()).eval()

    def state(self) -> State:
        """See `Scorer.state`."""
        settings = {
            "encoder": self.encoder.settings,
            "max_tokens": self.encoder.max_tokens,
            "calibration": [self.calibration.scale, self.calibration.offset],
            "clusters": len(self.levels.begins),
            "beam": self.beam,
            "by_parent": self.by_parent,
            "levels": [dict(one) for one in self.features],
        }
        heads = {f"heads.{name}": array for name, array in self.weights.items()}
        return State(settings, {**self.encoder.tensors(), **self.levels.tensors(), **heads})

    @classmethod
    def restore(cls, state: State) -> TreeNetScorer:
        """See `Scorer.restore`."""
        settings, tensors = state.settings, state.tensors
        return cls(
            TextEncoder.restore(settings["encoder"], settings["max_tokens"], None, tensors),
            LabelLevels.restore(settings["clusters"], tensors),
            {name.removeprefix("heads."): array for name, array in tensors.items() if name.startswith("heads.")},
            tuple(settings["levels"]),
            int(settings["beam"]),
            bool(settings["by_parent"]),
            PlattScaling(*(float(value) for value in settings["calibration"])),
        )


def _declared(given: Mapping[str, Any]) -> Declaration:
    """The classifiers of each level. Their inputs are columns of the encoder's vector."""
    levels, width = given["levels"], dimension_of(given)
    if len(levels) != given["clusters"] + 1:
        raise Misfit(
            "levels", f"are {len(levels)} for {given['clusters']} levels of clusters and the labels", "setting"
        )
    arrays: dict[str, Array] = {}
    for number, level in enumerate(levels):
        if level["first"] >= level["last"] or (width.isdigit() and level["last"] > int(width)):
            raise Misfit(f"levels[{number}]", f"sees columns that a vector of {width} numbers does not have", "setting")
        nodes = f"nodes {number}" if number < given["clusters"] else "labels"
        seen = level["last"] - level["first"]
        arrays[f"heads.weights.{number}"] = Array("float32", f"{nodes}, {level['mapped'] or seen}")
        if level["biased"]:
            arrays[f"heads.bias.{number}"] = Array("float32", nodes)
        if level["mapped"] is not None:
            arrays[f"heads.maps.{number}.weight"] = Array("float32", f"{level['mapped']}, {seen}")
            arrays[f"heads.maps.{number}.bias"] = Array("float32", f"{level['mapped']}")
    return Declaration(arrays)
