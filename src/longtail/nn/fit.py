"""From texts to a trained pair of towers: what every dual encoder does around its own loss."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from importlib.util import find_spec
from typing import Any

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from longtail.arrays import Bools, Floats, Longs
from longtail.data.dataset import Dataset
from longtail.errors import DataError, MissingExtra, RecipeError
from longtail.metrics.evaluate import evaluate
from longtail.nn.batches import Pairs
from longtail.nn.blend import Blend, Odds
from longtail.nn.checkpoint import belonging, kept_folder
from longtail.nn.classifiers import Classifiers
from longtail.nn.encode import encode, encode_there
from longtail.nn.encoders import Encoder, load_encoder
from longtail.nn.history import History
from longtail.nn.loop import Course, train
from longtail.nn.mined import nearest_wrong
from longtail.nn.precision import best_device
from longtail.nn.resident import SHARE, ResidentTokens, free_bytes
from longtail.nn.settings import AT_RANDOM, TowerSettings
from longtail.nn.siamese import LabelTower, Loss, Siamese
from longtail.nn.tokenizers import TextTokenizer
from longtail.nn.tokens import Tokens, tokenise
from longtail.nn.towers import Reader, TowerScorer, unit
from longtail.predictions import CANDIDATES, Predictions
from longtail.progress import stage
from longtail.seams import MovesLabels, TailMethod
from longtail.search.device import shorten
from longtail.search.exact import top_k

MEASURED_ROWS = 4000  # valid rows looked at while training: P@1 within a point
SCALE_ROWS = 2000  # valid rows that the chances are learned from


@dataclass(eq=False)
class Towers:
    """An encoder in training, the tokens it reads, and how it does on valid."""

    settings: TowerSettings
    train: Dataset
    valid: Dataset
    parts: tuple[TailMethod, ...]
    encoder: Encoder
    tokenizer: TextTokenizer
    documents: Tokens
    labels: Tokens
    device: torch.device
    tower: LabelTower | None = None
    history: History | None = None

    @classmethod
    def begin(cls, settings: TowerSettings, train: Dataset, valid: Dataset, parts: tuple[TailMethod, ...]) -> Towers:
        """Tokens and the untrained encoder; bad label texts are told here, before anything expensive."""
        label_texts = settings.label_texts(train.labels)
        if train.texts is None:
            raise DataError(f"{settings.name} reads texts; the training rows have only features")
        if train.targets.nnz == 0:
            raise DataError(f"no row of train has a label, so {settings.name} has nothing to learn from")
        if settings.search == "approximate" and find_spec("faiss") is None:
            raise MissingExtra("faiss-cpu", "search", f"{settings.name}(search='approximate')")
        with stage("loading the encoder"):
            encoder, tokenizer = load_encoder(
                settings.encoder,
                settings.dimension,
                texts=(*train.texts, *label_texts),
                dropout=settings.dropout,
                seed=settings.seed,
            )
        if (settings.search_dimension or 0) > encoder.dimension:
            raise RecipeError(
                f"setting 'search_dimension' of {settings.name} is {settings.search_dimension}, and the vectors of "
                f"{settings.encoder} have {encoder.dimension} numbers: take fewer, or none for all"
            )
        device = best_device()
        longest = min(settings.longest, encoder.longest or settings.longest)
        kept = kept_folder()
        cache = None if kept is None else kept / "tokens"
        documents = tokenise(train.texts, tokenizer, longest, cache, what="documents")
        labels = tokenise(label_texts, tokenizer, longest, cache, what="labels")
        towers = cls(settings, train, valid, parts, encoder.to(device), tokenizer, documents, labels, device)
        towers.add_tower()
        return towers

    def add_tower(self) -> None:
        """What moves labels, where a part does, begun at their texts as they are compared now."""
        for maker in (part for part in self.parts if isinstance(part, MovesLabels)):
            tower = maker.label_tower(self.train.labels, self.text_vectors(), self.label_means, self.settings.seed)
            self.tower = tower.to(self.device)

    @cached_property
    def rate(self) -> float:
        if self.settings.rate is not None:
            return self.settings.rate
        name = "bag" if self.encoder.settings["kind"] == "bag" else self.settings.encoder
        return self.settings.rate_at_random if name in AT_RANDOM else 2e-4

    @cached_property
    def longest(self) -> int:
        return min(self.settings.longest, self.encoder.longest or self.settings.longest)

    def identity(self) -> dict[str, Any]:
        """What a checkpoint of this training belongs to."""
        tokens = (self.documents.ids, self.documents.offsets, self.labels.ids, self.labels.offsets)
        own, words = self.settings, self.tokenizer.hash
        return belonging(own.name, own, self.parts, words, tokens, self.train.targets)

    def course(self, **changed: Any) -> Course:
        own = self.settings
        return replace(
            Course(
                epochs=own.epochs, warmup=own.warmup, decay=own.decay, clip=own.clip, accumulate=own.accumulate,
                measure_every=own.measure_every, patience=own.patience, seed=own.seed,
            ),
            **changed,
        )  # fmt: skip

    def learn(self, loss: Loss, **more: Any) -> None:
        """Train the encoder, and the label tower where there is one. `more` are settings of `Siamese`."""
        own, by_label = self.settings, self.settings.rows == "labels"
        targets = self.train.targets
        documents, labels = self.resident
        task = Siamese(
            encoder=self.encoder,
            row_texts=labels if by_label else documents,
            item_texts=documents if by_label else labels,
            pairs=Pairs(sparse.csr_array(targets.T) if by_label else targets),
            loss=loss,
            batch=own.batch,
            epochs=own.epochs,
            rate=self.rate,
            labels_are_rows=by_label,
            weight_decay=own.weight_decay,
            precision=own.precision,
            chunk=own.chunk,
            compiled=own.compiled,
            seed=own.seed,
            tower=self.tower,
            encode_labels=self.text_vectors,
            look=self.look if len(self.valid) else None,
            **more,
        )
        self.history = train(task, self.course(), self.identity())

    def learn_classifiers(self, loss: Loss, batch: int, epochs: int, rate: float, dropout: float) -> Floats:
        """A vector a label on the encoder as it is now, begun at the label's: (labels, dimension), of length 1. They
        are learned in the space that is searched."""
        documents = self.searched(self.document_vectors())
        rows, tokens = self.held_out
        queries = self.searched(unit(encode(self.encoder, tokens, longest=self.longest, what="valid rows")))
        task = Classifiers(
            documents=documents,
            begin=self.searched(self.label_vectors()),
            pairs=Pairs(self.train.targets),
            loss=loss,
            batch=batch,
            rate=rate,
            device=self.device,
            dropout=dropout,
            seed=self.settings.seed,
            look=(lambda weights: self._look(queries, weights, rows)) if len(rows) else None,
        )
        train(task, self.course(epochs=epochs), self.identity())
        return task.vectors

    @cached_property
    def resident(self) -> tuple[ResidentTokens, ResidentTokens]:
        """The tokens of documents and of labels, where the encoder reads them."""
        documents, labels = (
            ResidentTokens(tokens, self.device, self.longest) for tokens in (self.documents, self.labels)
        )
        return documents, labels

    def shaped(self, encoded: Floats) -> Floats:
        """What is compared, of length 1, given what the encoder says."""
        return unit(encoded)

    def shaped_there(self, encoded: Tensor) -> Tensor:
        """The same on the encoder's device, in place where it can be."""
        shortened: Tensor = shorten(encoded)
        return shortened

    def vectors_there(self, side: ResidentTokens, what: str) -> Tensor:
        """Unit vectors of one side's texts, left on the encoder's device; on the host where they would fill it."""
        if 4 * self.encoder.dimension * len(side.tokens) > SHARE * free_bytes(self.device):
            return torch.from_numpy(self.shaped(encode(self.encoder, side.tokens, longest=self.longest, what=what)))
        return self.shaped_there(encode_there(self.encoder, side, what=what))

    def text_vectors(self) -> Floats:
        """Unit vectors of the labels' texts."""
        return self.shaped(encode(self.encoder, self.labels, longest=self.longest, what="labels"))

    def label_vectors(self) -> Floats:
        """What stands for each label: its text, moved by the label tower."""
        vectors = self.text_vectors()
        if self.tower is None:
            return vectors
        moved: Floats = self._moved(torch.from_numpy(vectors)).cpu().numpy()
        return moved

    @torch.no_grad()
    def _moved(self, texts: Tensor) -> Tensor:
        if self.tower is None:
            return texts
        return self.tower.vectors(torch.arange(len(texts), device=self.device), texts.to(self.device)).float()

    def searched(self, vectors: Floats) -> Floats:
        """The first numbers of each vector, as many as are searched, of length 1 again."""
        cut = self.settings.search_dimension
        return vectors if cut is None else unit(vectors[:, :cut])

    def document_vectors(self) -> Floats:
        return self.shaped(encode(self.encoder, self.documents, longest=self.longest, what="documents"))

    def label_means(self) -> Floats:
        """The mean direction of each label's rows; where a label has none, of its text."""
        weights = self.train.targets.T.tocsr()
        means = unit(weights @ self.document_vectors())
        bare = np.diff(weights.indptr) == 0
        if bare.any():
            means[bare] = self.text_vectors()[bare]
        return means

    def mine(self, some: int, documents: Tensor | None = None) -> Longs:
        """The nearest items of each row that are none of its positives, as the encoder is now: (rows, some), -1 where
        there are fewer. `documents` are the vectors of the documents, where somebody has made them already."""
        rows = self.vectors_there(self.resident[0], "documents") if documents is None else documents
        items, targets = self._moved(self.vectors_there(self.resident[1], "labels")), self.train.targets
        if self.settings.rows == "labels":
            rows, items, targets = items, rows, sparse.csr_array(targets.T)
        return nearest_wrong(rows, items, targets, some, self.device)

    @cached_property
    def held_out(self) -> tuple[Dataset, Tokens]:
        """Some valid rows and their tokens."""
        some = self.valid.take(spread(len(self.valid), MEASURED_ROWS))
        return some, tokenise(some.texts or (), self.tokenizer, self.longest, what="valid rows")

    def look(self) -> dict[str, float]:
        """P@1 and PSP@1 on valid as the encoder is now."""
        rows, tokens = self.held_out
        queries = self.searched(unit(encode(self.encoder, tokens, longest=self.longest, what="valid rows")))
        return self._look(queries, self.searched(self.label_vectors()), rows)

    def _look(self, queries: Floats, labels: Floats, rows: Dataset) -> dict[str, float]:
        spare = 0 if rows.excluded is None else int(np.diff(rows.excluded.indptr).max(initial=0))
        found = Predictions(rows.labels, *top_k(queries, labels, 1 + min(spare, 50), device=str(self.device)))
        figures = evaluate(found, rows, ks=(1,))
        return {name: figures[name] for name in ("P@1", "PSP@1")}

    def scorer(self, classifiers: Floats | None = None) -> TowerScorer:
        """The trained towers, with weights of text, classifier and frequency and chances learned on valid."""
        own = self.settings
        reader = Reader.of(self.encoder, self.tokenizer, self.longest, own.search_dimension)
        texts = self.searched(self.label_vectors())
        sharp = 1 / own.temperature
        believed = Odds(sharp, -0.5 * sharp)
        plain = TowerScorer(
            reader, texts if classifiers is None else classifiers, believed,
            moved=self.tower is not None, search=own.search,
        )  # fmt: skip
        if len(self.valid) == 0:
            return plain
        with stage("learning chances"):
            rows = self.valid.take(spread(len(self.valid), SCALE_ROWS))
            vectors = reader.vectors(rows.texts or (), "valid rows")
            scorer = self._blended(plain, rows, vectors, texts, classifiers)
            near = Predictions(rows.labels, *scorer.nearest(vectors, CANDIDATES))
            hits, counted = judged(near, rows)
            return replace(scorer, odds=scorer.odds.fitted(near.scores[counted], hits))

    def _blended(
        self, plain: TowerScorer, rows: Dataset, vectors: Floats, texts: Floats, classifiers: Floats | None
    ) -> TowerScorer:
        """One vector and one number a label instead of two vectors and a count."""
        if classifiers is None and self.settings.frequency == 0:
            return plain
        near = Predictions(rows.labels, *plain.nearest(vectors, CANDIDATES))
        hits, counted = judged(near, rows)
        log_counts = np.log1p(rows.labels.counts).astype(np.float32)
        cosines = near.scores[counted]
        by_text = cosines
        if classifiers is not None:
            by_text = np.einsum("rkd,rd->rk", texts[near.indices], vectors)[counted]
        blend = Blend.fit(by_text, None if classifiers is None else cosines, log_counts[near.indices[counted]], hits)
        if blend is None:
            return plain
        bias = np.float32(self.settings.frequency * blend.frequency) * log_counts
        return replace(
            plain,
            labels=blend.vectors(texts, classifiers),
            bias=bias if self.settings.frequency else None,
            length=blend.length,
            odds=Odds(1.0, 0.0),
        )


def judged(near: Predictions, rows: Dataset) -> tuple[Bools, Bools]:
    """Whether each counted candidate is right (candidates,), and which are counted (rows, places)."""
    counted = near.indices >= 0
    if rows.excluded is not None:
        counted &= ~near.hits(rows.excluded)
    return near.hits(rows.targets)[counted], counted


def spread(rows: int, most: int) -> Any:
    """At most so many row numbers, evenly spread."""
    return np.unique(np.linspace(0, rows - 1, min(rows, most)).astype(np.int64))
