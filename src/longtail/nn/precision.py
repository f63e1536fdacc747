"""Where to compute and in which precision."""

from __future__ import annotations

import torch
from torch import nn


def best_device() -> torch.device:
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def is_lower(precision: str, device: torch.device, kind: str) -> bool:
    """Whether to compute in bf16: where it is asked for; on auto, for transformers on a GPU."""
    return precision == "bf16" or (precision == "auto" and device.type == "cuda" and kind in ("transformer", "foreign"))


def autocast(precision: str, device: torch.device, kind: str) -> torch.autocast:
    """bf16 where `is_lower` says so. Weights and gradients stay in fp32."""
    return torch.autocast(device.type, torch.bfloat16, enabled=is_lower(precision, device, kind))


def decay_groups(module: nn.Module, rate: float, weight_decay: float) -> list[dict[str, object]]:
    """Matrices decay; biases and the scales of normalisations do not."""
    trained = [parameter for parameter in module.parameters() if parameter.requires_grad]
    groups = [
        {
            "params": [parameter for parameter in trained if parameter.ndim > 1],
            "lr": rate,
            "weight_decay": weight_decay,
        },
        {"params": [parameter for parameter in trained if parameter.ndim <= 1], "lr": rate, "weight_decay": 0.0},
    ]
    return [group for group in groups if group["params"]]
