"""From texts to an encoder that was trained level by level, and a label tree over words and its vectors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from scipy import sparse

from longtail.arrays import Floats, Ints, Longs, Matrix
from longtail.linear.features.sparse_features import Features
from longtail.linear.solvers.dense_candidate_svc import fit_dense_candidates
from longtail.linear.trees.label_clusters import balanced_halves, label_vectors, merge_levels
from longtail.linear.trees.label_forest import fit_forest
from longtail.linear.trees.train_tree import Training
from longtail.nn.encoders.text_encoder import TextEncoder, normalised
from longtail.nn.label_tree.resolution_scorer import ResolutionScorer
from longtail.nn.label_tree.resolution_task import ResolutionHead, ResolutionTask, node_counts, own_first
from longtail.nn.label_tree.tree_fit import TreeFit
from longtail.nn.label_tree.tree_task import TreeTask
from longtail.progress import stage

HEAD_COST = 100.0  # C of the classifiers that a level begins with
HEAD_PASSES = 5
NAMED = 2.0**30  # added to the count of a node that is a candidate, so that a count of 0 stays an entry
LEVEL_NODES = 32_768  # a level with more nodes is not trained on


@runtime_checkable
class ResolutionSettings(Protocol):
    """The settings of the levels and of the trees at the end."""

    @property
    def head_init_candidates(self) -> int: ...
    @property
    def trees(self) -> int: ...
    @property
    def feature_weight(self) -> float: ...
    @property
    def cost(self) -> float: ...
    @property
    def weight_threshold(self) -> float: ...
    @property
    def hard_negatives(self) -> int: ...
    @property
    def tree_leaf_labels(self) -> int: ...
    @property
    def tree_beam(self) -> int: ...


@dataclass(eq=False)
class ResolutionFit(TreeFit):
    """An encoder that is trained on one level of the tree after another."""

    level: int = 0  # in training
    predicted: Ints | None = None  # (rows, beam) nodes of the level above, best first
    above: Matrix | None = None  # csr (rows, nodes) counts of the level above
    counts: Matrix | None = None  # csr (rows, nodes) counts of this level
    parents: Ints | None = None  # (rows, beam) nodes of the level above whose children are candidates
    encoded: Floats | None = None  # (rows, dimension) of the training rows by the encoder as it is now, once asked for

    def make_heads(self) -> ResolutionHead:
        """See `TreeFit.make_heads`: the classifiers of the level that is to be trained."""
        nodes, dimension = self.levels.nodes(self.level), self.encoder.dimension
        if self.level == 0:
            weights = (0.02 * torch.randn(nodes, dimension)).numpy()
            return ResolutionHead(self.levels, 0, weights, np.zeros(nodes, np.float32), self.settings.dropout)
        weights, bias = self.solved(self.vectors())
        self.encoded = None  # this level's training changes the encoder
        return ResolutionHead(self.levels, self.level, weights, bias, self.settings.dropout)

    def learn(self, epochs: int | None = None, task: Callable[..., TreeTask] = ResolutionTask, **changes: Any) -> None:
        """See `TreeFit.learn`: every level that is small enough, coarse to fine."""
        own, levels = self.settings, self.levels
        for level in range(levels.count):
            if levels.nodes(level) > LEVEL_NODES:
                break
            self.level, nodes = level, levels.nodes(level)
            self.counts = node_counts(self.train.targets, levels.node_of_label[level], nodes)
            if self.predicted is not None:
                self.parents = own_first(self.above, self.predicted, self.predicted.shape[1])
            every = np.arange(nodes, dtype=np.int32)
            super().learn(
                epochs,
                task=partial(task, parents=self.parents),
                name=f"level {level + 1}",
                targets=self.counts,
                node_of_label=(every,),
                evaluate=None,
                **changes,
            )
            if level < levels.count - 1:
                self.predicted, self.above = self.best_nodes(min(own.beam, self._candidates(level))), self.counts

    def best_nodes(self, k: int) -> Ints:
        """The best nodes of this level for each training row, below those of the level above."""
        vectors, found = self.vectors(), []
        size = self.settings.batch_size
        for first in range(0, len(vectors), size):
            part = torch.from_numpy(vectors[first : first + size]).to(self.device)
            above = None
            if self.predicted is not None:
                above = torch.from_numpy(self.predicted[first : first + size].astype(np.int64)).to(self.device)
            found.append(self.heads.best(part, above, k).int().cpu().numpy())
        return np.concatenate(found)

    def _candidates(self, level: int) -> int:
        """The fewest nodes of a level that a row has to choose from."""
        if self.predicted is None:
            return self.levels.nodes(level)
        return int(self.predicted.shape[1]) * self.levels.narrowest(level - 1)

    def solved(self, vectors: Floats) -> tuple[Floats, Floats]:
        """Linear classifiers of this level's nodes on the encoder's vectors as they are: where its training begins.

        Args:
            vectors: (rows, dimension) of the training rows.

        Returns:
            Weights (nodes, dimension) and biases (nodes,).
        """
        settings, levels, assigned = self.settings, self.levels, self.parents
        assert isinstance(settings, ResolutionSettings)
        assert assigned is not None
        assert self.counts is not None
        begins = levels.begins[self.level - 1]
        rows, each = assigned.shape
        room = max(settings.head_init_candidates // levels.widest(self.level - 1), 1)
        chosen = assigned[:, : min(room, each)].astype(np.int64)  # a row's own clusters stand first
        sizes = np.diff(begins)[chosen].ravel()
        nodes = np.repeat(begins[chosen].ravel() - np.cumsum(sizes) + sizes, sizes) + np.arange(int(sizes.sum()))
        where = np.repeat(np.repeat(np.arange(rows), chosen.shape[1]), sizes)
        named = sparse.csr_array((np.full(len(nodes), NAMED), (where, nodes)), shape=self.counts.shape)
        pairs = sparse.csr_array(named + self.counts.astype(np.float64)).tocsc()
        pairs.data = np.where(pairs.data >= NAMED, pairs.data - NAMED, pairs.data).astype(np.float32)
        return fit_dense_candidates(
            vectors, pairs, positive_cost=HEAD_COST, negative_cost=HEAD_COST, max_iter=HEAD_PASSES
        )

    def vectors(self) -> Floats:
        """(rows, dimension) of the training rows by the encoder as it is now, not normalised."""
        if self.encoded is None:
            self.encoded = self.encode_tokens(self.documents, "documents")
        return self.encoded

    def scorer(self) -> ResolutionScorer:
        """Trees over words and unit vectors, trained anew; the level classifiers are not kept."""
        settings = self.settings
        assert isinstance(settings, ResolutionSettings)
        rows = replace(self.train, features=sparse.csr_array(normalised(self.vectors())))
        with stage("counting words"):
            features, matrix = Features.learn(rows, share=settings.feature_weight)
        training = Training(
            cost=settings.cost,
            weight_threshold=settings.weight_threshold,
            max_iter=5 if settings.hard_negatives else 8,
            path_weight=3 / (3 + settings.hard_negatives),  # as in `bonsai`
            seed=settings.seed,
        )

        def cluster(vectors: Matrix, seed: int) -> tuple[Ints, list[Longs]]:
            order, levels = balanced_halves(vectors, settings.tree_leaf_labels, seed)
            return order, merge_levels(levels, 16)

        describe = partial(label_vectors, rows.targets, matrix)
        shape = (settings.trees, settings.tree_beam, settings.hard_negatives)
        forest = fit_forest(features, matrix, rows.targets, describe, cluster, training, *shape)
        return ResolutionScorer(TextEncoder.of(self.encoder, self.tokenizer, self.max_tokens), forest)
