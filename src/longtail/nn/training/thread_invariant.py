"""Functions whose bits do not depend on the number of threads, so that a model's bytes do not either.

On a CPU, torch cuts an operation into one piece per thread. Most operations give the same bits wherever the cuts are.
Those in this file do not, and are written here in terms of operations that do:

- The last few numbers of a piece do not fill a vector register. `sigmoid` and `softplus` compute them by another
  formula than the rest; `exp`, `log1p` and arithmetic do not.
- The gradient of a layer norm's scale, the statistics of a batch norm and the sum of all numbers of a tensor, which is
  the gradient of a single factor, are summed per thread first. A sum over one dimension is not.

Matrix products come from Intel's MKL, whose bits depend on the threads unless MKL_CBWR says STRICT; `longtail.nn` sets
it. That holds for products of two matrices and not for a matrix and a vector, for which there is `matrix_vector`. On
processors that are not Intel's it does not hold either where one of two matrices has two to four rows: `row_products`.
Products in bf16 come from oneDNN, which has no such setting: those of a net in bf16 on a CPU do depend on the threads.
On a GPU torch's own functions are used.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

FEW_ROWS = 8  # with as many, products do not depend on the threads on any processor that was tried


def sigmoid_(values: Tensor) -> Tensor:
    """Compute 1 / (1 + exp(-x)) in place.

    Args:
        values: Of any shape; overwritten.

    Returns:
        The same tensor.
    """
    if values.device.type != "cpu":
        return values.sigmoid_()
    return values.neg_().exp_().add_(1).reciprocal_()


def sigmoid(values: Tensor) -> Tensor:
    """Compute 1 / (1 + exp(-x)). Carries no gradient on a CPU.

    Args:
        values: Of any shape.

    Returns:
        A new tensor of the same shape.
    """
    if values.device.type != "cpu":
        return torch.sigmoid(values)
    return values.detach().neg().exp_().add_(1).reciprocal_()


def softplus(values: Tensor) -> Tensor:
    """Compute log(1 + exp(x)), with its gradient.

    Args:
        values: Of any shape.

    Returns:
        A tensor of the same shape.
    """
    if values.device.type != "cpu":
        return functional.softplus(values)
    found: Tensor = _Softplus.apply(values)  # type: ignore[no-untyped-call]
    return found


def matrix_vector(matrix: Tensor, vector: Tensor) -> Tensor:
    """Multiply a matrix and a vector, with the gradient.

    Args:
        matrix: (rows, width).
        vector: (width,).

    Returns:
        (rows,).
    """
    if matrix.device.type != "cpu":
        return torch.mv(matrix, vector)
    return (matrix @ vector.unsqueeze(1)).squeeze(1)


def row_products(few: Tensor, many: Tensor) -> Tensor:
    """Multiply each row of a matrix with each row of another, where the first may have very few. Without gradient.

    Args:
        few: (rows, width).
        many: (others, width).

    Returns:
        (rows, others), in the precision of both.
    """
    if few.device.type != "cpu" or len(few) >= FEW_ROWS:
        return torch.mm(few, many.T)
    return torch.mm(functional.pad(few, (0, 0, 0, FEW_ROWS - len(few))), many.T)[: len(few)]


def layer_norm(values: Tensor, weight: Tensor, bias: Tensor, epsilon: float) -> Tensor:
    """Normalise the last dimension, then scale and shift.

    Args:
        values: (..., width).
        weight: (width,), the scale.
        bias: (width,), the shift.
        epsilon: Added to the variance.

    Returns:
        (..., width).
    """
    if values.device.type != "cpu" or not (torch.is_grad_enabled() and weight.requires_grad):
        return functional.layer_norm(values, weight.shape, weight, bias, epsilon)
    return torch.addcmul(bias, functional.layer_norm(values, weight.shape, None, None, epsilon), weight)


def batch_norm(layer: nn.BatchNorm1d, values: Tensor) -> Tensor:
    """Normalise each channel over the rows.

    Args:
        layer: In training or not.
        values: (rows, channels).

    Returns:
        (rows, channels).
    """
    if values.device.type != "cpu" or not layer.training:
        found: Tensor = layer(values)
        return found
    # With the channels first, each is summed by one thread.
    found = layer(values.T.contiguous()[None])
    return found[0].T.contiguous()


def scaled(factor: Tensor, values: Tensor) -> Tensor:
    """Multiply by one number, whose gradient is the sum of all products.

    Args:
        factor: A scalar.
        values: (..., width).

    Returns:
        (..., width).
    """
    # The gradient of the expanded factor is summed over rows first.
    return (factor.expand(values.shape[-1]) * values).to(values.dtype)


class _Softplus(torch.autograd.Function):
    """max(x, 0) + log(1 + exp(-|x|)), which overflows nowhere."""

    @staticmethod
    def forward(ctx: Any, values: Tensor) -> Tensor:
        ctx.save_for_backward(values)
        return values.abs().neg_().exp_().log1p_().add_(values.clamp(min=0))

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        (values,) = ctx.saved_tensors
        return sigmoid(values).mul_(gradient)
