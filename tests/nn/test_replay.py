"""Parts of the CUDA graphs that need no GPU; the rest is in test_nn_gpu.py."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from longtail.nn.encoders.build import build_encoder
from longtail.nn.encoders.cuda_graphs import has_room, twin

SMALL = {"kind": "transformer", "vocabulary": 40, "width": 16, "layers": 1, "heads": 2, "inner": 24, "dimension": 8}


def test_a_twin_shares_the_weights_and_not_the_gradients() -> None:
    encoder = build_encoder(SMALL)
    encoder.body.norm.bias.requires_grad_(False)  # type: ignore[union-attr]
    other = twin(encoder).eval()
    assert encoder.training and not other.training
    ids = torch.arange(12).view(3, 4)
    with torch.no_grad():
        for weight in encoder.parameters():
            weight.add_(0.1)  # as a step of the optimiser does, in place
    encoder.eval()
    torch.testing.assert_close(other(ids), encoder(ids), rtol=0, atol=0)
    other(ids).sum().backward()
    assert all(weight.grad is None for weight in encoder.parameters())
    found = {name: weight.grad for name, weight in other.named_parameters()}
    encoder(ids).sum().backward()
    for name, weight in encoder.named_parameters():
        assert (weight.grad is None) == (found[name] is None) == (not weight.requires_grad)
        if weight.grad is not None:
            torch.testing.assert_close(weight.grad, found[name], rtol=0, atol=0)


def test_loading_weights_reaches_a_twin() -> None:
    encoder, fresh = build_encoder(SMALL, seed=0), build_encoder(SMALL, seed=1)
    other = twin(encoder)
    encoder.load_state_dict(fresh.state_dict())  # as for the best weights, or on resuming
    for one, two in zip(other.parameters(), fresh.parameters(), strict=True):
        assert torch.equal(one, two)


def test_recording_can_be_switched_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before the GPU is asked for its memory: without one, that is an error."""
    monkeypatch.setenv("LONGTAIL_CUDA_GRAPHS", "0")
    assert not has_room([], torch.device("cuda"))
    monkeypatch.delenv("LONGTAIL_CUDA_GRAPHS")
    monkeypatch.setattr("torch.cuda.get_device_properties", lambda device: SimpleNamespace(total_memory=100))
    monkeypatch.setattr("torch.cuda.max_memory_allocated", lambda device: 10)
    assert has_room([], torch.device("cuda"))
    assert not has_room(range(8), torch.device("cuda"))
