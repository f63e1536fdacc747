"""Claim: DEXA's shared vectors close the gap between a label's text and its documents where the labels of a cluster
have similar gaps, and classifiers close it by themselves.

    python benchmarks/gpu/dexa_gaps.py DATA "ngame(encoder='FOLDER')" [--rows N] [--kept gaps.jsonl]

Trains a recipe of `ngame` without and with `dexa`, each in its own process, and measures every stage. The gap of a
label is the mean direction of its documents minus the vector of its text. The paper's lemma needs similar gaps within a
cluster. Similarity is the mean product of the gaps of two labels over the mean square of a gap: 1 where all are the
same, 0 where they are unrelated. Prints it by label frequency, for two labels of one cluster and for any two; labels
with their own vector are listed apart. Then prints what each stage finds, as points of P@1 by frequency: texts alone,
texts moved by the shared vectors, classifiers initialised at either, and the whole of `ngame`, where the weights of
text and classifier are fitted on valid.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from shared.command import parser_for
from shared.splits import splits
from shared.tables import append_lines, cells, header, read_lines, row

BINS = 5


def train(data: str, options: argparse.Namespace, dexa: bool) -> dict[str, Any]:
    """One encoder and all that is built on it; runs in a process of its own."""
    import longtail
    from longtail.nn.dual.classifier_fit import learn_classifiers
    from longtail.nn.dual.contrastive_losses import softmax
    from longtail.nn.dual.dual_fit import DualEncoderFit
    from longtail.nn.dual.pair_batches import Curriculum
    from longtail.tail.dexa import Dexa

    learn, valid, test = splits(data, options.rows)
    own: Any = longtail.Recipe.parse(options.recipe).learner
    towers = DualEncoderFit.begin(own, learn, valid, (Dexa(),) if dexa else ())
    groups: Any = towers.tower or Dexa().label_tower(
        learn.labels, towers.text_vectors(), towers.label_means, own.seed
    )  # the same clusters in both
    clusters, head = groups.cluster.cpu().numpy(), groups.head
    loss = partial(softmax, temperature=own.temperature)
    curriculum = Curriculum(
        own.mining_start, own.min_cluster_size, own.max_cluster_size, refresh_every=own.refresh_every
    )
    towers.learn(partial(loss, both=own.symmetric), curriculum=curriculum)
    texts, moved, means = towers.text_vectors(), towers.label_vectors(), towers.label_means()
    documents = towers.scorer().encoder.vectors(test.texts or (), "test rows")
    how = {"batch_size": own.classifier_batch_size, "epochs": own.classifier_epochs,
           "learning_rate": own.classifier_learning_rate, "dropout": own.classifier_dropout}  # fmt: skip
    stages = {"texts": found(documents, texts, test)}
    if dexa:
        stages["texts moved"] = found(documents, moved, test)
    learned = learn_classifiers(towers, loss, **how)
    stages["classifiers" + " from texts moved" * dexa] = found(documents, learned, test)
    whole = towers.scorer(learned)
    stages["ngame"] = found(documents, whole.labels, test)
    weights = np.linalg.lstsq(np.stack([moved.ravel(), learned.ravel()], 1), whole.labels.ravel(), rcond=None)[0]
    table = gaps(texts, means, moved, learned, clusters, head, learn.labels)
    if dexa:
        towers.tower = None
        plain = learn_classifiers(towers, loss, **how)
        stages["classifiers from texts"] = found(documents, plain, test)
        nearness = np.einsum("ld,ld->l", plain, learned)
        for line, members in zip(table, members_of(learn.labels, head), strict=True):
            line["same classifier"] = mean(nearness[members])
    return {
        "data": Path(data).name, "recipe": options.recipe, "dexa": dexa, "gaps": table,
        "stages": stages, "weights of text and classifier": (weights / weights.sum()).tolist(),
    }  # fmt: skip


def members_of(labels: Any, head: Any) -> list[Any]:
    """Labels by frequency, as the measures have them; those with a vector of their own leave their bin."""
    from longtail.metrics.frequency import equi_volume_bins

    bins = equi_volume_bins(labels, BINS)
    return [head, *((bins == number) & ~head for number in range(BINS)), bins < 0]


def mean(values: Any) -> float | None:
    return float(values.mean()) if len(values) else None


def gaps(
    texts: Any, means: Any, moved: Any, learned: Any, clusters: Any, head: Any, labels: Any
) -> list[dict[str, Any]]:
    """Of each bin: the labels, the mean square of their gap, the similarity of gaps, and cosines."""
    gap = (means - texts).astype(np.float64)
    seen = (labels.counts > 0) & ~head
    size = np.sum(gap**2, axis=1)

    def with_others(group: Any) -> Any:
        """The product of each gap with the mean of the others of its group; 0 where there is no other."""
        sums = np.zeros((int(group.max()) + 1, gap.shape[1]))
        np.add.at(sums, group[seen], gap[seen])
        others = np.bincount(group[seen], minlength=len(sums))[group] - 1
        return np.where(others > 0, np.sum(gap * (sums[group] - gap), axis=1) / np.maximum(others, 1), 0)

    any_two, same_cluster = with_others(np.zeros(len(gap), dtype=np.int64)), with_others(clusters)
    lines = []
    for name, members in zip(["own vector", *map(str, range(1, BINS + 1)), "zero-shot"], members_of(labels, head),
                             strict=True):  # fmt: skip
        counts = labels.counts[members]
        line: dict[str, Any] = {"labels": name, "number": int(members.sum())}
        line["rows"] = f"{counts.min()} to {counts.max()}" if len(counts) else ""
        if len(counts) and counts.max() > 0:
            line["gap"] = mean(size[members])
            if not head[members].any():
                line["similar, any two"] = float(any_two[members].sum() / size[members].sum())
                line["similar, one cluster"] = float(same_cluster[members].sum() / size[members].sum())
            for kind, vectors in (("text", texts), ("moved", moved), ("classifier", learned)):
                line[f"{kind} to documents"] = mean(np.einsum("ld,ld->l", vectors, means)[members])
        line["classifier to its start"] = mean(np.einsum("ld,ld->l", learned, moved)[members])
        lines.append(line)
    return lines


def found(documents: Any, vectors: Any, test: Any) -> dict[str, Any]:
    """Measures of the nearest of these vectors."""
    from longtail.metrics import evaluate
    from longtail.nn.training.precision import best_device
    from longtail.predictions import Predictions
    from longtail.search.exact import top_k

    spare = 0 if test.excluded is None else int(np.diff(test.excluded.indptr).max(initial=0))
    near = top_k(documents, vectors, 5 + min(spare, 50), device=str(best_device()))
    measures = evaluate(Predictions(test.labels, *near), test, bins=BINS, bins_at=1)
    return {
        **{name: measures[name] for name in ("P@1", "P@5", "PSP@1", "PSP@5", "C@5")},
        "bins": [[each.name, each.contribution] for each in measures.bins],
    }


def show(lines: list[dict[str, Any]]) -> str:
    columns = ["similar, any two", "similar, one cluster", "text to documents", "moved to documents",
               "classifier to documents", "classifier to its start", "same classifier"]  # fmt: skip
    text = []
    for line in lines:
        name = f"{line['data']}, {line['recipe']}, {'with' if line['dexa'] else 'without'} dexa"
        text += ["", f"{name}; text and classifier weigh {line['weights of text and classifier']}", ""]
        text.append(header(["labels", "number", "rows", "gap", *columns]))
        for gap in line["gaps"]:
            text.append(row([gap["labels"], f"{gap['number']:,}", gap["rows"], *cells(gap, ["gap", *columns], 2)]))
    measures = ["P@1", "P@5", "PSP@1", "PSP@5", "C@5"]
    text += ["", header(["data", "dexa", "stage", *measures, "points of P@1 by frequency"], words=3)]
    for line in lines:
        for stage, values in line["stages"].items():
            bins = ", ".join(f"{value:.1f}" for _, value in values["bins"])
            text.append(row([line["data"], "yes" if line["dexa"] else "", stage, *cells(values, measures), bins]))
    return "\n".join(text)


def main() -> None:
    parser = parser_for(__doc__)
    parser.add_argument("data", help="folder of a data set")
    parser.add_argument("recipe", help="ngame with its settings")
    parser.add_argument("--rows", type=int, help="only the first rows of each split, to try the script")
    parser.add_argument("--kept", type=Path, default=Path("gaps.jsonl"), help="file of the results")
    parser.add_argument("--one", choices=("without", "with"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(train(options.data, options, options.one == "with")))
        return
    runs = [subprocess.Popen([sys.executable, *sys.argv, "--one", which], stdout=subprocess.PIPE, text=True)
            for which in ("without", "with")]  # fmt: skip
    for run in runs:
        output = run.communicate()[0]
        if run.returncode == 0:
            append_lines(options.kept, json.loads(output.splitlines()[-1]))
    print(show([line for line in read_lines(options.kept) if line["data"] == Path(options.data).name]))
    if any(run.returncode for run in runs):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
