"""From texts to a trained shallow net: what all of them do around their own parts."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import nn

from longtail.arrays import AnyArray, Floats, Ints, Matrix
from longtail.data.dataset import Dataset
from longtail.linear.solvers.platt_scaling import PlattScaling
from longtail.linear.trees.label_clusters import balanced_halves, label_vectors
from longtail.memory import keeping_large_blocks
from longtail.nn.encoder_fit import EncoderFit, token_cache, training_texts
from longtail.nn.encoders.bag_and_gru import inverse_frequency
from longtail.nn.encoders.build import build_encoder
from longtail.nn.encoders.text_encoder import TextEncoder
from longtail.nn.encoders.tokenizers import learn_words
from longtail.nn.encoders.tokens import tokenise
from longtail.nn.encoders.word_runs import Runs
from longtail.nn.encoders.word_vector_encoders import InceptionEncoder, bag
from longtail.nn.extra import expand_home
from longtail.nn.onevsall.batch_targets import TrainingTargets
from longtail.nn.onevsall.onevsall_scorer import OneVsAllScorer, rare_of
from longtail.nn.shallow.label_head import LabelHead, product_dtype
from longtail.nn.shallow.label_pool import Clusters, Pool
from longtail.nn.shallow.pretrained_word_vectors import read_vectors
from longtail.nn.shallow.shallow_scorer import MetaRows, ShallowScorer
from longtail.nn.shallow.shallow_settings import WORDS, GraphNet, ShallowSettings
from longtail.nn.shallow.shallow_task import Meta, ShallowTask
from longtail.nn.shallow.sparse_adam import Rule
from longtail.nn.shallow.walk_graph import label_graph
from longtail.nn.training.history import History
from longtail.nn.training.loop import train
from longtail.nn.training.precision import best_device
from longtail.progress import stage
from longtail.seams import TailMethod


@dataclass(eq=False)
class ShallowFit(EncoderFit):
    """A shallow net in training: word vectors, an encoder over them, the words of the texts, and classifiers."""

    settings: ShallowSettings
    texts: Runs
    labels: LabelHead | None = None
    meta: Meta | None = None
    clusters: Clusters | None = None
    graph: Matrix | None = None
    histories: list[History] = field(default_factory=list)

    @classmethod
    def begin(
        cls, settings: ShallowSettings, train: Dataset, valid: Dataset, parts: tuple[TailMethod, ...],
        body: dict[str, Any],
    ) -> ShallowFit:  # fmt: skip
        """The vocabulary, the words of the texts, and the untrained encoder.

        Args:
            settings: of the learner.
            train: rows to train on.
            valid: rows to validate and calibrate on; may be empty.
            parts: tail methods of the recipe.
            body: settings of `build_encoder` without the vocabulary.

        Returns:
            A fit that has no classifiers yet: see `make_labels`.

        Raises:
            DataError: the rows have no texts, or no row has a label.
        """
        given = training_texts(settings.name, train)
        with stage("learning words"):
            tokenizer = learn_words((*given, *filter(None, train.labels.texts_with_names)), WORDS)
        tokens = tokenise(given, tokenizer, settings.max_tokens, token_cache(), what="documents")
        idf = inverse_frequency(tokens, tokenizer.size)
        device = best_device()
        encoder = build_encoder({**body, "vocabulary": tokenizer.size}, settings.seed)
        encoder.body.get_buffer("idf").copy_(torch.from_numpy(idf))
        if isinstance(encoder.body, InceptionEncoder):
            encoder.body.kind = product_dtype(settings.precision, device)
        if settings.word_vectors is not None:
            table = encoder.body.get_parameter("words.weight")
            vectors, _ = read_vectors(
                expand_home(settings.word_vectors), tokenizer.words, settings.dimension, table.numpy()
            )
            table.copy_(torch.from_numpy(vectors))
        return cls(
            settings=settings,
            train=train,
            valid=valid,
            parts=parts,
            encoder=encoder.to(device),
            tokenizer=tokenizer,
            device=device,
            texts=Runs.of(tokens, idf),
        )

    @property
    def max_tokens(self) -> int:
        """Tokens of a text that are kept; an encoder with convolutions reads fewer of them, `max_words`."""
        return self.settings.max_tokens

    @property
    def table(self) -> torch.Tensor:
        """The word vectors: (words, dimension)."""
        found: torch.Tensor = self.encoder.body.table  # type: ignore[assignment]
        return found

    @cached_property
    def against_all(self) -> bool:
        """Whether each row is compared with all labels, and not with a pool of them."""
        return self.settings.against_all(len(self.train), len(self.train.labels))

    @cached_property
    def rows(self) -> Matrix:
        """The training rows as tf-idf: csr (rows, words)."""
        return self.texts.matrix(self.tokenizer.size)

    @torch.no_grad()
    def coarse_vectors(self) -> Floats:
        """(rows, dimension): the training rows by a bag of words, before its residual block."""
        body, size = self.encoder.body, 4096
        parts = [
            body.coarse(self.texts.take(rows, self.device), self.table).cpu().numpy()  # type: ignore[operator]
            for rows in np.array_split(np.arange(len(self.texts)), -(-len(self.texts) // size))
        ]
        return np.concatenate(parts)

    def label_runs(self) -> Runs:
        """The words of the label texts, weighted by the idf of the documents."""
        texts = self.settings.label_texts(self.train)
        idf = self.encoder.body.get_buffer("idf").cpu().numpy()
        return Runs.of(tokenise(texts, self.tokenizer, self.settings.max_tokens, what="labels"), idf)

    @torch.no_grad()
    def bags(self, texts: Runs) -> Floats:
        """Weighted sums of word vectors as they are now, to initialise classifiers with.

        Args:
            texts: words of label texts, such as `label_runs` gives.

        Returns:
            (texts, dimension).
        """
        rows = np.arange(len(texts))
        found: Floats = bag(texts.take(rows, self.device), self.table).cpu().numpy()
        return found

    def make_graph(self, walk: GraphNet) -> Matrix:
        """The symmetrically normalised graph of labels that random walks reach from each other. Rows that tail methods
        added are left out.

        Args:
            walk: settings of the walks.

        Returns:
            csr (labels, labels); it is also kept for the scorer.
        """
        original = np.flatnonzero(self.train.origins == 0)
        targets = self.train.targets[original] if len(original) else self.train.targets
        with stage("walking from label to label"):
            self.graph = label_graph(
                targets, walk.walk_steps, walk.restart, walk.neighbours, walk.walk_max_count, self.settings.seed
            )
        return self.graph

    def make_labels(
        self,
        init: Floats | None = None,
        side: Callable[[], nn.Module] | None = None,
        texts: tuple[Runs, ...] = (),
    ) -> LabelHead:
        """Classifiers of all labels.

        Args:
            init: (labels, dimension) initial weights; random where None.
            side: builds the module that makes classifiers from label texts.
            texts: words of the label texts that this module reads.

        Returns:
            The head, which is also kept for `learn`.
        """
        module = None
        if side is not None:
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(self.settings.seed)
                module = side()
        self.labels = self._classifiers(self.train.targets, init, module, texts)
        return self.labels

    def _classifiers(
        self, targets: Matrix, init: Floats | None = None, side: nn.Module | None = None, texts: tuple[Runs, ...] = ()
    ) -> LabelHead:
        own, (rows, labels) = self.settings, targets.shape
        if init is None:
            rng = np.random.default_rng([own.seed, labels])
            init = (0.02 * rng.standard_normal((labels, self.encoder.dimension))).astype(np.float32)
        share = min(max(targets.sum() / max(rows * labels, 1), 1e-12), 0.5)
        bias = math.log(share / (1 - share))  # the log odds of a label of mean frequency, where nothing else is learned
        vectors, kind = torch.from_numpy(init).to(self.device), product_dtype(own.precision, self.device)
        return LabelHead(vectors, bias, Rule(own.learning_rate, own.head_weight_decay), side, texts, kind).to(
            self.device
        )

    def group(self) -> Clusters:
        """Balanced clusters of labels with similar rows: halved until they are small enough. Made once."""
        if self.clusters is None:
            with stage("grouping labels"):
                vectors = label_vectors(self.train.targets, self.rows)
                order, levels = balanced_halves(vectors, self.settings.label_cluster_size, self.settings.seed)
            self.clusters = Clusters(order, levels[-1])
        return self.clusters

    def make_meta(self, alone: int = 0) -> Meta:
        """Classifiers of label clusters (meta-labels) on the same vectors.

        Args:
            alone: epochs in which the encoder learns from these classifiers alone.

        Returns:
            The meta-labels, which are also kept for `learn`.
        """
        targets = cluster_targets(self.train.targets, self.group())
        self.meta = Meta(self._classifiers(targets), TrainingTargets(targets), alone)
        return self.meta

    def pool(self, beam: int = 0, nearest: Ints | None = None) -> Pool | None:
        """How the labels that a batch is compared with are chosen.

        Args:
            beam: clusters of each row whose labels are in the pool.
            nearest: (rows, labels of a row) labels of each training row that are in the pool, -1 for none.

        Returns:
            The pool; None where batches are compared with all labels.
        """
        if self.against_all:
            return None
        own, labels = self.settings, len(self.train.labels)
        meta = None if self.meta is None else self.meta.labels
        return Pool(labels, own.random_negatives, meta, self.clusters if meta else None, beam, nearest, own.seed)

    def learn(self, pool: Pool | None, **more: Any) -> None:
        """Train encoder and classifiers.

        Args:
            pool: chooses the labels that a batch is compared with; None for all.
            **more: fields of `ShallowTask` that differ from the defaults here.
        """
        assert self.labels is not None
        task = ShallowTask(
            encoder=self.encoder,
            texts=self.texts,
            labels=self.labels,
            targets=TrainingTargets(self.train.targets),
            batch_size=self.settings.batch_size,
            learning_rate=self.settings.learning_rate,
            device=self.device,
            pool=pool,
            **{
                "meta": self.meta,
                "evaluate": self.evaluation,
                "name": self.settings.name,
                "penalties": self.row_penalties(),
                "mixup_alpha": self.settings.mixup_alpha,
                **more,
            },
            seed=self.settings.seed,
        )
        self._train(task)

    def learn_surrogate(self) -> None:
        """Train the encoder on label clusters in place of labels (the surrogate task of DeepXML)."""
        targets = cluster_targets(self.train.targets, self.group())
        task = ShallowTask(
            encoder=self.encoder,
            texts=self.texts,
            labels=self._classifiers(targets),
            targets=TrainingTargets(targets),
            batch_size=self.settings.batch_size,
            learning_rate=self.settings.learning_rate,
            device=self.device,
            seed=self.settings.seed,
            name=f"{self.settings.name} on clusters",
        )
        self._train(task)

    def _train(self, task: ShallowTask) -> None:
        own = self.settings
        config = self.training_config(
            own.epochs, max_gradient_norm=None, patience=own.stops_after(len(self.texts)), monitor=own.monitor
        )
        with keeping_large_blocks() if self.device.type == "cpu" else nullcontext():
            self.histories.append(train(task, config, self.identity()))

    def token_arrays(self) -> tuple[AnyArray, ...]:
        """See `EncoderFit.token_arrays`."""
        return self.texts.words, self.texts.offsets

    def validate(self) -> dict[str, float]:
        """P@1, PSP@1 and PSP@5 of the held-out rows; with `monitor="both"` also the mean of P@1 and PSP@5."""
        vectors, scorer = self.held_out_vectors(), self._plain()

        def find(k: int) -> tuple[Ints, Floats]:
            labels, scores = scorer.nearest(vectors, k)
            return labels, PlattScaling(1.0, 0.0).of(scores)

        measures = self.measure(find, ("P@1", "PSP@1", "PSP@5"))
        if self.settings.monitor == "both":
            measures["both"] = (measures["P@1"] + measures["PSP@5"]) / 2
        return measures

    def _plain(self) -> OneVsAllScorer | ShallowScorer:
        """The net as it is now, not calibrated."""
        assert self.labels is not None
        encoder = TextEncoder.of(self.encoder, self.tokenizer, self.settings.max_tokens)
        weights, bias = self.labels.folded(self.table)
        if self.settings.scorer is OneVsAllScorer:
            return OneVsAllScorer(
                encoder, weights, bias, PlattScaling(1.0, 0.0), rare_of(weights, bias, self.train.labels.counts)
            )
        meta = None
        if self.meta is not None:
            meta = MetaRows(*self.meta.labels.folded(None), self.group().of)
        return ShallowScorer(encoder, weights, bias, PlattScaling(1.0, 0.0), meta, self.graph)

    def scorer(self) -> Any:
        """The trained model, calibrated on valid: of the class that the settings name."""
        uncalibrated = self._plain()
        return self.calibrated(uncalibrated, uncalibrated.encoder.unnormalised)


def cluster_targets(targets: Matrix, clusters: Clusters) -> Matrix:
    """Targets over clusters: the largest target of each row among the labels of each cluster.

    Args:
        targets: csr (rows, labels).
        clusters: of the labels.

    Returns:
        csr (rows, clusters).
    """
    from scipy import sparse

    rows = np.repeat(np.arange(targets.shape[0], dtype=np.int64), np.diff(targets.indptr))
    keys = rows * len(clusters) + clusters.of[targets.indices]
    order = np.argsort(keys, kind="stable")
    keys, values = keys[order], targets.data[order]
    starts = np.flatnonzero(np.r_[True, keys[1:] != keys[:-1]])[: len(keys)]
    largest = np.maximum.reduceat(values, starts) if len(keys) else values
    places = keys[starts]
    shape = (targets.shape[0], len(clusters))
    return sparse.csr_array((largest, (places // len(clusters), places % len(clusters))), shape=shape)
