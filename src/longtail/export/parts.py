"""What of a model can be handed on: its encoder, and a vector for each label whose product with a text's ranks it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from longtail.arrays import Floats
from longtail.atomic import new_folder
from longtail.errors import ModelError
from longtail.model import Model
from longtail.nn.blend import Odds
from longtail.nn.heads.scorer import OneVsAllScorer
from longtail.nn.pool.scorer import HeadedReader, PoolScorer
from longtail.nn.towers import Reader, TowerScorer

FACTS = "export.json"  # in every folder that is written here


@dataclass(frozen=True, eq=False)
class Parts:
    """A label's score is vector(text) . its vector + its bias; `odds` makes a chance of it, in the same order."""

    model: Model
    reader: Reader
    vectors: Floats  # (labels, dimension)
    bias: Floats | None  # (labels,)
    normalised: bool  # the text's vector has length 1
    odds: Odds

    @classmethod
    def of(cls, model: Model) -> Parts:
        scorer = model.scorer.tower if isinstance(model.scorer, PoolScorer) else model.scorer
        if isinstance(scorer, TowerScorer):
            return cls(model, scorer.reader, scorer.labels, scorer.bias, True, scorer.odds)
        if isinstance(scorer, OneVsAllScorer):
            return cls(model, scorer.reader, scorer.weights, scorer.bias, False, scorer.odds)
        raise ModelError(
            f"{model.recipe} has no encoder with a vector for each label to export; train one that has, such as dpr, "
            "ngame or renee, or hand on the model folder itself: longtail loads it anywhere"
        )

    @property
    def dimension(self) -> int:
        return int(self.vectors.shape[1])

    @property
    def searched(self) -> Floats:
        """(labels, dimension), with the bias as one more column where there is one: what a vector database holds."""
        if self.bias is None:
            return self.vectors
        joined: Floats = np.concatenate([self.vectors, self.bias[:, None]], axis=1)
        return joined

    def asked(self, texts: list[str]) -> Floats:
        """The texts' vectors as they are compared with `searched`."""
        found = self.reader.vectors(texts) if self.normalised else self.reader.lengthy(texts)
        if self.bias is None:
            return found
        return np.concatenate([found, np.ones((len(found), 1), dtype=np.float32)], axis=1)

    def in_full(self, texts: list[str]) -> Floats:
        """The texts' vectors (texts, dimension) in full precision: where bf16 is fast, a model itself answers in it."""
        from longtail.nn.encode import encode
        from longtail.nn.tokens import tokenise

        encoder, tokenizer = self.reader.fresh()
        found = encode(encoder, tokenise(texts, tokenizer, self.reader.longest), precision="fp32")
        return self.reader.shaped(found) if self.normalised else found

    def facts(self) -> dict[str, object]:
        """For programs that read the export: how a score is made of the numbers."""
        return {
            "recipe": self.model.recipe,
            "labels": len(self.model.labels),
            "dimension": self.dimension,
            "similarity": "inner product",
            "text_vectors_have_length_1": self.normalised,
            "heads_after_the_encoder": len(self.reader.heads) if isinstance(self.reader, HeadedReader) else 0,
            "append_1_to_text_vectors": self.bias is not None,
            "chance": {"log_odds": "slope * product + offset", "slope": self.odds.slope, "offset": self.odds.offset},
            "longest_text_in_tokens": self.reader.longest,
            "left_out": [part.kind for part in self.model.rerankers],
        }

    def write_labels(self, folder: Path) -> None:
        """labels.jsonl, in the order of the vectors, and export.json."""
        labels = self.model.labels
        with (folder / "labels.jsonl").open("w", encoding="utf-8", errors="replace", newline="\n") as file:
            for name, text, count in zip(labels.ids, labels.texts, labels.counts.tolist(), strict=True):
                file.write(json.dumps({"id": name, "text": text, "count": count}) + "\n")
        (folder / FACTS).write_text(json.dumps(self.facts(), indent=1) + "\n", encoding="utf-8")


@contextmanager
def writing(folder: str | Path, overwrite: bool) -> Iterator[Path]:
    """An export's folder, all of it or nothing; only another export is ever replaced."""
    path = Path(folder)
    if path.exists() and not overwrite:
        raise ModelError(f"{path} exists; choose another name, or overwrite it (--overwrite)")
    if path.exists() and not (path / FACTS).is_file():
        raise ModelError(f"{path} exists and is no export of longtail; it is left alone")
    with new_folder(path) as temporary:
        yield temporary
