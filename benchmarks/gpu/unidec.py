"""Claim: pools of some labels train a dual encoder and classifiers together as well as all labels do.

    python benchmarks/gpu/unidec.py --part encoders classifiers losses ablations unseen pools
        --data FOLDER [--encoder minilm] [--workers 2] [--out DIR] [--epochs 30] [--rows N] [--limit SECONDS]
        [--settings "positives=3"]
    python benchmarks/gpu/unidec.py --part B:classifiers A:losses B:encoders --data A B --epochs 30 10
    python benchmarks/gpu/unidec.py --part sweep --data FOLDER --try "depsl(negatives=2)" ...
    python benchmarks/gpu/unidec.py --part cost --data FOLDER --workers 1 --epochs 8

Parts: `encoders`: dpr, ance, ngame, depsl and dexml, or with `--own` only the last two. `classifiers`: ngame, renee and
unidec, or with `--own` only unidec. `losses`: pairs of losses, each evaluated by texts, by classifiers and by both,
from one training. `ablations`: without mined negatives, and from documents to labels only. `unseen`: the rarest labels
leave the training and join afterwards, with their classifier half empty or mapped. `pools`: labels of a pool and
positives of a row in it against beta and eta. `sweep`: the recipes of `--try`, trained with the first half of valid and
evaluated on the second, and other ways to score with what unidec has learned. `given`: the same recipes on test.
`seeds`: depsl and unidec with another seed. `cost`: seconds of an epoch, of renewing the pools and its parts, and peak
memory of depsl, unidec, dexml and renee, or of the recipes of `--try`, one at a time; after the first epoch, there must
be one that renews and one that does not (`refresh=2, epochs=3`), or none that renews.

A part runs on every data set, or on the one whose folder name stands before it. Parts start in the order given and
share one set of workers; a recipe in two parts is trained once. Each result is a line of a file in --out, and what is
stored there is not done again. Prints the tables at the end. How fast a step is: `unidec_speed.py`; P@1 against the
seconds of whole trainings: `unidec_time.py`.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from shared.command import parser_for
from shared.splits import splits
from shared.tables import MEASURES, append_lines, cells, header, read_lines, row
from shared.timing import Stages, gpu_peak, reset_gpu
from shared.workers import worker_pool

PAIRS = [("supcon", "supcon"), ("supcon", "supcon+bce"), ("decoupled", "bce"), ("decoupled", "decoupled+bce"),
         ("decoupled", "decoupled")]  # fmt: skip
LENGTHS = [(0.25, 0.5), (0.5, 0.5), (1.0, 0.5), (0.0, 0.7), (0.5, 0.7), (1.0, 0.6), (1.0, 0.7), (1.0, 0.8), (1.0, 0.9)]
BRIEF = {"texts": "texts", "classifiers of length 1": "classifiers", "both": "both",
         "classifiers, lengths": "classifiers, their lengths", "both, lengths": "both, lengths ^ 1.0",
         "both, lengths, share 0.7": "both, lengths ^ 1.0, share 0.7"}  # fmt: skip
RENEWAL = ("encoding documents", "clustering", "encoding labels", "mining")  # what pools are renewed by
Split = tuple[Any, Any, Any]  # train, valid, test


def jobs(part: str, data: str, epochs: int, options: argparse.Namespace) -> list[str]:
    """The recipes of a part."""
    shared = f'encoder="{options.encoder}", epochs={epochs}'
    own = f"{shared}, {options.settings}" if options.settings else shared
    if part == "encoders":
        plain = [f"dpr({shared})", f"ance({shared})", f"ngame({shared}, classifiers=false)"]
        return [*([] if options.own else plain), f"depsl({own})", f"dexml({shared})"]
    if part == "classifiers":
        return [*([] if options.own else [f"ngame({shared})", f"renee({shared})"]), f"unidec({own})"]
    if part == "losses":
        pairs = [f"unidec({own})"]
        return pairs + [f'unidec({own}, loss="{one}", classifier_loss="{other}")' for one, other in PAIRS[:-1]]
    if part == "ablations":
        found = []
        for more in ("", "negatives=0", "both=false"):
            kept = [item for item in own.split(", ") if not more or not item.startswith(more.split("=")[0] + "=")]
            found.append(", ".join([*kept, more] if more else kept))
        return [f"{name}({settings})" for name in ("depsl", "unidec") for settings in found]
    if part == "cost" and not options.tried:
        quiet = f"{shared}, measure_every=0"
        more = f"{quiet}, {options.settings}" if options.settings else quiet
        return [f"unidec({more})", f"renee({quiet})", f"depsl({more})", f"dexml({quiet})"]
    if part in ("sweep", "given", "cost"):
        brief = f'encoder="{options.encoder}"'
        return [
            recipe.replace("(", f"({brief if 'epochs=' in recipe else shared}, ", 1).replace(", )", ")")
            for name, _, recipe in (tried.rpartition(":") for tried in options.tried)
            if name in ("", Path(data).name)
        ]
    if part == "seeds":
        return [f"{name}({own}, seed=1)" for name in ("depsl", "unidec")]
    return [f"unidec({own})"]


def one(recipe: str, corpus: Split, once: bool = False) -> list[dict[str, Any]]:
    """Train one recipe and measure it on test, and on valid too, by which settings are chosen; unidec in many ways,
    unless once."""
    import longtail
    from longtail.learners.unidec import Unidec
    from longtail.memory import measure_peak
    from longtail.metrics import evaluate

    train, valid, test = corpus
    parsed = longtail.Recipe.parse(recipe)
    many = isinstance(parsed.learner, Unidec) and not once
    begun = time.perf_counter()
    with measure_peak() as peak:
        if many:
            towers = parsed.learner.learned(train, valid)
        else:
            model = parsed.fit(train, valid)
    spent = {"seconds": time.perf_counter() - begun, "gib": (gpu_peak() or peak.bytes) / 2**30}
    if many:
        found = [{"kind": kind, "by": how, **spent, **figures} for kind, rows in (("test", test), ("valid", valid))
                 for how, figures in ways(towers, rows).items()]  # fmt: skip
        return found
    found = []
    for kind, rows in (("test", test), ("valid", valid)):
        figures = evaluate(model.predict(rows.rows, 5, rows.excluded), rows)
        how = "its settings" if isinstance(parsed.learner, Unidec) else ""
        found.append({"kind": kind, "by": how, **spent, **measured(figures)})
    return found


def measured(figures: Any) -> dict[str, float]:
    """The measures of every table, and the points of P@5 that labels of each frequency bin bring."""
    return {name: figures[name] for name in MEASURES} | {f"bin {part.name}": part.contribution for part in figures.bins}


def ways(towers: Any, asked: Any) -> dict[str, dict[str, float]]:
    """By texts, by classifiers, by both; with classifiers as long as they were trained to be, alone and beside texts;
    and with more of the score from classifiers than the half."""
    import numpy as np
    import torch

    import longtail
    from longtail.metrics import evaluate
    from longtail.nn.encoders.encode import encode
    from longtail.nn.encoders.text_encoder import normalised
    from longtail.nn.encoders.tokens import tokenise
    from longtail.search.exact import top_k

    encoded = encode(towers.encoder, tokenise(asked.texts, towers.tokenizer, towers.longest))
    queries = [towers.heads.project(encoded, side) for side in ("encoder", "classifiers")]
    texts, rows = towers.label_vectors(), towers.table.rows()
    lengths = np.linalg.norm(rows, axis=1)
    by_class = normalised(rows)
    tried = {"both": ([0, 1], [texts, by_class]), "texts": ([0], [texts]), "classifiers": ([1], [by_class]),
             "classifiers, their lengths": ([1], [rows])}  # fmt: skip
    for power, share in LENGTHS:
        longer = normalised(rows) * (share / (1 - share) * (lengths / lengths.mean()) ** power)[:, None]
        how = f"both, lengths ^ {power}" + (f", share {share}" if share != 0.5 else "")
        tried[how] = ([0, 1], [texts, longer])
    found = {}
    for how, (sides, items) in tried.items():
        halves = [
            np.concatenate(some, axis=1).astype(np.float32) for some in ([queries[side] for side in sides], items)
        ]
        device = "cuda" if torch.cuda.is_available() else "cpu"
        figures = evaluate(longtail.Predictions(asked.labels, *top_k(*halves, 5, device=device)), asked)
        found[how] = measured(figures)
    return found


def unseen(recipe: str, corpus: Split) -> list[dict[str, Any]]:
    """A tenth of the labels leave the training with all their entries, and join afterwards by their texts."""
    import numpy as np
    from scipy import sparse

    import longtail
    from longtail.learners.unidec import Unidec
    from longtail.metrics import evaluate

    train, valid, test = corpus
    counts = train.labels.counts
    order = np.argsort(-counts, kind="stable")
    kept, left = np.sort(order[: len(order) - len(order) // 10]), np.sort(order[len(order) - len(order) // 10 :])
    labels = train.labels
    known = longtail.LabelSet(
        ids=tuple(labels.ids[row] for row in kept), texts=tuple(labels.texts[row] for row in kept)
    )

    def over(data: Any) -> Any:
        targets = sparse.csr_array(data.targets[:, kept])
        return replace(data, labels=known, targets=targets, excluded=None)

    first = over(train)
    first = first.over(known.counted(first.targets))
    learner = longtail.Recipe.parse(recipe).learner
    assert isinstance(learner, Unidec)
    towers = learner.learned(first, over(valid).over(first.labels))
    back = np.concatenate([kept, left])  # the label of each row of the larger model
    lines = []
    rare = sparse.csr_array(test.targets[:, left])
    some = np.flatnonzero(np.diff(rare.indptr))
    ways = {"zero": {"unseen": "zero"}, "mapped": {}, "none": {}}
    for lengths in (0.5, 1.0):
        towers.norm_power = lengths
        bare = towers.pool_scorer()
        for how, changed in ways.items():
            scorer = replace(bare, **changed)
            if how != "none":
                scorer = scorer.with_labels([labels.texts[row] for row in left], known.texts)
            found, scores = scorer.top(test.rows, 5)
            predictions = longtail.Predictions(labels, back[found].astype(np.int32), scores)
            whole = evaluate(predictions, test)
            hits = predictions.hits(test.targets) & np.isin(predictions.indices, left)
            recall = 100 * hits[some].sum() / max(int(np.diff(rare.indptr)[some].sum()), 1)
            line = {"by": f"{how}, lengths {lengths}", "recall@5 of new": recall}
            lines.append(line | measured(whole))
    return lines


def sweep(recipe: str, corpus: Split) -> list[dict[str, Any]]:
    """On valid, half to learn from and half to judge by."""
    import longtail
    from longtail.learners.unidec import Unidec
    from longtail.metrics import evaluate

    train, valid, _ = corpus
    learned, judge = valid.take(range(0, len(valid), 2)), valid.take(range(1, len(valid), 2))
    parsed = longtail.Recipe.parse(recipe)
    if isinstance(parsed.learner, Unidec):
        towers = parsed.learner.learned(train, learned)
        return [{"by": how, **figures} for how, figures in ways(towers, judge).items()]
    figures = evaluate(parsed.fit(train, learned).predict(judge.rows, 5, judge.excluded), judge)
    return [{"by": "", **measured(figures)}]


def cost(recipe: str, corpus: Split) -> list[dict[str, Any]]:
    """Of a training of few epochs: seconds of the fastest after the first, how much longer the slowest took, which is a
    renewal where there was one, of what the last renewal did, and the peak."""
    import longtail
    from longtail.nn.training.checkpoint import checkpointing
    from longtail.nn.training.history import History
    from longtail.progress import listening

    train, valid, _ = corpus
    stages = Stages(wait=True)
    with tempfile.TemporaryDirectory() as folder, checkpointing(folder, every_seconds=1e9), listening(stages):
        longtail.Recipe.parse(recipe).fit(train, valid.take([]))  # which nothing is measured on
        place = max(Path(folder).rglob("history.jsonl"))
        lines = History.read(place.parent).lines
    taken = [line["seconds"] for line in lines[1:] or lines]
    epoch, peak = min(taken), max(line["peak_bytes"] for line in lines) / 2**30
    found = {"seconds an epoch": epoch, "seconds of a renewal": max(taken) - epoch, "first epoch": lines[0]["seconds"]}
    seconds = stages.seconds
    found |= {name: seconds[name] for name in RENEWAL if name in seconds and "clustering" in seconds}
    return [{"by": "", "ms a step": 1000 * epoch / lines[0]["steps"], **found, "gib": peak}]


WORK: dict[str, Callable[[str, Split], list[dict[str, Any]]]] = {"unseen": unseen, "sweep": sweep, "cost": cost}
Job = tuple[str, str, str]  # folder, kind, recipe


def work(until: float, rows: int | None, once: bool, job: Job) -> tuple[Job, list[dict[str, Any]]]:
    """A run in a worker; no lines where no time is left to start one."""
    data, kind, recipe = job
    if time.monotonic() > until:
        return job, []
    reset_gpu()
    try:
        lines = WORK.get(kind, partial(one, once=once))(recipe, splits(data, rows))
    except Exception as error:  # one run that fails must not take the others with it
        lines = [{"error": f"{type(error).__name__}: {error}"[:500]}]
    return job, [{"kind": kind, **line, "recipe": recipe} for line in lines]


def trained(options: argparse.Namespace) -> str:
    """All jobs of all parts, several at a time; those that were done before are read back."""
    options.out.mkdir(parents=True, exist_ok=True)
    kept = {data: options.out / f"{Path(data).name}.jsonl" for data in options.data}
    lines = {data: read_lines(path) for data, path in kept.items()}
    epochs = [*options.epochs, *[options.epochs[-1]] * len(options.data)]
    wanted: dict[tuple[str, str], list[Job]] = {}
    for asked in options.part:
        name, _, part = asked.rpartition(":")
        for data, number in zip(options.data, epochs, strict=False):
            if name in ("", Path(data).name):
                kind = part if part in WORK else "test"
                if recipes := jobs(part, data, number, options):
                    wanted[Path(data).name, part] = [(data, kind, recipe) for recipe in recipes]
    done = {(data, line["kind"], line["recipe"]) for data in lines for line in lines[data] if "error" not in line}
    todo = [job for job in dict.fromkeys(job for some in wanted.values() for job in some) if job not in done]
    begun = time.monotonic()
    if todo and options.limit > 0:
        with worker_pool(options.workers, options.data, options.rows, [options.encoder]) as pool:
            run = partial(work, begun + options.limit, options.rows, options.once)
            print(f"{time.monotonic() - begun:.0f} s to read the data and tokenise the texts", flush=True)
            while options.after and not options.after.exists():
                time.sleep(0.1)
            for (data, kind, recipe), some in pool.imap_unordered(run, todo):
                append_lines(kept[data], *some)
                lines[data] += some
                result: Any = "no time was left"
                if some:
                    figures = {name: round(some[0][name], 2) for name in ("P@1", "seconds", "gib") if name in some[0]}
                    result = some[0].get("error") or figures
                named = recipe.replace(options.encoder, Path(options.encoder).name)
                print(f"{time.monotonic() - begun:.0f} s {Path(data).name} {kind} {named}: {result}", flush=True)
    return "\n\n".join(
        f"{name}, {part}\n\n{table(options, lines[some[0][0]], some)}" for (name, part), some in wanted.items()
    )


def table(options: argparse.Namespace, lines: list[dict[str, Any]], wanted: list[Job]) -> str:
    chosen = [line for _, *job in wanted for line in lines
              if [line["kind"], line["recipe"]] == job and "error" not in line]  # fmt: skip
    columns = [name for name in (chosen[0] if chosen else {}) if name not in ("kind", "recipe", "by")]
    out = [header(["recipe", "found by", *columns], words=2)]
    for line in chosen:
        recipe = line["recipe"].replace(options.encoder, Path(options.encoder).name)
        out.append(row([f"`{recipe}`", line["by"], *cells(line, columns, 2)]))
    return "\n".join([*out, *brief(options, lines, wanted)])


def brief(options: argparse.Namespace, lines: list[dict[str, Any]], wanted: list[Job]) -> list[str]:
    """P@1 / PSP@1 / C@5 of each training in a row, by texts, by classifiers and by both."""
    found = {
        (line["kind"], line["recipe"], line["by"] or "texts"): " / ".join(
            f"{line[name]:.1f}" for name in ("P@1", "PSP@1", "C@5")
        )
        for line in lines
        if line["kind"] in ("test", "valid") and "error" not in line
    }
    out = []
    for kind in ("test", "valid"):
        out += ["", header([kind, *BRIEF])]
        for _, asked, recipe in wanted:
            figures = [found.get((kind, recipe, by), "") for by in BRIEF.values()]
            if asked == "test" and any(figures):
                named = recipe.replace(options.encoder, Path(options.encoder).name)
                out.append(row([f"`{named}`", *figures]))
    return out if any("`" in line for line in out) else []


def pools(data: str, options: argparse.Namespace) -> str:
    """Of batches that are clusters, by the encoder as it is given: labels of a pool, and positives of a row."""
    import numpy as np
    import torch

    from longtail.learners.depsl import Depsl
    from longtail.nn.dual.balanced_clusters import balanced_clusters
    from longtail.nn.dual.pair_batches import clustered_order
    from longtail.nn.pool.label_sampler import LabelSampler
    from longtail.nn.pool.pool_fit import PoolFit

    train, valid, _ = splits(data, options.rows)
    towers = PoolFit.begin(Depsl(encoder=options.encoder), train, valid, ())
    some = np.flatnonzero(np.diff(train.targets.indptr))
    size = min(options.queries, len(some))
    near = balanced_clusters(
        towers.document_vectors()[some], size=min(options.cluster, len(some)), device=str(towers.device)
    )
    mined = towers.mine(30)
    columns = ["beta", "eta", "labels of a pool", "positives of a row", "all its labels", "ms a pool"]
    out = [header(columns, words=0)]
    rng = np.random.default_rng(0)
    order = clustered_order(some, near, rng)
    chosen = np.split(order, range(size, len(order), size))[:20]
    for positives in (1, 2, 3, 5):
        for negatives in (0, 1, 2, 6):
            picker = LabelSampler(train.targets, towers.device, positives, negatives)
            sizes, known, whole, times = [], [], [], []
            for rows in chosen:
                begun = time.perf_counter()
                batch = picker.batch(rows, mined, rng)
                dense = batch.targets()
                if towers.device.type == "cuda":
                    torch.cuda.synchronize()
                times.append(1000 * (time.perf_counter() - begun))
                sizes.append(len(batch.pool))
                known.append(float((dense > 0).sum()) / len(rows))
                whole.append(float(np.diff(train.targets.indptr)[rows].mean()))
            means = [f"{np.mean(sizes):.0f}", f"{np.mean(known):.2f}", f"{np.mean(whole):.2f}"]
            out.append(row([positives, negatives, *means, f"{np.median(times):.2f}"]))
    return "\n".join(out)


def main() -> None:
    parser = parser_for(__doc__)
    parts = ("encoders", "classifiers", "losses", "ablations", "unseen", "pools", "sweep", "given", "seeds", "cost")
    parser.add_argument("--part", nargs="+", required=True, help=f"[NAME:]PART, of {', '.join(parts)}")
    parser.add_argument("--data", nargs="+", required=True, help="folders of data sets")
    parser.add_argument("--encoder", default="minilm", help="name or folder")
    parser.add_argument("--epochs", type=int, nargs="+", default=[30], help="of each data set; the last: of the rest")
    parser.add_argument("--settings", default="", help="settings of depsl and unidec in every job")
    parser.add_argument(
        "--try", dest="tried", nargs="+", default=[], help="recipes of sweep, given and cost, each also as NAME:RECIPE"
    )
    parser.add_argument("--own", action="store_true", help="only depsl, unidec and dexml")
    parser.add_argument("--workers", type=int, default=2, help="trainings at a time")
    parser.add_argument("--rows", type=int, help="only the first rows of each split, to try the script")
    parser.add_argument("--limit", type=float, default=1e9, help="seconds after which no run starts; 0: only tables")
    parser.add_argument("--once", action="store_true", help="score unidec only as its settings say")
    parser.add_argument("--after", type=Path, help="the first run waits for this file")
    parser.add_argument("--out", type=Path, default=Path("unidec"), help="folder of the results")
    parser.add_argument("--queries", type=int, default=1024, help="rows of a batch, for pools")
    parser.add_argument("--cluster", type=int, default=64, help="rows of a cluster, for pools")
    options = parser.parse_args()
    known = {f"{name}{part}" for part in parts for name in ("", *(f"{Path(data).name}:" for data in options.data))}
    if unknown := set(options.part) - known:
        parser.error(f"no part {', '.join(sorted(unknown))}; parts are {', '.join(parts)}, each also as NAME:PART")
    shown = [part for part in options.part if part.rpartition(":")[2] == "pools"]
    options.part = [part for part in options.part if part not in shown]
    print(trained(options))
    for data in options.data:
        if {"pools", f"{Path(data).name}:pools"} & set(shown):
            print(f"{Path(data).name}, pools\n\n{pools(data, options)}")


if __name__ == "__main__":
    main()
