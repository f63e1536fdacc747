"""Build a data set like a shop's: titles of products, and as labels the products that are bought with them.

    python benchmarks/products.py FOLDER [--rows 30000] [--words 7] [--labels 5] [--seed 0]

Products come in many small groups, twelve in the mean and of very different sizes. A title has words of its group, of
its department and of its brand, model names of its own, and words from anywhere. Its labels are popular products of its
own group, so labels have few examples, and those of a group share the words that tell it from other groups. The same
seed makes the same data. Writes train, valid and test (80, 6 and 14%) as JSON lines.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np

from longtail.arrays import Doubles, Longs
from shared.command import parser_for

GROUP, DEPARTMENT, BRAND, OWN = 4000, 5500, 7500, 30000  # where each kind of word ends
SHARES = np.cumsum([0.35, 0.15, 0.12, 0.13])  # of a title: words of the group, department, brand, model; then any


def zipf(number: int, power: float) -> Doubles:
    weights: Doubles = (np.arange(number) + 2.0) ** -power
    return weights / weights.sum()


def titles_and_labels(rows: int, words: float, labels: float, seed: int) -> tuple[list[str], list[Longs], int]:
    """Titles, labels of each, and the number of products."""
    rng = np.random.default_rng(seed)
    products = rows * 2 // 3
    groups = products // 12
    size = rng.lognormal(0, 1.0, groups)
    group = np.sort(rng.choice(groups, products, p=size / size.sum()))
    department = rng.choice(40, groups, p=zipf(40, 0.8))
    popularity = rng.pareto(1.1, products) + 0.3
    kinds = (
        rng.integers(0, GROUP, (groups, 6)),
        rng.integers(GROUP, DEPARTMENT, (40, 60))[department],
        DEPARTMENT + rng.choice(BRAND - DEPARTMENT, (groups, 3), p=zipf(BRAND - DEPARTMENT, 0.9)),
    )
    models, anywhere = rng.integers(BRAND, OWN, (products, 4)), zipf(OWN - BRAND, 0.9)
    first, last = (np.searchsorted(group, np.arange(groups), side=side) for side in ("left", "right"))
    texts, targets = [], []
    for product in np.concatenate([rng.permutation(products), rng.choice(products, rows - products)]).tolist():
        own, number = group[product], max(3, int(rng.poisson(words)))
        kind = np.searchsorted(SHARES, rng.random(number), side="right")
        title = BRAND + rng.choice(OWN - BRAND, number, p=anywhere)
        for place, chosen in enumerate((*(one[own] for one in kinds), models[product])):
            here = kind == place
            title[here] = rng.choice(chosen, int(here.sum()))
        texts.append(" ".join(f"w{word}" for word in title))
        near = np.arange(first[own], last[own])
        likely = popularity[near] * np.exp(-np.abs(near - product) / 4.0)
        wanted = min(1 + int(rng.poisson(max(labels - 1, 0))), len(near))
        found = np.unique(rng.choice(near, wanted, replace=False, p=likely / likely.sum()))
        targets.append(found[found != product] if len(found) > 1 else found)
    return texts, targets, products


def main() -> None:
    parser = parser_for(__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rows", type=int, default=30_000)
    parser.add_argument("--words", type=float, default=7.0, help="of a title, in the mean")
    parser.add_argument("--labels", type=float, default=5.0, help="of a title, in the mean")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    texts, targets, products = titles_and_labels(options.rows, options.words, options.labels, options.seed)
    order = np.random.default_rng(options.seed).permutation(len(texts))
    cuts = np.split(order, [int(0.8 * len(order)), int(0.86 * len(order))])
    options.folder.mkdir(parents=True, exist_ok=True)
    with gzip.open(options.folder / "labels.jsonl.gz", "wt") as file:
        for product in range(products):
            file.write(json.dumps({"id": f"p{product}", "text": f"product {product}"}) + "\n")
    for name, part in zip(("train", "valid", "test"), cuts, strict=True):
        with gzip.open(options.folder / f"{name}.jsonl.gz", "wt") as file:
            for row in part.tolist():
                line = {"id": str(row), "text": texts[row], "labels": [f"p{label}" for label in targets[row]]}
                file.write(json.dumps(line) + "\n")
    each = sum(map(len, targets)) / len(targets)
    print(f"{len(texts):,} titles, {products:,} products, {each:.1f} labels a title, in {options.folder}")


if __name__ == "__main__":
    main()
