"""From texts to a trained encoder with heads: what learners over pools do around their losses."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import torch
from torch import Tensor, nn

from longtail.arrays import Floats, Longs
from longtail.data.dataset import Dataset
from longtail.errors import RecipeError
from longtail.nn.blend import Odds
from longtail.nn.clusters import balanced_clusters
from longtail.nn.encode import encode
from longtail.nn.fit import SCALE_ROWS, Towers, judged, spread
from longtail.nn.heads.task import TextReading
from longtail.nn.loop import train
from longtail.nn.pool.heads import Heads
from longtail.nn.pool.losses import level_of, loss_of
from longtail.nn.pool.picks import Picker
from longtail.nn.pool.scorer import Head, PoolScorer, Unseen, beside, joined, lengthened
from longtail.nn.pool.settings import Picks, TableSettings
from longtail.nn.pool.table import ClassifierTable
from longtail.nn.pool.task import Classifying, PoolTask
from longtail.nn.resident import sent
from longtail.nn.settings import TowerSettings
from longtail.nn.tokens import tokenise
from longtail.nn.towers import Reader
from longtail.predictions import CANDIDATES, Predictions
from longtail.progress import note, stage
from longtail.seams import TailMethod

TOLD = 1.0  # seconds that a renewal must take to be told again
LEVEL_ROWS, LEVEL_LABELS = 512, 8192  # by which scores are judged before anything is learned
By = Literal["both", "encoder", "classifiers"]


@dataclass(eq=False)
class PoolTowers(Towers):
    """Towers that end in heads, and a classifier a label where asked. Without heads, they are plain towers."""

    heads: Heads | None = None
    table: ClassifierTable | None = None
    by: By = "encoder"  # what labels are found by
    lengths: float = 0.0  # how much of their lengths classifiers keep when they are searched
    share: float = 0.5  # of the score that is the classifiers', by both

    @classmethod
    def begin(
        cls, settings: TowerSettings, train: Dataset, valid: Dataset, parts: tuple[TailMethod, ...]
    ) -> PoolTowers:
        towers = super().begin(settings, train, valid, parts)
        assert isinstance(towers, PoolTowers)
        return towers

    def add_heads(
        self,
        dropout: float,
        classifiers: bool,
        by: By,
        lengths: float = 0.0,
        numbers: int | None = None,
        share: float = 0.5,
    ) -> None:
        width = self.encoder.dimension
        if (numbers or 0) > width:
            raise RecipeError(
                f"setting 'head_dimension' of {self.settings.name} is {numbers}, and the vectors of "
                f"{self.settings.encoder} have {width} numbers: take fewer, or none for all"
            )
        self.heads = Heads(width, dropout, classifiers, numbers).to(self.device)
        self.by, self.lengths, self.share = by, lengths, share
        if (numbers or width) != width:
            self.add_tower()  # what moves labels moves what they are compared by

    def shaped(self, encoded: Floats) -> Floats:
        return super().shaped(encoded) if self.heads is None else self.heads.applied(encoded, "encoder")

    def shaped_there(self, encoded: Tensor) -> Tensor:
        return super().shaped_there(encoded) if self.heads is None else self.heads.applied_there(encoded, "encoder")

    def learn_pools(
        self, loss: str, picks: Picks, head_rate: float | None = None, classifiers: TableSettings | None = None
    ) -> None:
        own, targets = self.settings, self.train.targets
        documents, labels = (TextReading(self.encoder, tokens, own.precision, own.compiled) for tokens in self.resident)
        picker = Picker(targets, self.device, picks.positives, picks.negatives, picks.everything)
        classifying = None
        if classifiers is not None:
            classifying = self._classifying(classifiers, picks.rows_weight)
        learned = np.flatnonzero(np.diff(targets.indptr))

        def renew(epoch: int) -> tuple[Longs, Longs | None] | None:
            """Clusters of rows, and their nearest wrong labels, of the encoder as it is now."""
            if not picks.refresh or epoch % picks.refresh:
                return None
            begun = time.monotonic()
            documents = self.vectors_there(self.resident[0], "documents")
            size = min(picks.cluster or own.batch, own.batch, len(learned))
            near = documents if len(learned) == len(documents) else documents[sent(learned, documents.device)]
            clusters = balanced_clusters(near, size=size, seed=own.seed + epoch, device=str(self.device))
            mined = self.mine(picks.negatives * picks.refresh, documents) if picks.negatives else None
            spent = time.monotonic() - begun
            if epoch == 0 or spent >= TOLD:
                many = f" and {mined.shape[1]} near labels each" if mined is not None else ""
                note(f"{own.name}: clusters of {len(learned):,} rows{many} renewed in {spent:.1f} s")
            return clusters, mined

        task = PoolTask(
            encoder=self.encoder,
            documents=documents,
            labels=labels,
            picker=picker,
            loss=loss_of(loss, picks.rows_weight),
            temperature=own.temperature,
            batch=own.batch,
            rate=self.rate,
            device=self.device,
            heads=self.heads,
            head_rate=2 * self.rate if head_rate is None else head_rate,
            classifying=classifying,
            tower=self.tower,
            renew=renew,
            weight_decay=own.weight_decay,
            chunk=own.chunk,
            seed=own.seed,
            encode_labels=self.text_vectors,
            look=self.look if len(self.valid) else None,
        )
        try:
            self.history = train(task, self.course(), self.identity())
        finally:
            if self.table is not None:
                self.table.close()

    def _classifying(self, settings: TableSettings, rows_weight: float) -> Classifying:
        """Classifiers that begin at their labels' texts, as the classifiers' head sees them."""
        assert self.heads is not None
        begin = self.heads.applied(
            encode(self.encoder, self.labels, longest=self.longest, what="labels"), "classifiers"
        )
        some = self.train.take(spread(len(self.train), LEVEL_ROWS)).texts or ()
        tokens = tokenise(some, self.tokenizer, self.longest, what="documents")
        rows = self.heads.applied(encode(self.encoder, tokens, longest=self.longest, what="documents"), "classifiers")
        scores = settings.scale * rows @ begin[spread(len(begin), LEVEL_LABELS)].T
        precision: Literal["fp32", "bf16"] = "bf16" if settings.precision == "bf16" else "fp32"
        self.table = ClassifierTable(begin, self.device, settings.on_host, precision, seed=self.settings.seed)
        loss = loss_of(settings.loss, rows_weight, level_of(torch.from_numpy(scores)))
        return Classifying(self.table, loss, settings.scale, settings.rate, settings.weight, settings.lengths)

    def look(self) -> dict[str, float]:
        if self.heads is None:
            return super().look()
        rows, tokens = self.held_out
        encoded = encode(self.encoder, tokens, longest=self.longest, what="valid rows")
        sides = {"both": ("encoder", "classifiers")}.get(self.by, (self.by,))
        queries = beside([self.heads.applied(encoded, side) for side in sides])
        return self._look(queries, joined(*self._halves(), self.share), rows)

    def _halves(self) -> tuple[Floats | None, Floats | None]:
        """The labels' texts, of length 1, and classifiers, as far as labels are found by them."""
        texts = None if self.by == "classifiers" else self.label_vectors()
        if self.table is None or self.by == "encoder":
            return texts, None
        rows = self.table.rows()
        if not np.isfinite(np.einsum("ld,ld->l", rows, rows)).all():
            rate = getattr(self.settings, "classifier_rate", None)
            raise RecipeError(
                f"classifiers of {self.settings.name} grew beyond bounds; lower classifier_rate, now {rate}"
            )
        return texts, lengthened(rows, self.lengths)

    def pool_scorer(self, unseen: Unseen = "mapped") -> PoolScorer:
        """What was learned, with chances learned on valid."""
        assert self.heads is not None
        own, second = self.settings, self.heads.rows
        heads = _plain(self.heads.texts, bends=True), None if second is None else _plain(second, bends=False)
        sharp = 1 / own.temperature
        reader = Reader.of(self.encoder, self.tokenizer, self.longest)
        texts, classifiers = self._halves()
        scorer = PoolScorer(
            reader, heads, texts, classifiers, Odds(sharp, -0.5 * sharp), unseen, self.tower is not None,
            own.search, self.share,
        )  # fmt: skip
        if len(self.valid) == 0:
            return scorer
        with stage("learning chances"):
            rows = self.valid.take(spread(len(self.valid), SCALE_ROWS))
            near = Predictions(rows.labels, *scorer.nearest(scorer.queries(rows.texts or (), "valid rows"), CANDIDATES))
            hits, counted = judged(near, rows)
            return replace(scorer, odds=scorer.odds.fitted(near.scores[counted], hits))


def _plain(layer: nn.Linear, bends: bool) -> Head:
    weight, bias = (part.detach().float().cpu().numpy().copy() for part in (layer.weight, layer.bias))
    return Head(weight, bias, bends)
