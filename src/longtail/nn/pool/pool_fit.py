"""From texts to a trained encoder with heads: what learners over pools do around their losses."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor, nn

from longtail.arrays import Floats, Longs
from longtail.data.dataset import Dataset
from longtail.data.subsample import evenly_spaced
from longtail.errors import RecipeError, counted
from longtail.nn.dual.balanced_clusters import balanced_clusters
from longtail.nn.dual.dual_fit import DualEncoderFit, initial_calibration
from longtail.nn.dual.dual_settings import DualEncoderSettings
from longtail.nn.encoders.text_encoder import TextEncoder
from longtail.nn.encoders.tokens import tokenise
from longtail.nn.onevsall.onevsall_task import TextReading
from longtail.nn.pool.classifier_table import ClassifierTable
from longtail.nn.pool.label_sampler import LabelSampler
from longtail.nn.pool.pool_losses import level_of, loss_of
from longtail.nn.pool.pool_scorer import (
    PoolScorer,
    ProjectionHead,
    Unseen,
    join_halves,
    side_by_side,
    with_norm_power,
)
from longtail.nn.pool.pool_settings import PoolSettings, TableSettings
from longtail.nn.pool.pool_task import ClassifierTraining, PoolTask
from longtail.nn.pool.projection_heads import Heads
from longtail.nn.pool.sharded_table import ShardedTable
from longtail.nn.training.loop import train
from longtail.nn.training.process_group import ProcessGroup
from longtail.nn.training.to_device import to_device
from longtail.progress import note
from longtail.seams import TailMethod
from longtail.search.blas_threads import single_threaded_blas

NOTED = 1.0  # seconds from which a refresh after the first is noted, too
LEVEL_ROWS, LEVEL_LABELS = 512, 8192  # sample that the level of scores before training is measured on
PredictBy = Literal["both", "encoder", "classifiers"]


@dataclass(eq=False)
class PoolFit(DualEncoderFit):
    """A dual encoder over pools in training, with projection heads and one classifier per label where asked for.
    Without heads it is a plain dual encoder."""

    heads: Heads | None = None
    table: ClassifierTable | None = None
    predict_by: PredictBy = "encoder"  # what labels are found by
    norm_power: float = 0.0  # of the classifiers' norms when they are searched
    classifier_share: float = 0.5  # weight of the classifiers in the score, where labels are found by both

    @classmethod
    def begin(
        cls, settings: DualEncoderSettings, train: Dataset, valid: Dataset, parts: tuple[TailMethod, ...]
    ) -> PoolFit:
        """See `DualEncoderFit.begin`; train with `learn_pools`."""
        towers = super().begin(settings, train, valid, parts)
        assert isinstance(towers, PoolFit)
        return towers

    def add_heads(
        self,
        dropout: float,
        classifiers: bool,
        predict_by: PredictBy,
        norm_power: float = 0.0,
        head_dimension: int | None = None,
        classifier_share: float = 0.5,
    ) -> None:
        """Put projection heads on the encoder.

        Args:
            dropout: of the heads.
            classifiers: whether there is a head for classifiers.
            predict_by: what labels are found by.
            norm_power: see the field.
            head_dimension: of the heads' vectors; None: the encoder's.
            classifier_share: see the field.

        Raises:
            RecipeError: `head_dimension` is larger than the encoder's dimension.
        """
        width = self.encoder.dimension
        if (head_dimension or 0) > width:
            raise RecipeError(
                f"setting 'head_dimension' of {self.settings.name} is {head_dimension}, and the vectors of "
                f"{self.settings.encoder} have {width} numbers: take fewer, or none for all"
            )
        self.heads = Heads(width, dropout, classifiers, head_dimension).to(self.device)
        self.predict_by, self.norm_power, self.classifier_share = predict_by, norm_power, classifier_share
        if (head_dimension or width) != width:
            self.add_tower()  # a label tower works on the vectors that are compared

    def shaped(self, encoded: Floats) -> Floats:
        """See `DualEncoderFit.shaped`: the vectors of the head that is compared with texts."""
        return super().shaped(encoded) if self.heads is None else self.heads.project(encoded, "encoder")

    def shaped_on_device(self, encoded: Tensor) -> Tensor:
        """See `DualEncoderFit.shaped_on_device`."""
        if self.heads is None:
            return super().shaped_on_device(encoded)
        return self.heads.project_on_device(encoded, "encoder")

    def learn_pools(
        self,
        loss: str,
        pool: PoolSettings,
        head_learning_rate: float | None = None,
        classifiers: TableSettings | None = None,
    ) -> None:
        """Train the encoder, the heads, the label tower and the classifiers.

        Args:
            loss: of the dual encoder, by name.
            pool: how pools are made.
            head_learning_rate: of the heads; None: twice the encoder's.
            classifiers: how classifiers are trained; None: there are none.
        """
        own, targets = self.settings, self.train.targets
        documents, labels = (TextReading(self.encoder, tokens, own.precision, own.compile) for tokens in self.resident)
        training = None
        if classifiers is not None:
            training = self._classifier_training(classifiers, pool.rows_weight)
        task = PoolTask(
            encoder=self.encoder,
            documents=documents,
            labels=labels,
            sampler=LabelSampler(targets, self.device, pool.positives, pool.negatives, pool.all_labels),
            loss=loss_of(loss, pool.rows_weight),
            temperature=own.temperature,
            batch_size=own.batch_size,
            learning_rate=self.learning_rate,
            device=self.device,
            heads=self.heads,
            head_learning_rate=2 * self.learning_rate if head_learning_rate is None else head_learning_rate,
            classifiers=training,
            tower=self.tower,
            penalties=self.row_penalties(),
            refresh=lambda epoch: self._refresh(pool, epoch),
            weight_decay=own.weight_decay,
            mini_batch_size=own.mini_batch_size,
            seed=own.seed,
            encode_labels=self.text_vectors,
            evaluate=self.evaluation,
            ranks=ProcessGroup.here(),
        )
        try:
            self.history = train(task, self.training_config(own.epochs), self.identity())
        finally:
            if self.table is not None:
                self.table.close()

    def _refresh(self, pool: PoolSettings, epoch: int) -> tuple[Longs, Longs | None] | None:
        """Clusters of the rows with a label, and the nearest wrong labels of all rows, by the encoder as it is now;
        None in epochs without a refresh."""
        if not pool.refresh_every or epoch % pool.refresh_every:
            return None
        own, started = self.settings, time.monotonic()
        learned = np.flatnonzero(np.diff(self.train.targets.indptr))
        documents = self.vectors_on_device(self.resident[0], "documents")
        size = min(pool.cluster_size or own.batch_size, own.batch_size, len(learned))
        clustered = documents if len(learned) == len(documents) else documents[to_device(learned, documents.device)]
        clusters = balanced_clusters(clustered, size=size, seed=own.seed + epoch, device=str(self.device))
        mined = self.mine(pool.negatives * pool.refresh_every, documents) if pool.negatives else None
        seconds = time.monotonic() - started
        if epoch == 0 or seconds >= NOTED:
            and_mined = f", {counted(mined.shape[1], 'hard negative')} each" if mined is not None else ""
            note(f"{own.name}: clustered {counted(len(learned), 'document')}{and_mined}, in {seconds:.1f} s")
        return clusters, mined

    def _classifier_training(self, settings: TableSettings, rows_weight: float) -> ClassifierTraining:
        """Classifiers that are initialised with their labels' texts, projected by the classifiers' head.

        Each of several processes holds a range of them."""
        assert self.heads is not None
        ranks, total = ProcessGroup.here(), len(self.labels)
        tokens = self.labels.span(*ranks.range(total))
        init = self.heads.project(self.encode_tokens(tokens, "labels"), "classifiers")
        precision: Literal["fp32", "bf16"] = "bf16" if settings.precision == "bf16" else "fp32"
        own, seed = (init, self.device), self.settings.seed
        if ranks.count == 1:
            self.table = ClassifierTable(*own, settings.on_host, precision, seed=seed)
        else:
            self.table = ShardedTable(*own, ranks, total, settings.on_host, precision, seed)
        sample = self.train.take(evenly_spaced(len(self.train), LEVEL_ROWS)).texts or ()
        tokens = tokenise(sample, self.tokenizer, self.max_tokens, what="documents")
        rows = self.heads.project(self.encode_tokens(tokens, "documents"), "classifiers")
        labels = evenly_spaced(total, LEVEL_LABELS)
        if ranks.count == 1:
            drawn = init[labels]
        else:
            drawn = self.table.take(torch.from_numpy(labels).to(self.device)).detach().cpu().numpy()
        with single_threaded_blas():  # the bits of a product depend on OpenBLAS's threads
            scores = settings.scale * rows @ drawn.T
        return ClassifierTraining(
            self.table,
            loss_of(settings.loss, rows_weight, level_of(torch.from_numpy(scores))),
            settings.scale,
            settings.learning_rate,
            settings.encoder_loss_weight,
            settings.norms,
        )

    def validate(self) -> dict[str, float]:
        """P@1 and PSP@1 of the held-out rows."""
        if self.heads is None:
            return super().validate()
        encoded = self.held_out_vectors()
        sides = {"both": ("encoder", "classifiers")}.get(self.predict_by, (self.predict_by,))
        queries = side_by_side([self.heads.project(encoded, side) for side in sides])
        return self.measure_labels(queries, join_halves(*self._halves(), self.classifier_share))

    def _halves(self) -> tuple[Floats | None, Floats | None]:
        """Unit vectors of the labels' texts, and classifiers; None for those that labels are not found by."""
        texts = None if self.predict_by == "classifiers" else self.label_vectors()
        if self.table is None or self.predict_by == "encoder":
            return texts, None
        rows = self.table.rows()
        if not np.isfinite(np.einsum("ld,ld->l", rows, rows)).all():
            learning_rate = getattr(self.settings, "classifier_learning_rate", None)
            raise RecipeError(
                f"the classifiers of {self.settings.name} diverged: lower classifier_learning_rate, now {learning_rate}"
            )
        return texts, with_norm_power(rows, self.norm_power)

    def pool_scorer(self, unseen: Unseen = "mapped") -> PoolScorer:
        """The trained model, calibrated on valid.

        Args:
            unseen: the classifier of a label that joins later.

        Returns:
            A scorer with heads; without heads see `scorer`.
        """
        assert self.heads is not None
        own, second = self.settings, self.heads.rows
        heads = _as_arrays(self.heads.texts, bends=True), None if second is None else _as_arrays(second, bends=False)
        encoder = TextEncoder.of(self.encoder, self.tokenizer, self.max_tokens)
        texts, classifiers = self._halves()
        uncalibrated = PoolScorer(
            encoder, heads, texts, classifiers, initial_calibration(own.temperature), unseen, self.tower is not None,
            own.search, self.classifier_share,
        )  # fmt: skip
        return self.calibrated(uncalibrated, uncalibrated.queries)


def _as_arrays(layer: nn.Linear, bends: bool) -> ProjectionHead:
    weight, bias = (part.detach().float().cpu().numpy().copy() for part in (layer.weight, layer.bias))
    return ProjectionHead(weight, bias, bends)
