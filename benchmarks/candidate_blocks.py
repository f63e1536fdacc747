"""Claim: scoring an example's candidates as runs of labels, one small product a cluster, takes less time and memory
than gathering a vector for each of them.

    python benchmarks/candidate_blocks.py                                          # 200,000 labels, on a processor
    python benchmarks/candidate_blocks.py --labels 1300000 --rows 1024 --dimension 768   # on a GPU, where there is one

A step computes the scores of every example's candidates, their cross-entropy, and the gradients of vectors and weights.
Which clusters examples have is drawn by Zipf's law with exponent 0.7. Each form runs in its own process; a table tells
milliseconds of the best of several steps, and peak memory beyond weights, their gradient and vectors; then the largest
difference of the scores and of the gradients of the two forms.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from shared.command import parser_for
from shared.tables import table
from shared.timing import best_of, memory

FORMS = ("gathered", "blocks")


def measure(form: str, asked: argparse.Namespace, out: Path) -> dict[str, float]:
    import torch

    from longtail.nn.label_tree.candidate_blocks import block_scores, blocks_of
    from longtail.nn.label_tree.level_heads import cross_entropy
    from longtail.nn.training.precision import best_device

    device, rng = best_device(), np.random.default_rng(0)
    clusters, each = asked.labels // asked.cluster, asked.candidates // asked.cluster
    popularity = (1 + rng.permutation(clusters)) ** -0.7
    chances = popularity / popularity.sum()
    parents = torch.from_numpy(
        np.stack([rng.choice(clusters, each, replace=False, p=chances) for _ in range(asked.rows)])
    )
    begins = asked.cluster * torch.arange(clusters + 1)
    torch.manual_seed(0)
    weights = torch.randn(clusters * asked.cluster, asked.dimension).to(device).requires_grad_()
    vectors = torch.randn(asked.rows, asked.dimension).to(device).requires_grad_()
    parents, begins = parents.to(device), begins.to(device)

    def step() -> tuple[torch.Tensor, torch.Tensor]:
        vectors.grad = weights.grad = None  # as an optimiser leaves them
        if form == "blocks":
            scores = block_scores(vectors, weights, None, begins, parents, asked.cluster)
        else:
            nodes = blocks_of(begins, parents, asked.cluster).nodes
            scores = torch.einsum("bd,bkld->bkl", vectors, weights[nodes])
        cross_entropy(scores, (scores.detach() > 2).float()).mean().backward()
        if device.type == "cuda":
            torch.cuda.synchronize()
        return scores.detach(), vectors.grad

    held = (memory("VmRSS") if device.type == "cpu" else torch.cuda.memory_allocated()) + 4 * weights.numel()
    best = best_of(step, asked.steps)
    peak = (memory("VmHWM") if device.type == "cpu" else torch.cuda.max_memory_allocated()) - held
    scores, gradient = best.result
    np.savez(
        out, scores=scores.cpu().numpy(), vectors=gradient.cpu().numpy(), weights=weights.grad[:5000].cpu().numpy()
    )
    return {"milliseconds": 1000 * best.seconds, "megabytes": peak / 1e6}


def main() -> None:
    parser = parser_for(__doc__)
    parser.add_argument("--labels", type=int, default=200_000)
    parser.add_argument("--cluster", type=int, default=100, help="labels of a cluster")
    parser.add_argument("--candidates", type=int, default=2_000, help="labels that an example scores")
    parser.add_argument("--rows", type=int, default=128, help="examples of a step")
    parser.add_argument("--dimension", type=int, default=384)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--form", choices=FORMS, help="measure one form, in this process")
    parser.add_argument("--out", type=Path, help="where --form writes what it computed")
    asked = parser.parse_args()
    if asked.form:
        print(json.dumps(measure(asked.form, asked, asked.out)))
        return
    with tempfile.TemporaryDirectory() as folder:
        found, results = {}, {}
        for form in FORMS:
            out = Path(folder) / f"{form}.npz"
            command = [sys.executable, *sys.argv, "--form", form, "--out", str(out)]
            found[form] = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
            results[form] = dict(np.load(out))
    lines = [[form, f"{found[form]['milliseconds']:.1f}", f"{found[form]['megabytes']:,.0f}"] for form in FORMS]
    ratio = [found["gathered"][name] / found["blocks"][name] for name in ("milliseconds", "megabytes")]
    lines.append(["gathered / blocks", f"{ratio[0]:.2f}", f"{ratio[1]:.2f}"])
    print(table(["form", "ms a step", "MB beyond weights and gradient"], lines))
    for name in ("scores", "vectors", "weights"):
        one, two = (results[form][name] for form in FORMS)
        print(f"largest difference of {name}: {np.abs(one - two).max():.1e} of {np.abs(one).max():.1e}")


if __name__ == "__main__":
    main()
