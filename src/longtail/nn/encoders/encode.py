"""Many texts to vectors, for inference: texts of similar length together, in bf16 where it is faster."""

from __future__ import annotations

import copy
from collections.abc import Iterator

import numpy as np
import torch
from torch import nn

from longtail.arrays import Floats, Longs
from longtail.errors import DataError
from longtail.nn.encoders.build import Encoder
from longtail.nn.encoders.device_tokens import DeviceTokens, packed
from longtail.nn.encoders.layouts import Grouped
from longtail.nn.encoders.tokens import Tokens
from longtail.nn.training.to_device import to_device
from longtail.progress import stage

PRECISIONS = ("auto", "fp32", "bf16")
MIN_BF16_TOKENS = 512  # below, converting the weights to bf16 takes longer than it saves
BATCH_TOKENS = {"cpu": 2_048, "cuda": 131_072}
GROUP_COST = 12  # places of padding that take a CPU as long as one more group of texts of similar length


@torch.inference_mode()
def encode(
    encoder: Encoder,
    tokens: Tokens,
    *,
    longest: int | None = None,
    batch_tokens: int | None = None,
    precision: str = "auto",
    prepared: bool = False,
    what: str = "texts",
) -> Floats:
    """Encode texts, without dropout, on the device of the encoder's weights.

    Args:
        encoder: The encoder, which is left as it is.
        tokens: The texts.
        longest: At most so many tokens of a text; None: as many as the encoder can read.
        batch_tokens: Places in a batch; None: what suits the device.
        precision: fp32, bf16 or auto. auto is bf16 for transformers, on a GPU and on CPUs that multiply bf16; the
            vectors then agree with fp32 to about three digits. bag and gru stay in fp32.
        prepared: Whether the encoder comes from `for_inference` and runs as it is.
        what: What the texts are, for the progress line.

    Returns:
        (texts, dimension) float32, unnormalised, in the order of the texts.

    Raises:
        DataError: There is no such precision.
    """
    if precision not in PRECISIONS:
        raise DataError(f"precision must be one of {', '.join(PRECISIONS)}, got {precision!r}")
    result = np.empty((len(tokens), encoder.dimension), dtype=np.float32)
    waiting: tuple[Longs, torch.Tensor] | None = None
    with stage(f"encoding {what}", total=len(tokens)) as advance:
        for rows, vectors in _batches_of_vectors(encoder, tokens, longest, batch_tokens, precision, prepared):
            # The GPU computes this batch while the host copies the one before and prepares the next.
            if waiting is not None:
                result[waiting[0]] = waiting[1].cpu().numpy()
                advance(len(waiting[0]))
            waiting = rows, vectors
        if waiting is not None:
            result[waiting[0]] = waiting[1].cpu().numpy()
            advance(len(waiting[0]))
    return result


@torch.inference_mode()
def encode_to_device(
    encoder: Encoder, tokens: Tokens | DeviceTokens, *, prepared: bool = False, what: str = "texts"
) -> torch.Tensor:
    """Encode texts like `encode`, and leave the vectors on the device.

    Args:
        encoder: The encoder, which is left as it is.
        tokens: The texts. Batches of `DeviceTokens` are made on the device, and the host never waits for it.
        prepared: Whether the encoder comes from `for_inference` and runs as it is.
        what: What the texts are, for the progress line.

    Returns:
        (texts, dimension) float32, unnormalised, on the device of the encoder's weights.
    """
    device = next(encoder.parameters()).device
    on_device = tokens if isinstance(tokens, DeviceTokens) else None
    on_host, max_tokens = (tokens, None) if on_device is None else (on_device.tokens, on_device.max_tokens)
    assert isinstance(on_host, Tokens)
    result = torch.empty((len(on_host), encoder.dimension), dtype=torch.float32, device=device)
    with stage(f"encoding {what}", total=len(on_host)) as advance:
        for rows, vectors in _batches_of_vectors(encoder, on_host, max_tokens, None, "auto", prepared, on_device):
            result[to_device(rows, device, np.int64)] = vectors.float()
            advance(len(rows))
    return result


def _batches_of_vectors(
    encoder: Encoder,
    tokens: Tokens,
    max_tokens: int | None,
    batch_tokens: int | None,
    precision: str,
    prepared: bool,
    on_device: DeviceTokens | None = None,  # the same tokens, where they are on the device
) -> Iterator[tuple[Longs, torch.Tensor]]:
    """Yield the rows of each batch and their vectors; a GPU may not have finished computing them."""
    device = next(encoder.parameters()).device
    limit = min(max_tokens or 2**31, encoder.max_tokens or 2**31)
    lengths = np.minimum(tokens.lengths, limit)
    transformer = encoder.settings["kind"] in ("transformer", "foreign")
    pays = bf16_pays(device) and int(lengths.sum()) >= MIN_BF16_TOKENS
    in_bf16 = transformer and (precision == "bf16" or (precision == "auto" and pays))
    ready = encoder if prepared else _ready(encoder, in_bf16)
    multiple = 1 if device.type == "cpu" else 8
    for rows in batches(lengths, batch_tokens or BATCH_TOKENS.get(device.type, 131_072), multiple):
        if device.type == "cpu" and encoder.settings["kind"] == "transformer":
            yield rows, _grouped(ready, tokens, rows, lengths[rows], limit)
            continue
        joined = None
        if on_device is not None and encoder.settings["kind"] == "transformer":
            joined = packed([(on_device, rows)])
        if joined is not None:  # no padding, and no batch is made on the host
            yield rows, ready.packed(*joined)
            continue
        ids, mask = tokens.batch(rows, limit, multiple)
        full = lengths[rows[-1]] == ids.shape[1]  # rows are in order of length, the longest first
        yield rows, ready(ids.to(device, non_blocking=True), None if full else mask.to(device, non_blocking=True))


def batches(lengths: Longs, batch_tokens: int, multiple: int = 1) -> Iterator[Longs]:
    """Divide texts into batches of similar length.

    Args:
        lengths: (rows,) tokens of each text.
        batch_tokens: At most so many places in a padded batch; a longer text is a batch of its own.
        multiple: Places of a text are padded to a multiple of this.

    Yields:
        The rows of each batch, in order of length, the longest first.
    """
    order = np.argsort(-lengths, kind="stable")
    begin = 0
    while begin < len(order):
        places = -(-int(lengths[order[begin]]) // multiple) * multiple
        end = begin + max(batch_tokens // places, 1)
        yield order[begin:end]
        begin = end


def similar_lengths(lengths: Longs) -> list[slice]:
    """Divide texts into groups that need little padding when each text is padded to its group's longest.

    Args:
        lengths: (texts,) tokens of each text, in decreasing order.

    Returns:
        The texts of each group.
    """
    begins, padding = [0], 0
    for place in (np.flatnonzero(np.diff(lengths)) + 1).tolist():
        texts = int(np.searchsorted(-lengths, -lengths[place], side="right")) - place
        padding += int(lengths[begins[-1]] - lengths[place]) * texts
        if padding > GROUP_COST:
            begins.append(place)
            padding = 0
    return [slice(begin, end) for begin, end in zip(begins, [*begins[1:], len(lengths)], strict=True)]


def _grouped(encoder: Encoder, tokens: Tokens, rows: Longs, lengths: Longs, limit: int) -> torch.Tensor:
    """Encode rows, the longest first: matrix products over all at once, attention over each group of similar length."""
    parts = [tokens.batch(rows[group], limit, 1) for group in similar_lengths(lengths)]
    ids = torch.cat([ids.flatten() for ids, _ in parts])
    return encoder.grouped(ids, Grouped.of([mask for _, mask in parts]))


def bf16_pays(device: torch.device) -> bool:
    """Check whether matrix products are faster in bf16.

    Args:
        device: Where they are computed.

    Returns:
        Whether the hardware multiplies bf16 directly.
    """
    if device.type == "cuda":
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    native = getattr(torch.cpu, "_is_avx512_bf16_supported", None)
    return device.type == "cpu" and native is not None and bool(native())


def for_inference(encoder: Encoder) -> Encoder:
    """Make once what `encode` makes in every call, at the cost of encoding a short text or two: for repeated use.

    Args:
        encoder: The encoder, which is left as it is.

    Returns:
        A copy for `encode(..., prepared=True)`; a transformer in bf16 where that is faster, for a single text too.
    """
    transformer = encoder.settings["kind"] in ("transformer", "foreign")
    return _ready(encoder, transformer and bf16_pays(next(encoder.parameters()).device))


def _ready(encoder: Encoder, in_bf16: bool) -> Encoder:
    """Copy the encoder for inference, with its matrices in bf16 or as they are. Unchanged weights are shared."""
    known = {id(tensor): tensor for tensor in (*encoder.parameters(), *encoder.buffers())}
    if in_bf16:
        # Our own transformer keeps its embeddings in fp32; others need one precision throughout.
        whole = encoder.settings["kind"] == "foreign"
        for module in encoder.modules():
            for weight in module.parameters(recurse=False):
                if whole or isinstance(module, nn.Linear):
                    known[id(weight)] = nn.Parameter(weight.detach().to(torch.bfloat16), requires_grad=False)
    return copy.deepcopy(encoder, known).eval()
