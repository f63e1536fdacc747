"""Stochastic weight averaging: the mean of the weights at many steps predicts better than the last weights do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn


@dataclass(eq=False)
class WeightAverage:
    """The equal-weight mean of the parameters of some modules, in fp32 on their device. Buffers are not averaged."""

    modules: Mapping[str, nn.Module]
    count: int = 0  # weights in the mean
    means: dict[str, Tensor] = field(default_factory=dict)

    @torch.no_grad()
    def add(self) -> None:
        """Take the weights as they are now into the mean."""
        self.count += 1
        for name, parameter in self._parameters():
            mean = self.means.get(name)
            if mean is None:
                self.means[name] = parameter.detach().float().clone()
            else:
                mean.add_(parameter.detach().float() - mean, alpha=1 / self.count)

    @torch.no_grad()
    def apply(self) -> None:
        """Replace the weights by the mean, where there is one."""
        if self.count:
            for name, parameter in self._parameters():
                parameter.copy_(self.means[name])

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Replace the weights by the mean for a while."""
        before = {name: parameter.detach().clone() for name, parameter in self._parameters()} if self.count else {}
        self.apply()
        try:
            yield
        finally:
            with torch.no_grad():
                for name, parameter in self._parameters():
                    if name in before:
                        parameter.copy_(before[name])

    def state(self) -> dict[str, Tensor]:
        """What a checkpoint must hold, for `load_state`."""
        means = {f"mean.{name}": mean for name, mean in self.means.items()}
        return {"averaged": torch.tensor(self.count), **means}

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """Restore what `state` returned.

        Args:
            state: with other tensors, which are ignored.
        """
        self.count = int(state["averaged"])
        devices = {name: parameter.device for name, parameter in self._parameters()}
        self.means = {
            name: state[f"mean.{name}"].to(device) for name, device in devices.items() if f"mean.{name}" in state
        }

    def _parameters(self) -> Iterator[tuple[str, nn.Parameter]]:
        for name, module in self.modules.items():
            for key, parameter in module.named_parameters():
                yield f"{name}.{key}", parameter
