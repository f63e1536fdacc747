"""The convolutions along word vectors as a few large matrix products, which is what a processor is good at.

The same weights and the same numbers as `Inception.forward`, in the precision of the rows. Every stride is 4, so a
vector is cut into blocks of four places; a block is multiplied by the weights of all windows that it stands in, and
the parts of a window are added up. Two layers with nothing between them are one.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from longtail.nn.frugal.blocks import Attention, Inception, through
from longtail.nn.frugal.drop import drop

STRIDE = 4


def multiplied(net: Inception, words: Tensor) -> Tensor:
    """Word vectors (rows, places, width) to vectors (rows, features)."""
    rows = _over_places(net.over_places, words)
    mixed = _over_width_and_mixed(net.over_width, net.mixed, rows)  # (rows, width, channels)
    wide = F.gelu(_wide(net, mixed))  # (rows, width / 4, 3 channels)
    wide = net.norm(wide.flatten(0, 1)).view_as(wide)
    found = F.gelu(_last(net.last, drop(wide, net.dropout, net.training)))  # (rows, windows, channels)
    found = found.transpose(1, 2).flatten(1)
    return found + F.gelu(through(net.layer, found))


def _over_places(attention: Attention, rows: Tensor) -> Tensor:
    """The places are few, and fewer are asked with: what is said is never made, only its product with the answers."""
    ask, answer, say = (_plain(layer, rows) for layer in (attention.asks, attention.answers, attention.says))
    both = torch.matmul(torch.cat([ask[0], answer[0]]), rows) + torch.cat([ask[1], answer[1]])[:, None]
    asked, answered = both.chunk(2, dim=1)  # (rows, few, width)
    heard = torch.matmul(say[0], torch.bmm(rows, answered.transpose(1, 2)))
    heard = heard + say[1][:, None] * answered.sum(dim=2)[:, None]  # (rows, places, few)
    return torch.baddbmm(rows, heard * (attention.share / rows.shape[2]), asked)


def _over_width_and_mixed(attention: Attention, layer: nn.Conv1d, rows: Tensor) -> Tensor:
    """How places are mixed afterwards is multiplied into what each place hears of the others."""
    ask, answer = _plain(attention.asks, rows), _plain(attention.answers, rows)
    said = F.linear(rows, *_plain(attention.says, rows))
    both = F.linear(rows, torch.cat([ask[0], answer[0]]), torch.cat([ask[1], answer[1]]))
    asked, answered = both.chunk(2, dim=2)
    pairs = torch.bmm(answered, asked.transpose(1, 2)) * (attention.share / rows.shape[1])  # (rows, from, to)
    weight, bias = _plain(layer, rows)
    mix = weight.T.expand(len(rows), -1, -1)
    found: Tensor = _Turned.apply(rows, mix)  # type: ignore[no-untyped-call]
    heard: Tensor = _Turned.apply(said, torch.matmul(pairs, weight.T))  # type: ignore[no-untyped-call]
    return found + heard + bias


def _wide(net: Inception, mixed: Tensor) -> Tensor:
    """Windows of three sizes around each block, the last beside the first."""
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
    found: Tensor = _Slid.apply(blocks @ torch.cat(columns, dim=1).to(mixed.dtype), reach)  # type: ignore[no-untyped-call]
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
    """Windows (out, in, size) as what a block is multiplied by: (4 in, blocks of a window x out)."""
    out, into, size = weight.shape
    return weight.view(out, into, size // STRIDE, STRIDE).permute(3, 1, 2, 0).reshape(STRIDE * into, -1)


class _Turned(torch.autograd.Function):
    """rowsᵀ mix, of each row: its gradients lie as the rows do."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, mix: Tensor) -> Tensor:
        ctx.save_for_backward(rows, mix)
        return torch.bmm(rows.transpose(1, 2), mix)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor]:
        rows, mix = ctx.saved_tensors
        return torch.bmm(mix, gradients[0].transpose(1, 2)), torch.bmm(rows, gradients[0])


class _Slid(torch.autograd.Function):
    """The parts of each window added up, round the end: part p of a window stands p - before blocks further on."""

    @staticmethod
    def forward(ctx: Any, parts: Tensor, reach: list[tuple[int, int]]) -> Tensor:
        ctx.reach, ctx.shape = reach, parts.shape
        channels = parts.shape[2] // sum(blocks for _, blocks in reach)
        found = parts.new_empty((*parts.shape[:2], channels * len(reach)))
        for out, part, shift in _pairs(found, parts, reach):
            if shift == 0:
                out.copy_(part)
        for out, part, shift in _pairs(found, parts, reach):
            for here, there in _ranges(shift, out.shape[1]):
                out[:, here] += part[:, there]
        return found

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        steep = gradients[0].new_empty(ctx.shape)
        for out, part, shift in _pairs(gradients[0], steep, ctx.reach):
            if shift == 0:
                part.copy_(out)
            for here, there in _ranges(shift, out.shape[1]):
                part[:, there] = out[:, here]
        return steep, None


def _pairs(found: Tensor, parts: Tensor, reach: list[tuple[int, int]]) -> list[tuple[Tensor, Tensor, int]]:
    """The channels of each window beside each of its parts, and how many blocks further on that stands."""
    numbers = [(window, part - before) for window, (before, blocks) in enumerate(reach) for part in range(blocks)]
    outs, pieces = found.chunk(len(reach), dim=2), parts.chunk(len(numbers), dim=2)
    return [(outs[window], piece, shift) for (window, shift), piece in zip(numbers, pieces, strict=True)]


def _ranges(shift: int, blocks: int) -> list[tuple[slice, slice]]:
    """Blocks, and those so many further on: what does not reach round the end, and what does; none without a shift."""
    shift %= blocks
    if shift == 0:
        return []
    cut = blocks - shift
    return [(slice(0, cut), slice(shift, blocks)), (slice(cut, blocks), slice(0, shift))]
