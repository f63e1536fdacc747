"""The kernels that score candidates, against the tiles of plain torch.

They run on a GPU or, where there is none, in Triton's interpreter.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
from triton_device import DEVICE, interpreter, needs_triton

from longtail.nn.label_tree import candidate_blocks
from longtail.nn.label_tree.candidate_blocks import block_scores, blocks_of

__all__ = ["interpreter"]  # a fixture
pytestmark = needs_triton


@pytest.mark.parametrize("biased", [True, False])
@pytest.mark.parametrize("sizes", [(3, 1, 4, 2, 5), (150, 3, 40)])
def test_scores_and_gradients_are_those_of_tiles(
    sizes: tuple[int, ...], biased: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With clusters that nobody asks for, and one that more examples ask for than are multiplied at once."""
    rng = np.random.default_rng(0)
    begins = torch.tensor([0, *np.cumsum(sizes)])
    parents = np.stack([rng.choice(len(sizes) - 1, 2, replace=False) for _ in range(40)])
    parents[:38, 0], parents[:38, 1] = 1, 0
    exact, found = [], []
    for device, kernels, into in (("cpu", False, exact), (DEVICE, True, found)):
        monkeypatch.setattr(candidate_blocks, "uses_kernels", lambda _, kernels=kernels: kernels)
        monkeypatch.setitem(candidate_blocks.WHOLE, "cuda", 0)
        torch.manual_seed(0)
        drawn = [torch.randn(40, 70), torch.randn(sum(sizes), 70), torch.randn(sum(sizes))]
        vectors, weights, bias = (one.to(device).requires_grad_() for one in drawn)
        clusters, where = begins.to(device), torch.from_numpy(parents).to(device)
        scores = block_scores(vectors, weights, bias if biased else None, clusters, where, max(sizes))
        nodes, real = blocks_of(clusters, where, max(sizes))
        (torch.where(real, scores, 0.0) * torch.sin(nodes.float())).sum().backward()
        into += [scores.detach() * real, vectors.grad, weights.grad, *([bias.grad] if biased else [])]
    for one, other in zip(found, exact, strict=True):
        torch.testing.assert_close(one.cpu(), other, rtol=1e-4, atol=1e-4)
