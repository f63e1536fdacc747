"""The encoder as ONNX, and the classifiers of small label sets: runs without PyTorch and without Python.

    model.onnx        input_ids, attention_mask (texts, places) int64 -> vectors (texts, dimension)
                      and, up to 100,000 labels, probabilities (texts, labels)
    tokenizer.json    for the tokenizers library, which there is for Rust, Python, Node and others
    labels.jsonl      {"id", "text", "count"} of the label of each column of the probabilities
    export.json       the most tokens of a text, and how to turn products into probabilities

onnxruntime runs the graph, and its answers are compared with those of the model, before the folder appears.
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
from longtail.data.subsample import evenly_spaced
from longtail.errors import MissingExtra, ModelError
from longtail.export import numpy as vectors
from longtail.export.parts import ExportParts, writing
from longtail.model import Model
from longtail.nn.extra import require
from longtail.nn.pool.pool_scorer import ProjectedTextEncoder, ProjectionHead
from longtail.progress import stage

if TYPE_CHECKING:
    from torch import Tensor, nn

    from longtail.nn.encoders.build import Encoder

MAX_LABELS = 100_000  # with more labels, the graph ends with the vectors of texts
TOLERANCE = 1e-3  # largest difference to the model's answers
SAMPLE = 16  # texts that are compared
SHAPES = (2, 7)  # texts and places of the example that the graph is traced with


def export(model: Model, folder: str | Path, *, overwrite: bool = False) -> Path:
    """Writes the graph and checks it.

    Args:
        model: a model with an encoder and a vector for each label.
        folder: the folder to write.
        overwrite: replaces an export that is there.

    Returns:
        The folder.

    Raises:
        MissingExtra: a package for ONNX is not installed.
        ModelError: the model has no vectors of labels, its encoder has no form in ONNX, the graph's answers differ
            from the model's, or the folder is taken.
    """
    for package in ("onnx", "onnxruntime", "onnxscript"):
        if find_spec(package) is None:
            raise MissingExtra(package, "export", "an ONNX export")
    require("an ONNX export")
    parts = ExportParts.of(model)
    kind = parts.encoder.settings["kind"]
    if kind == "gru":
        raise ModelError(
            f"the encoder of {model.recipe} is a gru, and ONNX has no form for its packed sequences; train with "
            "another encoder, such as minilm or bag"
        )
    encoder, tokenizer = parts.encoder.fresh()
    encoder.eval()
    whole = len(model.labels) <= MAX_LABELS
    with writing(folder, overwrite) as place:
        with stage("writing the graph"):
            _trace(_graph(encoder, parts, whole), place / "model.onnx", whole)
        with stage("comparing answers"):
            _compare(parts, place / "model.onnx", whole)
        (place / "tokenizer.json").write_bytes(tokenizer.to_bytes())
        parts.write_labels(place)
        if not whole:
            vectors.write(parts, place)
    return Path(folder)


def _graph(encoder: Encoder, parts: ExportParts, whole: bool) -> nn.Module:
    """From tokens to vectors and probabilities, in operations that ONNX has."""
    import torch
    import torch.nn.functional as F  # noqa: N812

    from longtail.nn.encoders.bag_and_gru import Bag

    class Graph(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encoder = encoder
            given = parts.encoder.heads if isinstance(parts.encoder, ProjectedTextEncoder) else ()
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
                found = F.normalize(found[:, : parts.encoder.cut], dim=1, eps=1e-12)
            if not whole:
                return found
            products = found @ self.labels.T + self.bias
            return found, torch.sigmoid(parts.calibration.scale * products + parts.calibration.offset)

        def _encoded(self, ids: Tensor, mask: Tensor) -> Tensor:
            body = self.encoder.body
            if not isinstance(body, Bag):
                result: Tensor = self.encoder(ids, mask)
                return result
            # The same as Bag, but without embedding_bag, which ONNX lacks.
            weights = body.idf[ids] * mask
            weights = weights / weights.norm(dim=1, keepdim=True).clamp_min(1e-9)
            summed: Tensor = (body.words(ids) * weights[..., None]).sum(1)
            return summed if body.residual is None else summed + F.relu(body.residual(summed))

    return Graph().eval()


def _linear(head: ProjectionHead) -> nn.Linear:
    import torch

    layer = torch.nn.Linear(head.weight.shape[1], head.weight.shape[0])
    layer.load_state_dict({"weight": torch.from_numpy(head.weight.copy()), "bias": torch.from_numpy(head.bias.copy())})
    return layer.requires_grad_(False)


def _trace(graph: nn.Module, path: Path, whole: bool) -> None:
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
                output_names=["vectors", "probabilities"] if whole else ["vectors"],
                dynamic_shapes={"input_ids": names, "attention_mask": names},
                dynamo=True,
                external_data=False,
                verbose=False,
            )
    except OSError:
        raise  # the disk, not the encoder
    except Exception as error:  # several libraries raise their own
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise ModelError(
            f"this encoder cannot be written as an ONNX graph: {reason}; export the label vectors with --to numpy"
        ) from error


def _compare(parts: ExportParts, path: Path, whole: bool) -> None:
    """Refuses a graph whose answers differ from those of the model in fp32."""
    labels = parts.model.labels
    texts = [labels.word(row) for row in evenly_spaced(len(labels), SAMPLE)]
    texts.append(" ".join(texts))
    given = run(path, *tokens(parts, texts))
    own = parts.encode_fp32(texts)
    difference = float(np.abs(given[0] - own).max())
    if whole:
        products = own @ parts.vectors.T + (0 if parts.bias is None else parts.bias)
        difference = max(difference, float(np.abs(given[1] - parts.calibration.of(products)).max()))
    if not difference <= TOLERANCE:
        raise ModelError(
            f"the ONNX graph answers differently than the model, by {difference:.2g} where {TOLERANCE:g} is allowed; "
            "nothing was written"
        )


def tokens(parts: ExportParts, texts: list[str]) -> tuple[AnyArray, AnyArray]:
    """Tokenises texts for the graph.

    Args:
        parts: of the model.
        texts: the texts.

    Returns:
        Token ids and attention mask, (texts, places) int64 each.
    """
    from longtail.nn.encoders.tokens import tokenise

    _, tokenizer = parts.encoder.fresh()
    max_tokens = min(parts.encoder.max_tokens, parts.encoder.settings.get("places") or parts.encoder.max_tokens)
    ids, mask = tokenise(texts, tokenizer, parts.encoder.max_tokens).batch(np.arange(len(texts)), max_tokens, 1)
    return ids.numpy(), mask.numpy().astype(np.int64)


def run(path: Path, ids: AnyArray, mask: AnyArray) -> list[AnyArray]:
    """Runs the graph with onnxruntime.

    Args:
        path: model.onnx.
        ids: (texts, places) int64 token ids.
        mask: (texts, places) int64 attention mask.

    Returns:
        The graph's outputs: vectors and, where it has them, probabilities.
    """
    import onnxruntime

    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    answers: list[AnyArray] = session.run(None, {"input_ids": ids, "attention_mask": mask})
    return answers


@contextlib.contextmanager
def _silent() -> Iterator[None]:
    """Hides what the exporter prints and warns about."""
    level = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(level)
