"""From texts to an encoder and a classifier a label, trained end to end: what such learners do around the task."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch

from longtail.arrays import Floats
from longtail.data.dataset import Dataset
from longtail.errors import DataError
from longtail.metrics.evaluate import evaluate
from longtail.metrics.propensity import inverse_propensity
from longtail.nn.blend import Odds
from longtail.nn.checkpoint import belonging, kept_folder
from longtail.nn.encode import encode
from longtail.nn.encoders import Encoder, load_encoder
from longtail.nn.fit import MEASURED_ROWS, SCALE_ROWS, judged, spread
from longtail.nn.heads.entries import Targets
from longtail.nn.heads.head import Head, HeadSettings
from longtail.nn.heads.ranks import Ranks
from longtail.nn.heads.scorer import OneVsAllScorer, rare_of
from longtail.nn.heads.settings import OvaSettings
from longtail.nn.heads.shards import begin_as_one, top_of_all
from longtail.nn.heads.task import OneVsAll, Penalty, TextReading
from longtail.nn.history import History
from longtail.nn.loop import Course, train
from longtail.nn.precision import best_device
from longtail.nn.resident import ResidentTokens
from longtail.nn.settings import AT_RANDOM
from longtail.nn.tokenizers import TextTokenizer
from longtail.nn.tokens import Tokens, tokenise
from longtail.nn.towers import Reader, unit
from longtail.predictions import CANDIDATES, Predictions
from longtail.progress import stage
from longtail.seams import PenalisesRows, TailMethod

GAIN = 2.0  # of a label's score by one row that is right
LENGTH_ROWS = 512  # whose vectors are measured for it
LARGE = 1 << 30  # bytes of classifiers from which no second copy of the best is kept


@dataclass(eq=False)
class OneVsAllFit:
    """An encoder and a head in training, the tokens they read, and how they do on valid."""

    settings: OvaSettings
    train: Dataset
    valid: Dataset
    parts: tuple[TailMethod, ...]
    encoder: Encoder
    tokenizer: TextTokenizer
    documents: Tokens
    head: Head
    device: torch.device
    ranks: Ranks
    history: History | None = None

    @classmethod
    def begin(
        cls,
        settings: OvaSettings,
        train: Dataset,
        valid: Dataset,
        parts: tuple[TailMethod, ...],
        reader: Reader | None = None,
    ) -> OneVsAllFit:
        """Tokens, encoder and head before training. `reader` is an encoder that was trained before."""
        if train.texts is None:
            raise DataError(f"{settings.name} reads texts; the training rows have only features")
        if train.targets.nnz == 0:
            raise DataError(f"no row of train has a label, so {settings.name} has nothing to learn from")
        with stage("loading the encoder"):
            if reader is None:
                encoder, tokenizer = load_encoder(
                    settings.encoder,
                    settings.dimension,
                    texts=(*train.texts, *filter(None, train.labels.texts)),
                    dropout=settings.encoder_dropout,
                    seed=settings.seed,
                )
            else:
                encoder, tokenizer = reader.fresh(settings.encoder_dropout)
        device, ranks = best_device(), Ranks.here()
        kept = kept_folder()
        longest = min(settings.longest, encoder.longest or settings.longest)
        with ranks.first_alone():
            documents = tokenise(
                train.texts, tokenizer, longest, None if kept is None else kept / "tokens", what="documents"
            )
        encoder = encoder.to(device)
        ranks.same(encoder)
        head = _head(settings, train, encoder.dimension, device, ranks)
        fit = cls(settings, train, valid, parts, encoder, tokenizer, documents, head, device, ranks)
        reads = reader is not None or not fit.knows_nothing
        if settings.begin == "texts" or (settings.begin == "auto" and reads and all(train.labels.texts)):
            first, last = ranks.range(len(train.labels))
            head.begin_at(fit.text_vectors()[first:last])
        return fit

    @cached_property
    def longest(self) -> int:
        return min(self.settings.longest, self.encoder.longest or self.settings.longest)

    @cached_property
    def rate(self) -> float:
        if self.settings.rate is not None:
            return self.settings.rate
        return 2e-3 if self.knows_nothing else 6e-5

    @property
    def knows_nothing(self) -> bool:
        """Whether the settings name an encoder that begins at random."""
        name = "bag" if self.encoder.settings["kind"] == "bag" else self.settings.encoder
        return name in AT_RANDOM

    @cached_property
    def head_rate(self) -> float:
        """Where none is asked for: what valid chose for encoders whose vectors have a length of about 4, and for those
        that begin at random, whose vectors are short, so that a right row moves its label's score as much. The slope of
        the hinge loss has no bound, so there a whole batch of like rows must not overshoot."""
        if self.settings.head_rate is not None:
            return self.settings.head_rate
        slow = 1.0 if self.settings.loss == "bce" else min(1.0, 2 / self.settings.batch)
        if not self.knows_nothing:
            return 0.1 * slow
        texts = self.train.texts or ()
        some = [texts[row] for row in spread(len(texts), LENGTH_ROWS)]
        tokens = tokenise(some, self.tokenizer, self.longest, what="some documents")
        vectors = encode(self.encoder, tokens, longest=self.longest, what="some documents")
        return GAIN * slow / max(float(np.einsum("rd,rd->r", vectors, vectors).mean()), 1e-6)

    def text_vectors(self) -> Floats:
        """Unit vectors of the labels' texts as the encoder is now."""
        labels = self.train.labels
        if not labels.has_texts:
            raise DataError(
                f"{self.settings.name} is asked to begin or to stay near the texts of labels, and they have none: add "
                "them to labels.jsonl, or use a recipe that does not read them"
            )
        tokens = tokenise([labels.word(row) for row in range(len(labels))], self.tokenizer, self.longest, what="labels")
        return unit(encode(self.encoder, tokens, longest=self.longest, what="labels"))

    def identity(self) -> dict[str, Any]:
        """What a checkpoint of this training belongs to; any number of processes may go on with it."""
        tokens = (self.documents.ids, self.documents.offsets)
        own, words = self.settings, self.tokenizer.hash
        return belonging(own.name, own, self.parts, words, tokens, self.train.targets)

    def learn(self) -> None:
        own = self.settings
        first, last = self.ranks.range(len(self.train.labels))
        inverse = None
        if own.propensity:
            inverse = (inverse_propensity(self.train.labels) ** own.propensity).astype(np.float32)
        texts = ResidentTokens(self.documents, self.device, self.longest)
        task = OneVsAll(
            encoder=self.encoder,
            read=TextReading(self.encoder, texts, own.precision, own.compiled),
            head=self.head,
            targets=Targets(self.train.targets, own.positive, inverse, first, last),
            batch=own.batch,
            rate=self.rate,
            head_rate=self.head_rate,
            device=self.device,
            dropout=own.dropout,
            weight_decay=own.weight_decay,
            penalties=self.penalties(first, last),
            look=self.look if len(self.valid) else None,
            ranks=self.ranks,
            seed=own.seed,
        )
        epochs = own.passes(int(np.count_nonzero(self.train.origins == 0)))
        course = Course(
            epochs=epochs, warmup=own.warmup, decay=own.decay, clip=own.clip, measure_every=own.measure_every,
            patience=own.patience, seed=own.seed, keep_best=self.head.weight.nbytes < LARGE and self.ranks.count == 1,
        )  # fmt: skip
        self.history = train(task, course, self.identity())

    def penalties(self, first: int, last: int) -> tuple[Penalty, ...]:
        makers = [part for part in self.parts if isinstance(part, PenalisesRows)]
        return tuple(
            part.penalty(self.train, (first, last), lambda: self.text_vectors()[first:last], self.settings.seed)
            for part in makers
        )

    @cached_property
    def held_out(self) -> tuple[Dataset, Tokens]:
        """Some valid rows and their tokens."""
        some = self.valid.take(spread(len(self.valid), MEASURED_ROWS))
        return some, tokenise(some.texts or (), self.tokenizer, self.longest, what="valid rows")

    def look(self) -> dict[str, float]:
        """P@1 and PSP@1 on valid as encoder and head are now."""
        rows, tokens = self.held_out
        vectors = encode(self.encoder, tokens, longest=self.longest, what="valid rows")
        spare = 0 if rows.excluded is None else int(np.diff(rows.excluded.indptr).max(initial=0))
        asked = torch.from_numpy(vectors).to(self.device)
        found, scores = top_of_all(self.head, asked, 1 + min(spare, 50), self.ranks, len(rows.labels))
        figures = evaluate(Predictions(rows.labels, found, Odds(1.0, 0.0).of(scores)), rows, ks=(1,))
        return {name: figures[name] for name in ("P@1", "PSP@1")}

    def scorer(self) -> OneVsAllScorer:
        """What was learned, with chances learned on valid; whole on every process."""
        labels, head = self.train.labels, self.head
        reader = Reader.of(self.encoder, self.tokenizer, self.longest)
        own = np.empty((head.labels, head.dimension), dtype=np.float32)
        for begin in range(0, head.labels, 1 << 16):
            some = torch.arange(begin, min(begin + (1 << 16), head.labels), device=self.device)
            own[begin : begin + len(some)] = head.rows(some).cpu().numpy()
        weights = self.ranks.whole(own, len(labels))
        bias = None if head.bias is None else self.ranks.whole(head.bias.cpu().numpy(), len(labels))
        plain = OneVsAllScorer(
            reader, weights, bias, Odds(1.0, 0.0), rare_of(weights, bias, labels.counts),
            half=head.weight.dtype != torch.float32,
        )  # fmt: skip
        if len(self.valid) == 0:
            return plain
        with stage("learning chances"):
            rows = self.valid.take(spread(len(self.valid), SCALE_ROWS))
            vectors = reader.lengthy(rows.texts or (), "valid rows")
            near = Predictions(rows.labels, *plain.nearest(vectors, min(CANDIDATES, len(labels))))
            hits, counted = judged(near, rows)
            return replace(plain, odds=plain.odds.fitted(near.scores[counted], hits))


def _head(settings: OvaSettings, train: Dataset, dimension: int, device: torch.device, ranks: Ranks) -> Head:
    rows, labels = train.targets.shape
    share = train.targets.sum() / max(rows * labels, 1)
    bias = settings.bias
    if bias == "auto":  # where a label of mean frequency would end that learned nothing else
        bias = math.log(max(share, 1e-12) / max(1 - share, 1e-12))
        bias = bias if settings.loss == "bce" else -1.0
    made = HeadSettings(
        loss=settings.loss, precision=settings.head_precision, momentum=settings.momentum,
        weight_decay=settings.head_decay, bias=None if bias is None else float(bias),
        compensated=settings.compensated, chunk=settings.chunk, seed=settings.seed,
    )  # fmt: skip
    first, last = ranks.range(labels)
    head = Head(last - first, dimension, made, device, train.labels.counts[first:last])
    if ranks.count > 1:
        begin_as_one(head, first, labels)
    return head
