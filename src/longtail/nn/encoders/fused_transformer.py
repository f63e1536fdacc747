"""The transformer of `longtail.nn.encoders.transformer` for training on a GPU: one Triton kernel between two products.

In small encoders the products are short, and most of a step in plain torch goes to what lies between them: to memory
traffic, and to the host that launches the kernels. Here forward and backward are written out. Matrices are multiplied
in the lower precision, from copies made once in a pass; sums and the gradients of weights are in float32; dropout
stores no mask, but is a function of seed and place (`kernels/dropout_mask.py`). No sum depends on the timing of
threads.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache, partial
from importlib.util import find_spec
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from longtail.nn.encoders.layouts import Packed
from longtail.nn.encoders.transformer_layer import Layer, Shape

HEAD_SIZES = (16, 32, 64, 128)
MAX_NUMBERS = 128 * 64  # tokens of a text x head size, which registers hold
PARAMETERS, LOWERED = 12, 6  # of a layer; and those of them that are used in the lower precision


class HasWeights(Protocol):
    """What is read of a `Transformer`."""

    shape: Shape
    training: bool
    words: nn.Embedding
    positions: nn.Embedding
    norm: nn.LayerNorm
    layers: nn.ModuleList


def can_fuse(shape: Shape, device: torch.device, lower: torch.dtype, longest: int) -> bool:
    """Check whether the kernels can run a transformer.

    Args:
        shape: Of the transformer.
        device: Where it computes.
        lower: The precision of its matrix products.
        longest: Tokens of the longest text.

    Returns:
        Whether they fit its sizes and this machine.
    """
    return (
        device.type == "cuda"
        and not shape.taps
        and lower == torch.bfloat16
        and (size := shape.width // shape.heads) in HEAD_SIZES
        and longest <= min(MAX_NUMBERS // size, 128)
        and not torch.compiler.is_compiling()
        and _is_installed()
    )


@cache
def _is_installed() -> bool:
    """Whether Triton is, and a torch that can return products of half-precision matrices in float32."""
    return find_spec("triton") is not None and "dtype" in torch.ops.aten.mm.overloads()


def encode(body: HasWeights, ids: Tensor, layout: Packed, lower: torch.dtype) -> Tensor:
    """Encode packed texts, as `Transformer.packed` does.

    Args:
        body: The transformer.
        ids: (tokens,) int64.
        layout: Where each text lies.
        lower: The precision of the matrix products.

    Returns:
        (texts, width) float32.
    """
    with torch.autocast(ids.device.type, enabled=False):
        return _encode(body, ids, layout, lower)


def _encode(body: HasWeights, ids: Tensor, layout: Packed, lower: torch.dtype) -> Tensor:
    shape = body.shape
    dropouts = (shape.attention_dropout, shape.dropout) if body.training else (0.0, 0.0)
    seeds = torch.randint(2**31 - 1, (1 + 3 * shape.layers,), device=ids.device, dtype=torch.int32)
    ends = (body.words.weight, body.positions.weight, body.norm.weight, body.norm.bias)
    states = _Embed.apply(ids, layout, shape.epsilon, dropouts[1], seeds, lower, *ends)  # type: ignore[no-untyped-call]
    masters = [weight for layer in body.layers for weight in _weights(layer)]  # type: ignore[arg-type]
    states = _Layers.apply(states, layout, shape, dropouts, seeds, *masters)  # type: ignore[no-untyped-call]
    if shape.pooling != "mean":
        return layout.pool(states, shape.pooling)
    pooled: Tensor = _Mean.apply(states, layout)  # type: ignore[no-untyped-call]
    return pooled


def _weights(layer: Layer) -> tuple[Tensor, ...]:
    """A layer's parameters; the first LOWERED are used in the lower precision."""
    attend, attended, widen, narrow = layer.attend, layer.attended, layer.widen, layer.narrow
    first, second = layer.attended_norm, layer.narrow_norm
    return (
        *(attend.weight, attend.bias, attended.weight, widen.weight, widen.bias, narrow.weight),
        *(attended.bias, first.weight, first.bias, narrow.bias, second.weight, second.bias),
    )


def _by_layer(weights: Sequence[Tensor]) -> Iterator[Sequence[Tensor]]:
    """Split a flat list into the parameters of each layer."""
    return (weights[begin : begin + PARAMETERS] for begin in range(0, len(weights), PARAMETERS))


def _copies(weights: list[Tensor], lower: torch.dtype) -> list[Tensor]:
    """Copy weights to the lower precision, in one kernel for all."""
    copies = [torch.empty_like(weight, dtype=lower) for weight in weights]
    with torch.no_grad():
        torch._foreach_copy_(copies, weights)
    return copies


class _Embed(torch.autograd.Function):
    """Token ids to states."""

    @staticmethod
    def forward(
        ctx: Any, ids: Tensor, layout: Packed, epsilon: float, dropout: float, seeds: Tensor, lower: torch.dtype,
        words: Tensor, positions: Tensor, scale: Tensor, shift: Tensor,
    ) -> Tensor:  # fmt: skip
        from longtail.nn.kernels.embedding_and_pooling import embed

        states, means, inverses = embed(
            ids, layout.places, words, positions, scale, shift, epsilon, dropout, seeds, lower
        )
        ctx.save_for_backward(ids, words, positions, scale, means, inverses, seeds)
        ctx.layout, ctx.dropout = layout, dropout
        return states

    @staticmethod
    def backward(ctx: Any, to_states: Tensor) -> Any:
        from longtail.nn.kernels.embedding_and_pooling import embed_back

        ids, words, positions, scale, means, inverses, seeds = ctx.saved_tensors
        layout: Packed = ctx.layout
        gradients = embed_back(
            to_states, ids, layout.places, layout.ends, layout.longest, words, positions, scale, means, inverses,
            ctx.dropout, seeds,
        )  # fmt: skip
        return None, None, None, None, None, None, *gradients


class _Layers(torch.autograd.Function):
    """All layers, each of attention and a feed-forward block."""

    @staticmethod
    def forward(
        ctx: Any, states: Tensor, layout: Packed, shape: Shape, dropouts: tuple[float, float], seeds: Tensor,
        *masters: Tensor,
    ) -> Tensor:  # fmt: skip
        from longtail.nn.kernels.activation import activate
        from longtail.nn.kernels.attention import ByBlock, attend
        from longtail.nn.kernels.layer_norm import add_norm

        texts = ByBlock.of(layout.ends, layout.longest)
        lowered = _copies([weight for layer in _by_layer(masters) for weight in layer[:LOWERED]], states.dtype)
        attention_dropout, dropout = dropouts
        saved = []
        for number, weights in enumerate(_by_layer(masters)):
            attend_weight, attend_bias, attended, widen, widen_bias, narrow = lowered[LOWERED * number :][:LOWERED]
            attended_bias, scale, shift, narrow_bias, narrow_scale, narrow_shift = weights[LOWERED:]
            layer_seeds = seeds[1 + 3 * number :]
            split = torch.addmm(attend_bias, states, attend_weight.T)
            mixed = attend(split, texts, shape.heads, attention_dropout, layer_seeds)
            first = mixed @ attended.T
            middle, *moments = add_norm(
                states, first, attended_bias, scale, shift, shape.epsilon, dropout, layer_seeds[1:]
            )
            wide = torch.addmm(widen_bias, middle, widen.T)
            active = activate(wide, shape.form)
            second = active @ narrow.T
            result, *last_moments = add_norm(
                middle, second, narrow_bias, narrow_scale, narrow_shift, shape.epsilon, dropout, layer_seeds[2:]
            )
            saved += [states, split, mixed, first, *moments, middle, wide, active, second, *last_moments]
            saved += [attend_weight, attended, widen, narrow, scale, narrow_scale]
            states = result
        ctx.save_for_backward(seeds, *saved)
        ctx.texts, ctx.shape, ctx.dropouts = texts, shape, dropouts
        return states

    @staticmethod
    def backward(ctx: Any, to_states: Tensor) -> Any:
        from longtail.nn.kernels import activation, attention
        from longtail.nn.kernels import layer_norm as norm

        seeds, *saved = ctx.saved_tensors
        texts, shape, (attention_dropout, dropout) = ctx.texts, ctx.shape, ctx.dropouts
        # Kernels write partial sums over the tokens; those of all layers are added up together at the end.
        width, tokens = shape.width, len(to_states)
        empty = partial(to_states.new_empty, dtype=torch.float32)
        norm_sums = empty((shape.layers, 2, norm.parts(tokens), 3 * width))
        wide_sums = empty((shape.layers, activation.parts(tokens), shape.inner))
        split_sums = empty((shape.layers, len(texts.blocks) * texts.parts, 3 * width))
        products = []
        to_states = to_states.contiguous()
        for number in reversed(range(shape.layers)):
            here = saved[18 * number : 18 * (number + 1)]
            states, split, mixed, first, means, inverses = here[:6]
            middle, wide, active, second, last_means, last_inverses = here[6:12]
            attend_weight, attended, widen, narrow, scale, narrow_scale = here[12:]
            layer_seeds = seeds[1 + 3 * number :]
            to_middle, to_second = norm.add_norm_back(
                to_states,
                second,
                narrow_scale,
                last_means,
                last_inverses,
                norm_sums[number, 1],
                dropout,
                layer_seeds[2:],
            )
            to_narrow = _product(to_second.T, active)
            to_wide = to_second @ narrow
            activation.activate_back(wide, to_wide, wide_sums[number], shape.form)
            to_widen = _product(to_wide.T, middle)
            to_middle.addmm_(to_wide, widen)
            to_states, to_first = norm.add_norm_back(
                to_middle, first, scale, means, inverses, norm_sums[number, 0], dropout, layer_seeds[1:]
            )
            to_attended = _product(to_first.T, mixed)
            to_split = attention.attend_back(
                split, texts, to_first @ attended, split_sums[number], shape.heads, attention_dropout, layer_seeds
            )
            products.append((_product(to_split.T, states), to_attended, to_widen, to_narrow))
            to_states.addmm_(to_split, attend_weight)
        gradients: list[Tensor] = []
        norms = norm_sums.sum(2).unflatten(-1, (3, width)).unbind(0)
        for (to_attend, to_attended, to_widen, to_narrow), (one, other), to_widen_bias, to_attend_bias in zip(
            reversed(products), norms, wide_sums.sum(1), split_sums.sum(1), strict=True
        ):
            (to_scale, to_shift, to_attended_bias), (to_last_scale, to_last_shift, to_narrow_bias) = one, other
            gradients += [to_attend, to_attend_bias, to_attended, to_widen, to_widen_bias, to_narrow]
            gradients += [to_attended_bias, to_scale, to_shift, to_narrow_bias, to_last_scale, to_last_shift]
        return to_states, None, None, None, None, *gradients


class _Mean(torch.autograd.Function):
    """States to the mean over each text."""

    @staticmethod
    def forward(ctx: Any, states: Tensor, layout: Packed) -> Tensor:
        from longtail.nn.kernels.embedding_and_pooling import mean

        ctx.layout, ctx.lower = layout, states.dtype
        return mean(states, layout.ends, layout.longest)

    @staticmethod
    def backward(ctx: Any, to_pooled: Tensor) -> Any:
        from longtail.nn.kernels.embedding_and_pooling import mean_back

        ends, longest, tokens = ctx.layout.ends, ctx.layout.longest, len(ctx.layout.places)
        return mean_back(to_pooled.contiguous(), ends, longest, tokens, ctx.lower), None


def _product(left: Tensor, right: Tensor) -> Tensor:
    """A matrix product in float32, of factors in the lower precision."""
    if left.dtype == torch.float32:
        return left @ right
    return torch.mm(left, right, out_dtype=torch.float32)
