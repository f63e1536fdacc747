"""The encoder, and for small label sets the classifiers too, as ONNX: runs without PyTorch and without Python.

    model.onnx        input_ids, attention_mask (texts, places) int64 -> vectors (texts, dimension)
                      and, up to 100,000 labels, chances (texts, labels)
    tokenizer.json    reads texts: the tokenizers library, in Rust, Python, Node and others
    labels.jsonl      {"id", "text", "count"} of each column of the chances
    export.json       the longest text, and how a chance is made of a product

The export is run by onnxruntime and compared with the model's own answers before it takes its name.
"""

from __future__ import annotations

import contextlib
import io
import logging
import warnings
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from longtail.arrays import AnyArray
from longtail.errors import MissingExtra, ModelError
from longtail.export import numpy as vectors
from longtail.export.parts import Parts, writing
from longtail.model import Model
from longtail.nn.extra import require
from longtail.nn.pool.scorer import Head, HeadedReader
from longtail.progress import stage

if TYPE_CHECKING:
    from torch import Tensor, nn

    from longtail.nn.encoders import Encoder

MOST_LABELS = 100_000  # chances of more labels than these are not part of the graph
TOLERANCE = 1e-3  # largest difference to our own answers
SAMPLE = 16  # texts that are compared
SHAPES = (2, 7)  # texts and places of the example the graph is drawn from


def export(model: Model, folder: str | Path, *, overwrite: bool = False) -> Path:
    """Write and check the graph."""
    for package in ("onnx", "onnxruntime", "onnxscript"):
        if find_spec(package) is None:
            raise MissingExtra(package, "export", "an ONNX export")
    require("an ONNX export")
    parts = Parts.of(model)
    kind = parts.reader.settings["kind"]
    if kind == "gru":
        raise ModelError(
            f"the encoder of {model.recipe} is a gru, whose packed texts ONNX has no form for; use another"
        )
    encoder, tokenizer = parts.reader.fresh()
    encoder.eval()
    whole = len(model.labels) <= MOST_LABELS
    with writing(folder, overwrite) as place:
        with stage("drawing the graph"):
            _draw(_graph(encoder, parts, whole), place / "model.onnx", whole)
        with stage("comparing answers"):
            _compare(parts, place / "model.onnx", whole)
        (place / "tokenizer.json").write_bytes(tokenizer.to_bytes())
        parts.write_labels(place)
        if not whole:
            vectors.write(parts, place)
    return Path(folder)


def _graph(encoder: Encoder, parts: Parts, whole: bool) -> nn.Module:
    """From tokens to vectors and chances, in operations that ONNX knows."""
    import torch
    import torch.nn.functional as F  # noqa: N812

    from longtail.nn.words import Bag

    class Graph(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encoder = encoder
            given = parts.reader.heads if isinstance(parts.reader, HeadedReader) else ()
            self.heads = [(_linear(head), head.bends) for head in given]
            self.layers = torch.nn.ModuleList(layer for layer, _ in self.heads)
            if whole:
                self.labels = torch.nn.Parameter(torch.from_numpy(parts.vectors.copy()), requires_grad=False)
                bias = np.zeros(len(parts.vectors), np.float32) if parts.bias is None else parts.bias
                self.bias = torch.nn.Parameter(torch.from_numpy(bias.copy()), requires_grad=False)

        def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Any:
            mask = attention_mask.bool()
            found = self._encoded(input_ids, mask)
            if self.heads:
                found = F.normalize(found, dim=1, eps=1e-12)
                halves = [torch.tanh(layer(found)) if bends else layer(found) for layer, bends in self.heads]
                found = torch.cat([F.normalize(half, dim=1, eps=1e-12) for half in halves], dim=1)
            if parts.normalised:
                found = F.normalize(found[:, : parts.reader.cut], dim=1, eps=1e-12)
            if not whole:
                return found
            products = found @ self.labels.T + self.bias
            return found, torch.sigmoid(parts.odds.slope * products + parts.odds.offset)

        def _encoded(self, ids: Tensor, mask: Tensor) -> Tensor:
            body = self.encoder.body
            if not isinstance(body, Bag):
                result: Tensor = self.encoder(ids, mask)
                return result
            # As Bag does, without embedding_bag, which ONNX lacks.
            weights = body.idf[ids] * mask
            weights = weights / weights.norm(dim=1, keepdim=True).clamp_min(1e-9)
            summed: Tensor = (body.words(ids) * weights[..., None]).sum(1)
            return summed if body.residual is None else summed + F.relu(body.residual(summed))

    return Graph().eval()


def _linear(head: Head) -> nn.Linear:
    import torch

    layer = torch.nn.Linear(head.weight.shape[1], head.weight.shape[0])
    layer.load_state_dict({"weight": torch.from_numpy(head.weight.copy()), "bias": torch.from_numpy(head.bias.copy())})
    return layer.requires_grad_(False)


def _draw(graph: nn.Module, path: Path, whole: bool) -> None:
    import torch

    ids = torch.ones(SHAPES, dtype=torch.int64)
    names = {0: torch.export.Dim("texts", min=1), 1: torch.export.Dim("places", min=1)}
    try:
        with torch.inference_mode(), _silent():
            torch.onnx.export(
                graph,
                (ids, torch.ones_like(ids)),
                path,
                input_names=["input_ids", "attention_mask"],
                output_names=["vectors", "chances"] if whole else ["vectors"],
                dynamic_shapes={"input_ids": names, "attention_mask": names},
                dynamo=True,
                external_data=False,
                verbose=False,
            )
    except OSError:
        raise  # no fault of the encoder
    except Exception as error:  # of several libraries
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise ModelError(f"this encoder cannot be drawn as an ONNX graph: {reason}") from error


def _compare(parts: Parts, path: Path, whole: bool) -> None:
    """Refuse a graph whose answers are not the model's, in full precision."""
    labels = parts.model.labels
    texts = [labels.word(row) for row in np.linspace(0, len(labels) - 1, min(SAMPLE, len(labels))).astype(int)]
    texts.append(" ".join(texts))
    given = run(path, *tokens(parts, texts))
    own = parts.in_full(texts)
    wrong = float(np.abs(given[0] - own).max())
    if whole:
        products = own @ parts.vectors.T + (0 if parts.bias is None else parts.bias)
        wrong = max(wrong, float(np.abs(given[1] - parts.odds.of(products)).max()))
    if not wrong <= TOLERANCE:
        raise ModelError(f"the ONNX graph answers differently than the model, by {wrong:.2g}; nothing was written")


def tokens(parts: Parts, texts: list[str]) -> tuple[AnyArray, AnyArray]:
    """Token ids and mask (texts, places) int64, as the graph reads them."""
    from longtail.nn.tokens import tokenise

    _, tokenizer = parts.reader.fresh()
    longest = min(parts.reader.longest, parts.reader.settings.get("places") or parts.reader.longest)
    ids, mask = tokenise(texts, tokenizer, parts.reader.longest).batch(np.arange(len(texts)), longest, 1)
    return ids.numpy(), mask.numpy().astype(np.int64)


def run(path: Path, ids: AnyArray, mask: AnyArray) -> list[AnyArray]:
    """The graph's answers by onnxruntime."""
    import onnxruntime

    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    answers: list[AnyArray] = session.run(None, {"input_ids": ids, "attention_mask": mask})
    return answers


@contextlib.contextmanager
def _silent() -> Iterator[None]:
    """The exporter reports on standard output and warns of what it works around."""
    level = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(level)
