"""Claim: how classifiers over pools are trained, and how much their norms count, decides between head and tail.

    python benchmarks/unidec_classifiers.py gutenberg --encoder FOLDER --checkpoint-dir DIR [--every 2]
        [--epochs 8] [--try "loss='decoupled', rate=0.003, lengths=true" ...] [--shares]

Trains only the classifier half of `unidec`, on a processor: the encoder is frozen, and the head and the classifiers
train over pools as `unidec` makes them (batches of 1,024 rows from clusters of 64, three positives and one mined label
a row). Takes every `--every`th training row. Prints a table of measures on the valid split: classifiers of norm 1, with
the square root of their norms, and with their norms. With `--shares` the head of the texts is trained too, labels are
scored by texts and classifiers, and the share of the classifiers grows. The vectors of the texts take longest to make;
`--checkpoint-dir` stores them.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np

from shared.command import parser_for
from shared.tables import cells, header, row

WAYS = ["loss='decoupled+bce', rate=0.001, lengths=true", "loss='decoupled+bce', rate=0.003, lengths=true",
        "loss='decoupled+bce', rate=0.003, lengths=false", "loss='decoupled', rate=0.003, lengths=true",
        "loss='decoupled', rate=0.003, lengths=false"]  # fmt: skip
SHARES = (0.0, 0.3, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
SCALE, HEAD_RATE, BATCH, CLUSTER, MINED = 20.0, 2e-3, 1024, 64, 5


def vectors(options: argparse.Namespace, corpus: Any, rows: Any) -> list[Any]:
    """Of training rows, valid rows and labels, normalised."""
    from longtail.nn.encoders.build import load_encoder
    from longtail.nn.encoders.encode import encode
    from longtail.nn.encoders.text_encoder import normalised
    from longtail.nn.encoders.tokens import tokenise

    options.checkpoint_dir.mkdir(parents=True, exist_ok=True)
    encoder, tokenizer = load_encoder(options.encoder)
    found = []
    texts = {f"train{options.every}": rows.texts, "valid": corpus.valid.texts, "labels": corpus.labels.texts}
    for name, some in texts.items():
        path = options.checkpoint_dir / f"{name}.npy"
        if not path.exists():
            np.save(path, normalised(encode(encoder, tokenise(some, tokenizer, 64))))
        found.append(np.load(path))
    return found


def wrong_ones(documents: Any, labels: Any, targets: Any) -> Any:
    """The nearest labels of each row that it does not have, -1 = none."""
    from longtail.search.exact import top_k

    found = top_k(documents, labels, 4 * MINED)[0].astype(np.int64)
    keys = np.arange(len(documents))[:, None] * np.int64(len(labels)) + found
    own = np.repeat(np.arange(len(documents)), np.diff(targets.indptr)) * np.int64(len(labels)) + targets.indices
    found[np.isin(keys, own)] = -1
    return found


def learned(
    way: dict[str, Any], epochs: int, documents: Any, labels: Any, targets: Any, clusters: Any, mined: Any, texts: bool
) -> Any:
    """The heads and the classifiers after some epochs; the head of texts is trained only with `texts`."""
    import torch
    from torch.nn.functional import normalize

    from longtail.nn.dual.pair_batches import clustered_order
    from longtail.nn.pool.classifier_table import ClassifierTable
    from longtail.nn.pool.label_sampler import LabelSampler
    from longtail.nn.pool.pool_losses import level_of, loss_of
    from longtail.nn.pool.projection_heads import Heads
    from longtail.nn.training.loop import TrainingConfig

    torch.manual_seed(0)
    here = torch.device("cpu")
    heads, table = Heads(documents.shape[1], 0.1), ClassifierTable(labels, here)
    level = level_of(torch.from_numpy(SCALE * documents[:512] @ labels[:8192].T))
    loss, read = loss_of(way["loss"], 0.5, level), torch.from_numpy(documents)
    by_texts, items = loss_of("decoupled"), torch.from_numpy(labels)
    rule = torch.optim.AdamW(heads.parameters(), lr=HEAD_RATE)
    rows = np.flatnonzero(np.diff(targets.indptr))
    picker, course = LabelSampler(targets, here, 3, 1), TrainingConfig(epochs, warmup=0, schedule="cosine")
    steps, step = epochs * -(-len(rows) // BATCH), 0
    for epoch in range(epochs):
        order = clustered_order(rows, clusters, np.random.default_rng([0, epoch]))
        for batch in picker.batches(order, BATCH, 0, mined, (0, epoch)):
            own = table.take(batch.pool_tensor)
            asked, used = heads.classifier_side(read[batch.rows]), own
            if not way["lengths"]:
                asked, used = normalize(asked, dim=1), normalize(own, dim=1)
            rule.zero_grad()
            total = loss((asked * SCALE) @ used.T, batch.targets())
            if texts:
                rows_side, items_side = (heads.encoder_side(side) for side in (read[batch.rows], items[batch.pool]))
                total = total + by_texts((rows_side * SCALE) @ items_side.T, batch.targets())
            total.backward()
            factor, step = course.learning_rate_factor(step, steps), step + 1
            rule.param_groups[0]["lr"] = HEAD_RATE * factor
            rule.step()
            assert own.grad is not None
            table.update(batch.pool_tensor, own.grad, way["rate"] * factor)
    return heads, table


def main() -> None:
    parser = parser_for(__doc__)
    parser.add_argument("data", help="name or folder of a data set")
    parser.add_argument("--encoder", required=True, help="name or folder")
    parser.add_argument("--checkpoint-dir", type=Path, required=True, help="folder for the vectors of the texts")
    parser.add_argument("--every", type=int, default=2, help="take every so many training rows")
    parser.add_argument("--epochs", type=int, default=8, help="of each training")
    parser.add_argument("--try", dest="tried", nargs="+", default=WAYS, help="settings of a training")
    parser.add_argument("--shares", action="store_true", help="score by texts and classifiers, with a growing share")
    options = parser.parse_args()

    import longtail
    from longtail.grammar import parse
    from longtail.metrics import evaluate
    from longtail.nn.dual.balanced_clusters import balanced_clusters
    from longtail.nn.pool.pool_scorer import join_halves, side_by_side, with_norm_power
    from longtail.search.exact import top_k

    corpus = longtail.load(options.data)
    rows = corpus.train.take(range(0, len(corpus.train), options.every))
    documents, valid, labels = vectors(options, corpus, rows)
    some = np.flatnonzero(np.diff(rows.targets.indptr))
    clusters = balanced_clusters(documents[some], size=CLUSTER)
    mined = wrong_ones(documents, labels, rows.targets)
    names = ("P@1", "P@5", "PSP@1", "PSP@5", "C@5")
    counts = "share" if options.shares else "lengths"
    print(header(["loss", "rate", "trained by", counts, *names], words=3))
    for text in options.tried:
        way = {setting.name: setting.value for setting in parse(f"way({text})")[0].settings}
        heads, table = learned(way, options.epochs, documents, labels, rows.targets, clusters, mined, options.shares)
        asked, own = heads.project(valid, "classifiers"), table.rows()
        tried = {power: (asked, with_norm_power(own, power)) for power in (0, 0.5, 1)}
        if options.shares:
            both, texts = side_by_side([heads.project(valid, "encoder"), asked]), heads.project(labels, "encoder")
            tried = {share: (both, join_halves(texts, with_norm_power(own, 1), share)) for share in SHARES}
        for part, (queries, items) in tried.items():
            found = evaluate(longtail.Predictions(corpus.labels, *top_k(queries, items, 5)), corpus.valid)
            by = "products" if way["lengths"] else "cosines"
            print(row([way["loss"], way["rate"], by, part, *cells(found, names)]), flush=True)


if __name__ == "__main__":
    main()
