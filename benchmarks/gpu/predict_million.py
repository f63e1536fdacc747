"""Claim: nets over a label tree predict 10,000 titles over 1.3 million labels in at most two seconds on one GPU.

    python benchmarks/gpu/predict_million.py DATA --encoder FOLDER [--labels 1300000] [--rows 10000]

Classifiers are random, as large as trained ones: speed does not depend on what they say. Texts are those of the
training split, as often as it takes. Each net predicts once before the clock starts, and then three times; a table
tells the seconds of the best, texts to labels, and those of the search alone.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from shared.command import parser_for
from shared.splits import splits
from shared.tables import table
from shared.timing import best_of, gpu_peak, reset_gpu

LEAF, BRANCHES = 100, 8  # labels of a cluster, and clusters of one above
LINKS = 1000  # of a cluster of the graph


def scorers(encoder: Any, width: int, labels: int) -> dict[str, Any]:
    """Models of each kind with random classifiers, made when they are asked for."""
    from longtail.linear.solvers.platt_scaling import PlattScaling
    from longtail.nn.label_tree.graph_scorer import GraphScorer
    from longtail.nn.label_tree.label_levels import LabelLevels
    from longtail.nn.label_tree.tree_scorer import TreeNetScorer

    rng, same = np.random.default_rng(0), PlattScaling(1.0, 0.0)
    clusters = labels // LEAF

    def drawn(*shape: int) -> Any:
        return (rng.standard_normal(shape, dtype=np.float32) / 10).astype(np.float32)

    def tree() -> Any:
        upper = np.append(np.arange(0, clusters, BRANCHES), clusters).astype(np.int64)
        lower = np.linspace(0, labels, clusters + 1).astype(np.int64)
        levels = LabelLevels(rng.permutation(labels).astype(np.int32), (upper, lower))
        sizes = [levels.nodes(level) for level in range(3)]
        weights = {f"weights.{level}": drawn(size, width) for level, size in enumerate(sizes)}
        weights |= {f"bias.{level}": drawn(size) for level, size in enumerate(sizes)}
        feature = {"first": 0, "last": width, "mapped": None, "biased": True}
        return TreeNetScorer(encoder, levels, weights, (feature,) * 3, 64, True, same)

    def graph() -> Any:
        members = np.sort(rng.integers(0, labels, (clusters, LINKS)), axis=1).astype(np.int32)
        logs = -np.abs(drawn(clusters, LINKS))
        return GraphScorer(
            encoder, members, logs, drawn(clusters, width), drawn(labels, width), drawn(labels), 10.0, 20, 2000, same
        )

    return {"cascadexml, 64 clusters": tree, "elias, 2,000 labels": graph}


def measured(make: Callable[[], Any], rows: Any, vectors: Any) -> list[str]:
    """Seconds from texts to labels, seconds of the search, and GiB on the GPU."""
    reset_gpu()
    scorer = make()
    scorer.top(rows, 5)
    whole, search = best_of(partial(scorer.top, rows, 5)), best_of(partial(scorer.nearest, vectors, 5))
    return [f"{whole.seconds:.2f}", f"{search.seconds:.2f}", f"{gpu_peak() / 2**30:.1f}"]


def main() -> None:
    parser = parser_for(__doc__)
    parser.add_argument("data", help="folder of a data set")
    parser.add_argument("--encoder", required=True, help="folder")
    parser.add_argument("--labels", type=int, default=1_300_000)
    parser.add_argument("--rows", type=int, default=10_000)
    options = parser.parse_args()

    from longtail.data.dataset import Rows
    from longtail.nn.encoders.build import load_encoder
    from longtail.nn.encoders.text_encoder import TextEncoder
    from longtail.nn.training.precision import best_device

    texts = splits(options.data, None)[0].texts
    some = tuple((texts * (1 + options.rows // len(texts)))[: options.rows])
    rows = Rows(texts=some)
    built, tokenizer = load_encoder(options.encoder, None, texts=some, dropout=None, seed=0)
    encoder = TextEncoder.of(built.to(best_device()), tokenizer, 64)
    vectors = encoder.unnormalised(some)
    reading = best_of(lambda: encoder.unnormalised(some))
    lines = [["the encoder alone", f"{reading.seconds:.2f}", "", f"{gpu_peak() / 2**30:.1f}"]]
    for name, make in scorers(encoder, vectors.shape[1], options.labels).items():
        lines.append([name, *measured(make, rows, vectors)])
        print(lines[-1], flush=True)
    print(table(["net", "s", "s of the search", "GiB"], lines))


if __name__ == "__main__":
    main()
