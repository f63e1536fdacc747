"""From texts to a trained frugal net: what all of them do around their own parts."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import nn

from longtail.arrays import Floats, Ints, Matrix
from longtail.data.dataset import Dataset
from longtail.errors import DataError
from longtail.linear.cluster import halve, label_vectors
from longtail.memory import keeping_large_blocks
from longtail.metrics.evaluate import evaluate
from longtail.nn.blend import Odds
from longtail.nn.checkpoint import belonging, kept_folder
from longtail.nn.encode import encode
from longtail.nn.encoders import Encoder, build_encoder
from longtail.nn.extra import at_home
from longtail.nn.fit import MEASURED_ROWS, SCALE_ROWS, judged, spread
from longtail.nn.frugal.bodies import FrugalInception, bag
from longtail.nn.frugal.graph import label_graph
from longtail.nn.frugal.labels import Labels, multiplied_in
from longtail.nn.frugal.rows import Rule
from longtail.nn.frugal.runs import Runs
from longtail.nn.frugal.scorer import FrugalScorer, MetaRows
from longtail.nn.frugal.settings import WORDS, FrugalSettings, GraphNet
from longtail.nn.frugal.shortlist import Clusters, Pool
from longtail.nn.frugal.task import FrugalTask, Meta
from longtail.nn.frugal.vectors import read_vectors
from longtail.nn.heads.entries import Targets
from longtail.nn.heads.scorer import OneVsAllScorer, rare_of
from longtail.nn.history import History
from longtail.nn.loop import Course, train
from longtail.nn.precision import best_device
from longtail.nn.tokenizers import TextTokenizer, learn_words
from longtail.nn.tokens import Tokens, tokenise
from longtail.nn.towers import Reader
from longtail.nn.words import inverse_frequency
from longtail.predictions import CANDIDATES, Predictions
from longtail.progress import stage
from longtail.seams import TailMethod


@dataclass(eq=False)
class FrugalFit:
    """A net in training: its words, its encoder, and the texts it reads."""

    settings: FrugalSettings
    train: Dataset
    valid: Dataset
    parts: tuple[TailMethod, ...]
    tokenizer: TextTokenizer
    encoder: Encoder
    texts: Runs
    device: torch.device
    labels: Labels | None = None
    meta: Meta | None = None
    clusters: Clusters | None = None
    graph: Matrix | None = None
    histories: list[History] = field(default_factory=list)

    @classmethod
    def begin(
        cls, settings: FrugalSettings, train: Dataset, valid: Dataset, parts: tuple[TailMethod, ...],
        body: dict[str, Any],
    ) -> FrugalFit:  # fmt: skip
        """Words and the untrained encoder, whose `body` are settings of `build_encoder` less the vocabulary."""
        if train.texts is None:
            raise DataError(f"{settings.name} reads texts; the training rows have only features")
        if train.targets.nnz == 0:
            raise DataError(f"no row of train has a label, so {settings.name} has nothing to learn from")
        with stage("learning words"):
            tokenizer = learn_words((*train.texts, *filter(None, train.labels.texts)), WORDS)
        kept = kept_folder()
        cache = None if kept is None else kept / "tokens"
        tokens = tokenise(train.texts, tokenizer, settings.longest, cache, what="documents")
        idf = inverse_frequency(tokens, tokenizer.size)
        device = best_device()
        encoder = build_encoder({**body, "vocabulary": tokenizer.size}, settings.seed)
        encoder.body.get_buffer("idf").copy_(torch.from_numpy(idf))
        if isinstance(encoder.body, FrugalInception):
            encoder.body.kind = multiplied_in(settings.precision, device)
        if settings.vectors is not None:
            table = encoder.body.get_parameter("words.weight")
            vectors, _ = read_vectors(at_home(settings.vectors), tokenizer.words, settings.dimension, table.numpy())
            table.copy_(torch.from_numpy(vectors))
        return cls(
            settings, train, valid, parts, tokenizer, encoder.to(device), Runs.of(tokens, idf), device,
        )  # fmt: skip

    @property
    def table(self) -> torch.Tensor:
        found: torch.Tensor = self.encoder.body.table  # type: ignore[assignment]
        return found

    @cached_property
    def against_all(self) -> bool:
        return self.settings.against_all(len(self.train), len(self.train.labels))

    @cached_property
    def rows(self) -> Matrix:
        """The training rows as tf-idf: csr (rows, words)."""
        return self.texts.matrix(self.tokenizer.size)

    @torch.no_grad()
    def coarse_vectors(self) -> Floats:
        """What a bag says of the training rows before its block: (rows, dimension)."""
        body, size = self.encoder.body, 4096
        parts = [
            body.coarse(self.texts.take(rows, self.device), self.table).cpu().numpy()  # type: ignore[operator]
            for rows in np.array_split(np.arange(len(self.texts)), -(-len(self.texts) // size))
        ]
        return np.concatenate(parts)

    def label_runs(self) -> Runs:
        """The texts of the labels, with the idf of the documents."""
        texts = self.settings.label_texts(self.train)
        idf = self.encoder.body.get_buffer("idf").cpu().numpy()
        return Runs.of(tokenise(texts, self.tokenizer, self.settings.longest, what="labels"), idf)

    @torch.no_grad()
    def bags(self, texts: Runs) -> Floats:
        """The weighted sums of the labels' word vectors as they are now: where free vectors begin."""
        rows = np.arange(len(texts))
        found: Floats = bag(texts.take(rows, self.device), self.table).cpu().numpy()
        return found

    def make_graph(self, walk: GraphNet) -> Matrix:
        """Which labels random walks over the rows as given reach from each, both sides counted alike."""
        as_given = np.flatnonzero(self.train.origins == 0)
        given = self.train.targets[as_given] if len(as_given) else self.train.targets
        with stage("walking from label to label"):
            self.graph = label_graph(given, walk.walk, walk.restart, walk.neighbours, walk.common, self.settings.seed)
        return self.graph

    def make_labels(
        self,
        begin: Floats | None = None,
        side: Callable[[], nn.Module] | None = None,
        texts: tuple[Runs, ...] = (),
    ) -> Labels:
        """Classifiers of all labels, begun at these vectors or at random; `side` builds what reads their texts."""
        made = None
        if side is not None:
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(self.settings.seed)
                made = side()
        self.labels = self._classifiers(self.train.targets, begin, made, texts)
        return self.labels

    def _classifiers(
        self, targets: Matrix, begin: Floats | None = None, side: nn.Module | None = None, texts: tuple[Runs, ...] = ()
    ) -> Labels:
        own, (rows, labels) = self.settings, targets.shape
        if begin is None:
            chance = np.random.default_rng([own.seed, labels])
            begin = (0.02 * chance.standard_normal((labels, self.encoder.dimension))).astype(np.float32)
        share = min(max(targets.sum() / max(rows * labels, 1), 1e-12), 0.5)
        bias = math.log(share / (1 - share))  # where a label of mean frequency would end that learned nothing else
        vectors, kind = torch.from_numpy(begin).to(self.device), multiplied_in(own.precision, self.device)
        return Labels(vectors, bias, Rule(own.rate, own.head_decay), side, texts, kind).to(self.device)

    def group(self) -> Clusters:
        """Labels in clusters of like rows: balanced halves again and again."""
        if self.clusters is None:
            with stage("grouping labels"):
                vectors = label_vectors(self.train.targets, self.rows)
                order, levels = halve(vectors, self.settings.cluster, self.settings.seed)
            self.clusters = Clusters(order, levels[-1])
        return self.clusters

    def make_meta(self, alone: int = 0) -> Meta:
        """Classifiers of the clusters on the same vectors."""
        targets = cluster_targets(self.train.targets, self.group())
        self.meta = Meta(self._classifiers(targets), Targets(targets), alone)
        return self.meta

    def pool(self, beam: int = 0, nearest: Ints | None = None) -> Pool | None:
        """What a batch is compared with; none where that is all labels."""
        if self.against_all:
            return None
        own, labels = self.settings, len(self.train.labels)
        meta = None if self.meta is None else self.meta.labels
        return Pool(labels, own.random, meta, self.clusters if meta else None, beam, nearest, own.seed)

    def learn(self, pool: Pool | None, **more: Any) -> None:
        """Train encoder and classifiers. `more` are settings of `FrugalTask`."""
        assert self.labels is not None
        task = FrugalTask(
            encoder=self.encoder,
            texts=self.texts,
            labels=self.labels,
            targets=Targets(self.train.targets),
            batch=self.settings.batch,
            rate=self.settings.rate,
            device=self.device,
            pool=pool,
            **{"meta": self.meta, "look": self.look if len(self.valid) else None, "name": self.settings.name, **more},
            seed=self.settings.seed,
        )
        self._train(task)

    def learn_surrogate(self) -> None:
        """Train the encoder on clusters instead of labels."""
        targets = cluster_targets(self.train.targets, self.group())
        task = FrugalTask(
            encoder=self.encoder,
            texts=self.texts,
            labels=self._classifiers(targets),
            targets=Targets(targets),
            batch=self.settings.batch,
            rate=self.settings.rate,
            device=self.device,
            seed=self.settings.seed,
            name=f"{self.settings.name} on clusters",
        )
        self._train(task)

    def _train(self, task: FrugalTask) -> None:
        with keeping_large_blocks() if self.device.type == "cpu" else nullcontext():
            self.histories.append(train(task, self.course(), self.identity()))

    def course(self) -> Course:
        own = self.settings
        return Course(
            epochs=own.epochs, warmup=own.warmup, decay=own.decay, clip=None, measure_every=own.measure_every,
            patience=own.stops_after(len(self.texts)), watch=own.keep, seed=own.seed,
        )  # fmt: skip

    def identity(self) -> dict[str, Any]:
        """What a checkpoint of this training belongs to."""
        tokens = (self.texts.words, self.texts.offsets)
        own, words = self.settings, self.tokenizer.hash
        return belonging(own.name, own, self.parts, words, tokens, self.train.targets)

    @cached_property
    def held_out(self) -> tuple[Dataset, Tokens]:
        """Some valid rows and their tokens."""
        some = self.valid.take(spread(len(self.valid), MEASURED_ROWS))
        return some, tokenise(some.texts or (), self.tokenizer, self.settings.longest, what="valid rows")

    def look(self) -> dict[str, float]:
        """P@1, PSP@1 and PSP@5 on valid as the net is now; with `keep="both"` their mean, too."""
        rows, tokens = self.held_out
        vectors = encode(self.encoder, tokens, what="valid rows")
        spare = 0 if rows.excluded is None else int(np.diff(rows.excluded.indptr).max(initial=0))
        found, scores = self._plain().nearest(vectors, 5 + min(spare, 50))
        figures = evaluate(Predictions(rows.labels, found, Odds(1.0, 0.0).of(scores)), rows, ks=(1, 5))
        measures = {name: figures[name] for name in ("P@1", "PSP@1", "PSP@5")}
        if self.settings.keep == "both":
            measures["both"] = (measures["P@1"] + measures["PSP@5"]) / 2
        return measures

    def _plain(self) -> OneVsAllScorer | FrugalScorer:
        """The net as it is now, chances not yet learned."""
        assert self.labels is not None
        reader = Reader.of(self.encoder, self.tokenizer, self.settings.longest)
        weights, bias = self.labels.folded(self.table)
        if self.settings.scorer is OneVsAllScorer:
            return OneVsAllScorer(
                reader, weights, bias, Odds(1.0, 0.0), rare_of(weights, bias, self.train.labels.counts)
            )
        meta = None
        if self.meta is not None:
            meta = MetaRows(*self.meta.labels.folded(None), self.group().of)
        return FrugalScorer(reader, weights, bias, Odds(1.0, 0.0), meta, self.graph)

    def scorer(self) -> Any:
        """What was learned, with chances learned on valid."""
        plain = self._plain()
        if len(self.valid) == 0:
            return plain
        with stage("learning chances"):
            rows = self.valid.take(spread(len(self.valid), SCALE_ROWS))
            vectors = plain.reader.lengthy(rows.texts or (), "valid rows")
            near = Predictions(rows.labels, *plain.nearest(vectors, min(CANDIDATES, len(rows.labels))))
            hits, counted = judged(near, rows)
            return replace(plain, odds=plain.odds.fitted(near.scores[counted], hits))


def cluster_targets(targets: Matrix, clusters: Clusters) -> Matrix:
    """The largest target of each row among the labels of each cluster: csr (rows, clusters)."""
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
