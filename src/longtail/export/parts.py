"""The parts of a model that other programs can use: its encoder, and a vector for each label.

The inner product of a text's vector and a label's vector ranks the label.

Only models with an encoder and one vector per label can be exported. Their score is one product, so arrays, an ONNX
graph and a database all hold the same numbers.
"""

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
from longtail.linear.solvers.platt_scaling import PlattScaling
from longtail.model import Model
from longtail.nn.dual.dual_scorer import DualEncoderScorer
from longtail.nn.encoders.text_encoder import TextEncoder
from longtail.nn.hashed.hashed_scorer import HashedScorer
from longtail.nn.onevsall.onevsall_scorer import OneVsAllScorer
from longtail.nn.pool.pool_scorer import PoolScorer, ProjectedTextEncoder

FACTS = "export.json"  # in every folder that is written here


@dataclass(frozen=True, eq=False)
class ExportParts:
    """A label's score is text vector . label vector + bias; `calibration` turns it into a probability, order kept."""

    model: Model
    encoder: TextEncoder
    vectors: Floats  # (labels, dimension)
    bias: Floats | None  # (labels,)
    normalised: bool  # vectors of texts have unit norm
    calibration: PlattScaling

    @classmethod
    def of(cls, model: Model) -> ExportParts:
        """Takes a model apart.

        Args:
            model: a fitted model.

        Returns:
            Its parts, without re-rankers.

        Raises:
            ModelError: the model has no encoder with a vector for each label.
        """
        scorer = model.scorer.tower if isinstance(model.scorer, PoolScorer) else model.scorer
        if isinstance(scorer, DualEncoderScorer):
            return cls(model, scorer.encoder, scorer.labels, scorer.bias, True, scorer.calibration)
        if isinstance(scorer, OneVsAllScorer):
            return cls(model, scorer.encoder, scorer.weights, scorer.bias, False, scorer.calibration)
        if isinstance(scorer, HashedScorer) and not scorer.others:
            return cls(model, scorer.encoder, *scorer.label_rows(), False, scorer.calibration)
        raise ModelError(
            f"{model.recipe} has no encoder with a vector for each label to export; train one that has, such as dpr, "
            "ngame or renee, or copy the model folder itself: longtail loads it anywhere"
        )

    @property
    def dimension(self) -> int:
        """Numbers of a label's vector, without its bias."""
        return int(self.vectors.shape[1])

    @property
    def search_vectors(self) -> Floats:
        """(labels, dimension) for a vector database; where there is a bias, it is one more column."""
        if self.bias is None:
            return self.vectors
        joined: Floats = np.concatenate([self.vectors, self.bias[:, None]], axis=1)
        return joined

    def queries(self, texts: list[str]) -> Floats:
        """Encodes texts for a search over `search_vectors`.

        Args:
            texts: the texts.

        Returns:
            (texts, dimension), and where there is a bias one more column of ones.
        """
        found = self.encoder.vectors(texts) if self.normalised else self.encoder.unnormalised(texts)
        if self.bias is None:
            return found
        return np.concatenate([found, np.ones((len(found), 1), dtype=np.float32)], axis=1)

    def encode_fp32(self, texts: list[str]) -> Floats:
        """Encodes texts in fp32; the model itself may use bf16 on hardware where that is fast.

        Args:
            texts: the texts.

        Returns:
            (texts, dimension)
        """
        from longtail.nn.encoders.encode import encode
        from longtail.nn.encoders.tokens import tokenise

        encoder, tokenizer = self.encoder.fresh()
        found = encode(encoder, tokenise(texts, tokenizer, self.encoder.max_tokens), precision="fp32")
        return self.encoder.shaped(found) if self.normalised else found

    def facts(self) -> dict[str, object]:
        """How to compute scores from the exported numbers.

        Returns:
            The content of export.json.
        """
        return {
            "recipe": self.model.recipe,
            "labels": len(self.model.labels),
            "dimension": self.dimension,
            "similarity": "inner product",
            "text_vectors_have_unit_norm": self.normalised,
            "heads_after_the_encoder": len(self.encoder.heads) if isinstance(self.encoder, ProjectedTextEncoder) else 0,
            "append_1_to_text_vectors": self.bias is not None,
            "probability": {
                "formula": "sigmoid(scale * product + offset)",
                "scale": self.calibration.scale,
                "offset": self.calibration.offset,
            },
            "max_tokens": self.encoder.max_tokens,
            "left_out": [part.kind for part in self.model.rerankers],
        }

    def write_labels(self, folder: Path) -> None:
        """Writes labels.jsonl, in the order of the vectors, and export.json.

        Args:
            folder: a folder that exists.
        """
        labels = self.model.labels
        with (folder / "labels.jsonl").open("w", encoding="utf-8", errors="replace", newline="\n") as file:
            for name, text, count in zip(labels.ids, labels.texts, labels.counts.tolist(), strict=True):
                file.write(json.dumps({"id": name, "text": text, "count": count}) + "\n")
        (folder / FACTS).write_text(json.dumps(self.facts(), indent=1) + "\n", encoding="utf-8")


@contextmanager
def writing(folder: str | Path, overwrite: bool) -> Iterator[Path]:
    """Writes the folder of an export: it appears once it is complete, and replaces nothing but another export.

    Args:
        folder: the folder to write.
        overwrite: replaces an export that is there.

    Yields:
        A temporary folder, which becomes `folder` at the end.

    Raises:
        ModelError: the folder exists and may not be replaced.
    """
    path = Path(folder)
    if path.exists() and not overwrite:
        raise ModelError(f"{path} exists; choose another name, or replace it with --overwrite")
    if path.exists() and not (path / FACTS).is_file():
        raise ModelError(f"{path} exists and is not an export of longtail, so it is left alone; choose another name")
    with new_folder(path) as temporary:
        yield temporary
