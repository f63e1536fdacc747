"""Many texts to vectors, as fast as the machine goes: texts of like length together, bf16 where it pays."""

from __future__ import annotations

import copy
from collections.abc import Iterator

import numpy as np
import torch
from torch import nn

from longtail.arrays import Floats, Longs
from longtail.errors import DataError
from longtail.nn.encoders import Encoder
from longtail.nn.layouts import Grouped
from longtail.nn.resident import ResidentTokens, packed, sent
from longtail.nn.tokens import Tokens
from longtail.progress import stage

PRECISIONS = ("auto", "fp32", "bf16")
FEWEST_TOKENS = 512  # below, turning the weights into bf16 takes longer than it saves
BATCH_TOKENS = {"cpu": 2_048, "cuda": 131_072}
SPARE = 12  # places of padding that cost a host as much as one more group of texts of like length


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
    """Vectors (texts, dimension) in float32, of the length the encoder gives them, in the order of the texts.

    Runs where the encoder's weights lie, without dropout. `precision` auto is bf16 for transformers, on a GPU and on
    processors that multiply bf16; the numbers then agree with fp32 to about three digits. bag and gru stay in fp32. An
    encoder that is `prepared` comes from `for_inference` and runs as it is.
    """
    if precision not in PRECISIONS:
        raise DataError(f"precision is one of {', '.join(PRECISIONS)}, got {precision!r}")
    result = np.empty((len(tokens), encoder.dimension), dtype=np.float32)
    waiting: tuple[Longs, torch.Tensor] | None = None
    with stage(f"encoding {what}", total=len(tokens)) as advance:
        for rows, vectors in _parts(encoder, tokens, longest, batch_tokens, precision, prepared):
            # A GPU works on this batch while the one before is taken down and the next is put together.
            if waiting is not None:
                result[waiting[0]] = waiting[1].cpu().numpy()
                advance(len(waiting[0]))
            waiting = rows, vectors
        if waiting is not None:
            result[waiting[0]] = waiting[1].cpu().numpy()
            advance(len(waiting[0]))
    return result


@torch.inference_mode()
def encode_there(
    encoder: Encoder, tokens: Tokens | ResidentTokens, *, prepared: bool = False, what: str = "texts"
) -> torch.Tensor:
    """The same, left where the encoder's weights lie, for those who go on there: (texts, dimension) in float32. Tokens
    that lie there too are cut into batches there, and the device is never waited for."""
    device = next(encoder.parameters()).device
    held = tokens if isinstance(tokens, ResidentTokens) else None
    given, longest = (tokens, None) if held is None else (held.tokens, held.longest)
    assert isinstance(given, Tokens)
    result = torch.empty((len(given), encoder.dimension), dtype=torch.float32, device=device)
    with stage(f"encoding {what}", total=len(given)) as advance:
        for rows, vectors in _parts(encoder, given, longest, None, "auto", prepared, held):
            result[sent(rows, device)] = vectors.float()
            advance(len(rows))
    return result


def _parts(
    encoder: Encoder,
    tokens: Tokens,
    longest: int | None,
    batch_tokens: int | None,
    precision: str,
    prepared: bool,
    held: ResidentTokens | None = None,
) -> Iterator[tuple[Longs, torch.Tensor]]:
    """Some rows and their vectors, until all had their turn; a GPU may be at work on them still. `held` are the same
    tokens where they lie on the device."""
    device = next(encoder.parameters()).device
    limit = min(longest or 2**31, encoder.longest or 2**31)
    lengths = np.minimum(tokens.lengths, limit)
    transformer = encoder.settings["kind"] in ("transformer", "foreign")
    pays = bf16_pays(device) and int(lengths.sum()) >= FEWEST_TOKENS
    lower = transformer and (precision == "bf16" or (precision == "auto" and pays))
    ready = encoder if prepared else _ready(encoder, lower)
    multiple = 1 if device.type == "cpu" else 8
    for rows in batches(lengths, batch_tokens or BATCH_TOKENS.get(device.type, 131_072), multiple):
        if device.type == "cpu" and encoder.settings["kind"] == "transformer":
            yield rows, _grouped(ready, tokens, rows, lengths[rows], limit)
            continue
        run = packed([(held, rows)]) if held is not None and encoder.settings["kind"] == "transformer" else None
        if run is not None:  # no padding, and nothing is put together on the host
            yield rows, ready.packed(*run)
            continue
        ids, mask = tokens.batch(rows, limit, multiple)
        full = lengths[rows[-1]] == ids.shape[1]  # rows stand longest first
        yield rows, ready(ids.to(device, non_blocking=True), None if full else mask.to(device, non_blocking=True))


def batches(lengths: Longs, batch_tokens: int, multiple: int = 1) -> Iterator[Longs]:
    """Rows in batches of at most this many places, longest first; a row longer than that goes alone."""
    order = np.argsort(-lengths, kind="stable")
    begin = 0
    while begin < len(order):
        places = -(-int(lengths[order[begin]]) // multiple) * multiple
        end = begin + max(batch_tokens // places, 1)
        yield order[begin:end]
        begin = end


def alike(lengths: Longs) -> list[slice]:
    """Lengths, longest first, cut into groups that waste few places when each is padded to its longest."""
    begins, lost = [0], 0
    for place in (np.flatnonzero(np.diff(lengths)) + 1).tolist():
        run = int(np.searchsorted(-lengths, -lengths[place], side="right")) - place
        lost += int(lengths[begins[-1]] - lengths[place]) * run
        if lost > SPARE:
            begins.append(place)
            lost = 0
    return [slice(begin, end) for begin, end in zip(begins, [*begins[1:], len(lengths)], strict=True)]


def _grouped(encoder: Encoder, tokens: Tokens, rows: Longs, lengths: Longs, limit: int) -> torch.Tensor:
    """Vectors of these rows, longest first: matrices see them all at once, attention only what is of like length."""
    parts = [tokens.batch(rows[group], limit, 1) for group in alike(lengths)]
    ids = torch.cat([ids.flatten() for ids, _ in parts])
    return encoder.grouped(ids, Grouped.of([mask for _, mask in parts]))


def bf16_pays(device: torch.device) -> bool:
    """Whether matrices multiply faster in bf16 there."""
    if device.type == "cuda":
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    native = getattr(torch.cpu, "_is_avx512_bf16_supported", None)
    return device.type == "cpu" and native is not None and bool(native())


def for_inference(encoder: Encoder) -> Encoder:
    """A copy for those who encode again and again: what `encode` makes anew in every call, at the cost of a short text
    or two, made once. In bf16 whenever that pays, for a single text too."""
    transformer = encoder.settings["kind"] in ("transformer", "foreign")
    return _ready(encoder, transformer and bf16_pays(next(encoder.parameters()).device))


def _ready(encoder: Encoder, lower: bool) -> Encoder:
    """A copy for inference, with the matrices in bf16 where asked; the encoder keeps its mode and its weights.

    What need not change is shared and not copied.
    """
    known = {id(tensor): tensor for tensor in (*encoder.parameters(), *encoder.buffers())}
    if lower:
        # Our own transformer looks its words up in fp32; others want one precision throughout.
        whole = encoder.settings["kind"] == "foreign"
        for module in encoder.modules():
            for weight in module.parameters(recurse=False):
                if whole or isinstance(module, nn.Linear):
                    known[id(weight)] = nn.Parameter(weight.detach().to(torch.bfloat16), requires_grad=False)
    return copy.deepcopy(encoder, known).eval()
