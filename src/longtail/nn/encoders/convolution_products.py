"""The convolutions along word vectors as a few large matrix products, which a CPU computes faster.

The weights and results are those of `Inception.forward`, in the precision of the rows. Every stride is 4, so a vector
is cut into blocks of four places. A block is multiplied by the weights of all windows that contain it, and the parts of
each window are added up. Two linear layers with nothing between them are merged into one.

Convolutions with few channels are slow on a CPU, so a step there is a few large products in bf16. A GPU runs the
convolutions themselves, and a test checks that both give the same.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from longtail.nn.encoders.fast_dropout import drop
from longtail.nn.encoders.residual_blocks import Attention, Inception, cast_linear
from longtail.nn.training.thread_invariant import batch_norm, scaled

STRIDE = 4


def multiplied(net: Inception, words: Tensor) -> Tensor:
    """Compute `net(words)` by matrix products.

    Args:
        net: in float32.
        words: (rows, places, width) word vectors.

    Returns:
        (rows, features), of the type of the words.
    """
    rows = _over_places(net.over_places, words)
    mixed = _over_width_and_mixed(net.over_width, net.mixed, rows)  # (rows, width, channels)
    wide = F.gelu(_wide(net, mixed))  # (rows, width / 4, 3 channels)
    wide = batch_norm(net.norm, wide.flatten(0, 1)).view_as(wide)
    found = F.gelu(_last(net.last, drop(wide, net.dropout, net.training)))  # (rows, windows, channels)
    found = found.transpose(1, 2).flatten(1)
    return found + F.gelu(cast_linear(net.layer, found))


def _over_places(attention: Attention, rows: Tensor) -> Tensor:
    """Attention over few places. The values are never computed, only their product with the keys."""
    query, key, value = (_plain(layer, rows) for layer in (attention.asks, attention.answers, attention.says))
    both = torch.matmul(torch.cat([query[0], key[0]]), rows) + torch.cat([query[1], key[1]])[:, None]
    queries, keys = both.chunk(2, dim=1)  # (rows, inner, width)
    product = torch.matmul(value[0], torch.bmm(rows, keys.transpose(1, 2)))
    product = product + value[1][:, None] * keys.sum(dim=2)[:, None]  # (rows, places, inner)
    return torch.baddbmm(rows, scaled(attention.share / rows.shape[2], product), queries)


def _over_width_and_mixed(attention: Attention, layer: nn.Conv1d, rows: Tensor) -> Tensor:
    """Attention over the width, and then the layer that mixes places: its weight is multiplied into the attention."""
    query, key = _plain(attention.asks, rows), _plain(attention.answers, rows)
    values = F.linear(rows, *_plain(attention.says, rows))
    both = F.linear(rows, torch.cat([query[0], key[0]]), torch.cat([query[1], key[1]]))
    queries, keys = both.chunk(2, dim=2)
    pairs = scaled(attention.share / rows.shape[1], torch.bmm(keys, queries.transpose(1, 2)))  # (rows, from, to)
    weight, bias = _plain(layer, rows)
    mix = weight.T.expand(len(rows), -1, -1)
    found: Tensor = _TransposedProduct.apply(rows, mix)  # type: ignore[no-untyped-call]
    attended: Tensor = _TransposedProduct.apply(values, torch.matmul(pairs, weight.T))  # type: ignore[no-untyped-call]
    return found + attended + bias


def _wide(net: Inception, mixed: Tensor) -> Tensor:
    """Windows of three sizes around each block, circular."""
    columns, biases, reach = [], [], []
    for layer in net.wide:
        assert isinstance(layer, nn.Conv1d)
        weight, bias = layer.weight, layer.bias
        assert bias is not None
        before = int(layer.padding[0])
        left = -before % STRIDE
        right = -(left + weight.shape[2]) % STRIDE
        columns.append(_columns(F.pad(weight, (left, right))))
        biases.append(bias)
        reach.append(((before + left) // STRIDE, columns[-1].shape[1] // len(bias)))
    blocks = mixed.flatten(1).view(len(mixed), -1, STRIDE * mixed.shape[2])
    parts = blocks @ torch.cat(columns, dim=1).to(mixed.dtype)
    found: Tensor = _WindowSums.apply(parts, reach)  # type: ignore[no-untyped-call]
    return found + torch.cat(biases).to(mixed.dtype)


def _last(layer: nn.Conv1d, wide: Tensor) -> Tensor:
    size, channels = layer.kernel_size[0] // STRIDE, layer.out_channels
    windows = (wide.shape[1] - layer.kernel_size[0]) // STRIDE + 1
    kept = wide[:, : STRIDE * (windows + size - 1)]
    parts = kept.reshape(len(wide), -1, STRIDE * wide.shape[2]) @ _columns(layer.weight).to(wide.dtype)
    assert layer.bias is not None
    found = layer.bias.to(wide.dtype)
    for number in range(size):
        found = found + parts[:, number : number + windows, number * channels : (number + 1) * channels]
    return found


def _plain(layer: nn.Conv1d, rows: Tensor) -> tuple[Tensor, Tensor]:
    """Weight (out, in) and bias of a layer with windows of one place."""
    assert layer.bias is not None
    return layer.weight[:, :, 0].to(rows.dtype), layer.bias.to(rows.dtype)


def _columns(weight: Tensor) -> Tensor:
    """The matrix that a block is multiplied by, from windows (out, in, size): (4 in, blocks of a window x out)."""
    out, into, size = weight.shape
    return weight.view(out, into, size // STRIDE, STRIDE).permute(3, 1, 2, 0).reshape(STRIDE * into, -1)


class _TransposedProduct(torch.autograd.Function):
    """rowsᵀ mix for each row, with gradients that are contiguous as the rows are."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, mix: Tensor) -> Tensor:
        ctx.save_for_backward(rows, mix)
        return torch.bmm(rows.transpose(1, 2), mix)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor]:
        rows, mix = ctx.saved_tensors
        return torch.bmm(mix, gradients[0].transpose(1, 2)), torch.bmm(rows, gradients[0])


class _WindowSums(torch.autograd.Function):
    """Adds up the parts of each window, circularly: part p of a window lies p - before blocks further on."""

    @staticmethod
    def forward(ctx: Any, parts: Tensor, reach: list[tuple[int, int]]) -> Tensor:
        ctx.reach, ctx.shape = reach, parts.shape
        channels = parts.shape[2] // sum(blocks for _, blocks in reach)
        found = parts.new_empty((*parts.shape[:2], channels * len(reach)))
        for out, part, shift in _pairs(found, parts, reach):
            if shift == 0:
                out.copy_(part)
        for out, part, shift in _pairs(found, parts, reach):
            for to, source in _ranges(shift, out.shape[1]):
                out[:, to] += part[:, source]
        return found

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        gradient = gradients[0].new_empty(ctx.shape)
        for out, part, shift in _pairs(gradients[0], gradient, ctx.reach):
            if shift == 0:
                part.copy_(out)
            for to, source in _ranges(shift, out.shape[1]):
                part[:, source] = out[:, to]
        return gradient, None


def _pairs(found: Tensor, parts: Tensor, reach: list[tuple[int, int]]) -> list[tuple[Tensor, Tensor, int]]:
    """The channels of each window with each of its parts, and by how many blocks that part is shifted."""
    numbers = [(window, part - before) for window, (before, blocks) in enumerate(reach) for part in range(blocks)]
    outs, pieces = found.chunk(len(reach), dim=2), parts.chunk(len(numbers), dim=2)
    return [(outs[window], piece, shift) for (window, shift), piece in zip(numbers, pieces, strict=True)]


def _ranges(shift: int, blocks: int) -> list[tuple[slice, slice]]:
    """Slices of blocks and of the blocks `shift` further on, before and after the wrap-around; none without a shift."""
    shift %= blocks
    if shift == 0:
        return []
    cut = blocks - shift
    return [(slice(0, cut), slice(shift, blocks)), (slice(cut, blocks), slice(0, shift))]
