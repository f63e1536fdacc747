"""The device to compute on, the precision, and parameter groups with and without weight decay."""

from __future__ import annotations

import torch
from torch import nn

from longtail.threads import asked_threads


def best_device() -> torch.device:
    """Choose the device to compute on. On a CPU, LONGTAIL_THREADS sets the number of torch's threads.

    Returns:
        The GPU where torch can use one, else the CPU.

    Raises:
        DataError: LONGTAIL_THREADS is not a whole number above 0.
    """
    threads = asked_threads()
    if threads is not None and threads != torch.get_num_threads():
        torch.set_num_threads(threads)
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def uses_bf16(precision: str, device: torch.device, kind: str) -> bool:
    """Decide whether to compute in bf16.

    Args:
        precision: The setting: auto, fp32 or bf16. auto is bf16 for transformers on a GPU.
        device: Where the network computes.
        kind: The encoder's kind, such as transformer or bag.

    Returns:
        Whether to use bf16.
    """
    return precision == "bf16" or (precision == "auto" and device.type == "cuda" and kind in ("transformer", "foreign"))


def autocast(precision: str, device: torch.device, kind: str) -> torch.autocast:
    """Autocast to bf16 where `uses_bf16` holds. Weights and gradients stay in fp32.

    Args:
        precision: The setting: auto, fp32 or bf16.
        device: Where the network computes.
        kind: The encoder's kind, such as transformer or bag.

    Returns:
        A context manager; it does nothing where bf16 is not used.
    """
    return torch.autocast(device.type, torch.bfloat16, enabled=uses_bf16(precision, device, kind))


def decay_groups(module: nn.Module, learning_rate: float, weight_decay: float) -> list[dict[str, object]]:
    """Divide a module's trained parameters into groups for AdamW.

    Matrices get weight decay; biases and the scales of layer norms do not.

    Args:
        module: Its parameters that require a gradient are used.
        learning_rate: Of both groups.
        weight_decay: Of the matrices.

    Returns:
        One or two parameter groups; an empty group is left out.
    """
    trained = [parameter for parameter in module.parameters() if parameter.requires_grad]
    groups = [
        {
            "params": [parameter for parameter in trained if parameter.ndim > 1],
            "lr": learning_rate,
            "weight_decay": weight_decay,
        },
        {
            "params": [parameter for parameter in trained if parameter.ndim <= 1],
            "lr": learning_rate,
            "weight_decay": 0.0,
        },
    ]
    return [group for group in groups if group["params"]]
