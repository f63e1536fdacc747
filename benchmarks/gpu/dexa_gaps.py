"""Claim: DEXA's shared vectors close the gap between a label's text and its documents where labels of a cluster have
like gaps, and classifiers close it by themselves.

    python benchmarks/gpu/dexa_gaps.py DATA "ngame(encoder='FOLDER')" [--rows N] [--kept gaps.jsonl]

Trains a recipe of `ngame` without and with `dexa`, each in a process of its own, and looks at every stage. The gap of
a label is the mean direction of its documents less its text's vector. The paper's lemma asks for like gaps inside a
cluster: how alike they are is the mean product of the gaps of two labels over the mean square of a gap, 1 where all are
the same and 0 where they have nothing in common, for labels of one cluster and for any two; by frequency, labels with a
vector of their own apart. Then what each stage finds, as points of P@1 by frequency: the texts alone, the texts moved
by the shared vectors, classifiers begun at the one and at the other, and the whole of `ngame`, where text and
classifier are weighed on valid.
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
from splits import splits

BINS = 5


def train(data: str, options: argparse.Namespace, dexa: bool) -> dict[str, Any]:
    """One encoder and all that is built on it; runs in a process of its own."""
    import longtail
    from longtail.nn.batches import Curriculum
    from longtail.nn.fit import Towers
    from longtail.nn.losses import softmax
    from longtail.tail.dexa import Dexa

    learn, valid, test = splits(data, options.rows)
    own: Any = longtail.Recipe.parse(options.recipe).learner
    towers = Towers.begin(own, learn, valid, (Dexa(),) if dexa else ())
    groups: Any = towers.tower or Dexa().label_tower(
        learn.labels, towers.text_vectors(), towers.label_means, own.seed
    )  # the same labels together in both
    clusters, head = groups.cluster.cpu().numpy(), groups.head
    loss = partial(softmax, temperature=own.temperature)
    curriculum = Curriculum(own.start, own.smallest, own.largest, refresh=own.refresh)
    towers.learn(partial(loss, both=own.both), curriculum=curriculum)
    texts, moved, means = towers.text_vectors(), towers.label_vectors(), towers.label_means()
    documents = towers.scorer().reader.vectors(test.texts or (), "test rows")
    how = {"batch": own.classifier_batch, "epochs": own.classifier_epochs, "rate": own.classifier_rate,
           "dropout": own.classifier_dropout}  # fmt: skip
    stages = {"texts": found(documents, texts, test)}
    if dexa:
        stages["texts moved"] = found(documents, moved, test)
    learned = towers.learn_classifiers(loss, **how)
    stages["classifiers" + " from texts moved" * dexa] = found(documents, learned, test)
    whole = towers.scorer(learned)
    stages["ngame"] = found(documents, whole.labels, test)
    weights = np.linalg.lstsq(np.stack([moved.ravel(), learned.ravel()], 1), whole.labels.ravel(), rcond=None)[0]
    table = gaps(texts, means, moved, learned, clusters, head, learn.labels)
    if dexa:
        towers.tower = None
        plain = towers.learn_classifiers(loss, **how)
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
    """Of each bin: the labels, the mean square of their gap, how alike gaps are, and cosines."""
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
                line["alike, any two"] = float(any_two[members].sum() / size[members].sum())
                line["alike, one cluster"] = float(same_cluster[members].sum() / size[members].sum())
            for told, vectors in (("text", texts), ("moved", moved), ("classifier", learned)):
                line[f"{told} to documents"] = mean(np.einsum("ld,ld->l", vectors, means)[members])
        line["classifier to its begin"] = mean(np.einsum("ld,ld->l", learned, moved)[members])
        lines.append(line)
    return lines


def found(documents: Any, vectors: Any, test: Any) -> dict[str, Any]:
    """What the nearest of these vectors are worth."""
    from longtail.metrics import evaluate
    from longtail.nn.precision import best_device
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
    columns = ["alike, any two", "alike, one cluster", "text to documents", "moved to documents",
               "classifier to documents", "classifier to its begin", "same classifier"]  # fmt: skip
    text = []
    for line in lines:
        name = f"{line['data']}, {line['recipe']}, {'with' if line['dexa'] else 'without'} dexa"
        text += ["", f"{name}; text and classifier weigh {line['weights of text and classifier']}", ""]
        text += [f"| labels | number | rows | gap | {' | '.join(columns)} |", "| --- |" + " --: |" * (len(columns) + 3)]
        for row in line["gaps"]:
            cells = ["" if row.get(key) is None else f"{row[key]:.2f}" for key in ("gap", *columns)]
            text.append(f"| {row['labels']} | {row['number']:,} | {row['rows']} | {' | '.join(cells)} |")
    text += [
        "",
        "| data | dexa | stage | P@1 | P@5 | PSP@1 | PSP@5 | C@5 | points of P@1 by frequency |",
        "| --- " * 9 + "|",
    ]
    for line in lines:
        for stage, values in line["stages"].items():
            cells = [f"{values[key]:.1f}" for key in ("P@1", "P@5", "PSP@1", "PSP@5", "C@5")]
            bins = ", ".join(f"{value:.1f}" for _, value in values["bins"])
            text.append(
                f"| {line['data']} | {'yes' if line['dexa'] else ''} | {stage} | {' | '.join(cells)} | {bins} |"
            )
    return "\n".join(text)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data")
    parser.add_argument("recipe")
    parser.add_argument("--rows", type=int)
    parser.add_argument("--kept", type=Path, default=Path("gaps.jsonl"))
    parser.add_argument("--one", choices=("without", "with"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(train(options.data, options, options.one == "with")))
        return
    runs = [subprocess.Popen([sys.executable, *sys.argv, "--one", which], stdout=subprocess.PIPE, text=True)
            for which in ("without", "with")]  # fmt: skip
    for run in runs:
        told = run.communicate()[0]
        if run.returncode == 0:
            with options.kept.open("a") as file:
                file.write(told.splitlines()[-1] + "\n")
    lines = [json.loads(line) for line in options.kept.read_text().splitlines()]
    print(show([line for line in lines if line["data"] == Path(options.data).name]))
    if any(run.returncode for run in runs):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
