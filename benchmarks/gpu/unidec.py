"""Claim: pools of some labels teach a dual encoder and classifiers together as well as all labels do, at a step whose
cost does not depend on how many labels there are.

    PYTHONPATH=src python benchmarks/gpu/unidec.py --part encoders|classifiers|losses|ablations|unseen
        --data FOLDER [--encoder minilm] [--workers 2] [--out DIR] [--epochs 30] [--rows N] [--limit SECONDS]
        [--settings "batch=1024, positives=3"]
    PYTHONPATH=src python benchmarks/gpu/unidec.py --part pools --data FOLDER
    PYTHONPATH=src python benchmarks/gpu/unidec.py --part speed [--labels 10000 100000 1000000 10000000]

`encoders`: dpr, ance, ngame, depsl and dexml. `classifiers`: ngame, renee and unidec, with peak memory and time, which
compare only with `--workers 1`. `losses`: pairs of losses, each found by texts, by classifiers and by both, of one
training. `ablations`: without mined negatives, and from documents to labels alone. `unseen`: the rarest labels leave
the training and join afterwards, with the classifier half empty or mapped. `pools`: labels of a pool and positives of a
row in it against beta and eta. `speed`: one step of 1,024 queries and a pool of 3,000, against the device's own bf16
product, with the table on the device and on the host. Results are kept line by line under --out, and what stands there
is not done again. A table comes last.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

MEASURES = [f"{name}@{k}" for name in ("P", "PSP") for k in (1, 3, 5)]
PAIRS = [("supcon", "supcon"), ("supcon", "supcon+bce"), ("decoupled", "bce"), ("decoupled", "decoupled"),
         ("decoupled", "decoupled+bce")]  # fmt: skip
_corpus: Any = None


def jobs(options: argparse.Namespace) -> list[str]:
    """The recipes of a part."""
    shared = f'encoder="{options.encoder}", epochs={options.epochs}'
    own = f"{shared}, {options.settings}" if options.settings else shared
    if options.part == "encoders":
        plain = [f"dpr({shared})", f"ance({shared})", f"ngame({shared}, classifiers=false)"]
        return [*plain, f"depsl({own})", f"dexml({shared})"]
    if options.part == "classifiers":
        return [f"ngame({shared})", f"renee({shared})", f"unidec({own})"]
    if options.part == "losses":
        return [f'unidec({own}, loss="{one}", classifier_loss="{other}")' for one, other in PAIRS]
    if options.part == "ablations":
        found = []
        for more in ("", "negatives=0", "both=false"):
            kept = [part for part in own.split(", ") if not more or not part.startswith(more.split("=")[0] + "=")]
            found.append(", ".join([*kept, more] if more else kept))
        return [f"{name}({settings})" for name in ("depsl", "unidec") for settings in found]
    return [f"unidec({own})"]


def begin(data: str, rows: int | None, threads: int) -> None:
    """Read the data once in each worker."""
    os.environ["LONGTAIL_THREADS"] = str(threads)
    import torch

    import longtail

    torch.set_num_threads(threads)
    global _corpus
    corpus = longtail.load(data)
    parts = (corpus.train, corpus.valid, corpus.test)
    _corpus = [part if rows is None else part.take(range(min(rows, len(part)))) for part in parts]


def one(recipe: str, part: str) -> list[dict[str, Any]]:
    """Train one recipe and measure it: one line, or one for each way to ask it."""
    import torch

    import longtail
    from longtail.memory import measure_peak
    from longtail.metrics import evaluate

    train, valid, test = _corpus
    if part == "unseen":
        return unseen(recipe)
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    begun = time.perf_counter()
    try:
        with measure_peak() as peak:
            model = longtail.Recipe.parse(recipe).fit(train, valid)
    except Exception as error:
        return [{"recipe": recipe, "error": f"{type(error).__name__}: {error}"[:500]}]
    gpu = torch.cuda.max_memory_allocated() if torch.cuda.is_available() else 0
    cost = {"seconds": time.perf_counter() - begun, "gib": (gpu or peak.bytes) / 2**30}
    models = {"": model}
    if recipe.startswith("unidec"):
        scorer = model.scorer
        models = {
            "both": model,
            "texts": replace(model, scorer=replace(scorer, classifiers=None)),
            "classifiers": replace(model, scorer=replace(scorer, texts=None)),
        }
    lines = []
    for how, each in models.items():
        found = evaluate(each.predict(test.rows, 5, test.excluded), test)
        lines.append({"recipe": recipe, "by": how, **cost, **{name: found[name] for name in MEASURES}})
    return lines


def unseen(recipe: str) -> list[dict[str, Any]]:
    """A tenth of the labels leave the training with all their entries, and join afterwards by their texts."""
    import numpy as np
    from scipy import sparse

    import longtail
    from longtail.metrics import evaluate

    train, valid, test = _corpus
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
    model = longtail.Recipe.parse(recipe).fit(first, over(valid).over(first.labels))
    back = np.concatenate([kept, left])  # the label of each row of the larger model
    lines = []
    for how in ("zero", "mapped"):
        scorer = replace(model.scorer, unseen=how)
        scorer = scorer.with_labels([labels.texts[row] for row in left], known.texts)
        found, scores = scorer.top(test.rows, 5)
        predictions = longtail.Predictions(labels, back[found].astype(np.int32), scores)
        whole = evaluate(predictions, test)
        rare = sparse.csr_array(test.targets[:, left])
        some = np.flatnonzero(np.diff(rare.indptr))
        hits = predictions.hits(test.targets) & np.isin(predictions.indices, left)
        recall = 100 * hits[some].sum() / max(int(np.diff(rare.indptr)[some].sum()), 1)
        lines.append(
            {"recipe": recipe, "by": how, "recall@5 of new": recall, **{name: whole[name] for name in MEASURES}}
        )
    return lines


def _work(job: tuple[str, str]) -> list[dict[str, Any]]:
    return one(*job)


def trained(options: argparse.Namespace) -> str:
    """All jobs of a part, several at a time; those that were done before are read back."""
    options.out.mkdir(parents=True, exist_ok=True)
    kept = options.out / f"{options.part}.jsonl"
    lines = [json.loads(line) for line in kept.read_text().splitlines()] if kept.exists() else []
    done = {line["recipe"] for line in lines if "error" not in line}
    todo = [recipe for recipe in jobs(options) if recipe not in done]
    threads, begun = max((os.cpu_count() or 2) // options.workers, 1), time.monotonic()
    context = multiprocessing.get_context("spawn")
    with context.Pool(options.workers, begin, (options.data, options.rows, threads)) as pool:
        found = pool.imap_unordered(_work, ((recipe, options.part) for recipe in todo))
        for number in range(len(todo)):
            try:
                some = found.next(timeout=max(options.limit - (time.monotonic() - begun), 0.1))
            except multiprocessing.TimeoutError:
                print(f"{len(todo) - number} of {len(todo)} jobs left when time was up", flush=True)
                break
            with kept.open("a") as file:
                file.writelines(json.dumps(line) + "\n" for line in some)
            lines += some
            print(f"{some[0]['recipe']}: {some[0].get('error') or round(some[0]['P@1'], 2)}", flush=True)
    wanted = jobs(options)
    lines = [line for line in lines if "error" not in line and line["recipe"] in wanted]
    lines.sort(key=lambda line: wanted.index(line["recipe"]))
    columns = [*MEASURES, *(name for name in ("recall@5 of new", "seconds", "gib") if lines and name in lines[0])]
    out = [f"| recipe | found by | {' | '.join(columns)} |", "| --- | --- |" + " --: |" * len(columns)]
    for line in lines:
        cells = " | ".join(f"{line[name]:.2f}" for name in columns)
        out.append(
            f"| `{line['recipe'].replace(options.encoder, Path(options.encoder).name)}` | {line['by']} | {cells} |"
        )
    return "\n".join(out)


def pools(options: argparse.Namespace) -> str:
    """Of batches that are clusters, by the encoder as it is given: labels of a pool, and positives of a row."""
    import numpy as np
    import torch

    from longtail.learners.depsl import Depsl
    from longtail.nn.clusters import balanced_clusters
    from longtail.nn.pool.fit import PoolTowers
    from longtail.nn.pool.picks import Picker

    begin(options.data, options.rows, os.cpu_count() or 2)
    train, valid, _ = _corpus
    towers = PoolTowers.begin(Depsl(encoder=options.encoder), train, valid, ())
    some = np.flatnonzero(np.diff(train.targets.indptr))
    size = min(options.queries, len(some))
    clusters = balanced_clusters(towers.document_vectors()[some], size=size, device=str(towers.device))
    mined = towers.mine(30)
    out = ["| beta | eta | labels of a pool | positives of a row | all its labels | ms a pool |", "|" + " --: |" * 6]
    chance = np.random.default_rng(0)
    chosen = chance.permutation(int(clusters.max()) + 1)[:20]
    for positives in (1, 2, 3, 5):
        for negatives in (0, 1, 3, 6):
            picker = Picker(train.targets, towers.device, positives, negatives)
            sizes, known, whole, times = [], [], [], []
            for number in chosen:
                rows = some[clusters == number]
                begun = time.perf_counter()
                batch = picker.batch(rows, mined, chance)
                dense = batch.targets()
                if towers.device.type == "cuda":
                    torch.cuda.synchronize()
                times.append(1000 * (time.perf_counter() - begun))
                sizes.append(len(batch.pool))
                known.append(float((dense > 0).sum()) / len(rows))
                whole.append(float(np.diff(train.targets.indptr)[rows].mean()))
            out.append(
                f"| {positives} | {negatives} | {np.mean(sizes):.0f} | {np.mean(known):.2f} | {np.mean(whole):.2f} | "
                f"{np.median(times):.2f} |"
            )
    return "\n".join(out)


def speed(options: argparse.Namespace) -> str:
    """Steps of made-up texts of 16 tokens; the encoder has all-MiniLM-L6-v2's shape and random weights."""
    import numpy as np
    import torch
    from scipy import sparse

    from longtail.nn.encoders import build_encoder
    from longtail.nn.heads.task import TextReading
    from longtail.nn.pool.heads import Heads
    from longtail.nn.pool.losses import loss_of
    from longtail.nn.pool.picks import Picker
    from longtail.nn.pool.table import ClassifierTable
    from longtail.nn.pool.task import Classifying, PoolTask
    from longtail.nn.precision import best_device
    from longtail.nn.resident import ResidentTokens
    from longtail.nn.tokens import Tokens
    from longtail.nn.transformer import Shape

    device = best_device()
    fast = device.type == "cuda"
    width, layers = (384, 6) if fast else (64, 2)
    ceiling = product_speed(device)
    shape = Shape(30522, width, layers, heads=12 if fast else 2, inner=4 * width, places=64)
    chance = np.random.default_rng(0)
    out = [
        "| labels | table | pool | ms a step | of the bf16 product | peak GiB | table GiB |",
        "| --: | --- |" + " --: |" * 5,
    ]

    def texts(number: int, names: int) -> Any:
        """`number` texts over few distinct runs of tokens, so that ten million of them fit."""
        ids = chance.integers(1000, 30000, 16 * number if number < 2_000_000 else 16 * names).astype(np.int32)
        ids = np.resize(ids, 16 * number)
        return Tokens(ids=ids, offsets=np.arange(number + 1, dtype=np.int64) * 16, pad=0)

    for labels in options.labels:
        for on_host in (False, True) if fast else (False,):
            encoder = build_encoder({"kind": "transformer", **asdict(shape)}).to(device)
            rows = options.queries * 4
            pool = min(options.pool, labels)
            # Rows of few labels each, drawn evenly, so that the pool of a batch is about as large as asked.
            each = max(round(pool / options.queries), 1)
            indices = np.concatenate([np.sort(chance.choice(labels, each, replace=False)) if labels < 100_000 else
                                      np.sort(chance.integers(0, labels, each)) for _ in range(rows)])  # fmt: skip
            targets = sparse.csr_array(
                (np.ones(len(indices), np.float32), indices, np.arange(rows + 1) * each), (rows, labels)
            )
            targets.sum_duplicates()
            targets.data[:] = 1
            home = torch.device("cpu") if on_host else device
            begin_at = np.zeros((labels, width), dtype=np.float32)
            if fast:
                torch.cuda.reset_peak_memory_stats()
            table = ClassifierTable(begin_at, device, home, "bf16" if labels > 5_000_000 else "fp32")
            task = PoolTask(
                encoder=encoder,
                documents=TextReading(encoder, ResidentTokens(texts(rows, rows), device, 16)),
                labels=TextReading(encoder, ResidentTokens(texts(labels, 1_000_000), device, 16)),
                picker=Picker(targets, device, None),
                loss=loss_of("decoupled"),
                temperature=0.05,
                batch=options.queries,
                rate=1e-4,
                device=device,
                heads=Heads(width).to(device),
                head_rate=2e-4,
                classifying=Classifying(table, loss_of("decoupled+bce"), 20.0, 1e-3, 0.5),
            )
            optimiser = torch.optim.AdamW(task.groups(), fused=True)
            sizes, times = [], []
            for epoch in range(options.rounds):
                for batch in task.batches(epoch, 0):
                    begun = time.perf_counter()
                    optimiser.zero_grad(set_to_none=True)
                    task.backward(batch, 1.0)
                    optimiser.step()
                    if fast:
                        torch.cuda.synchronize()
                    times.append(time.perf_counter() - begun)
                    sizes.append(len(batch.pool))
            seconds = float(np.median(times[len(times) // 2 :]))
            tokens = 16 * (options.queries + float(np.mean(sizes)))
            work = 6 * tokens * 12 * layers * width**2 + 12 * options.queries * float(np.mean(sizes)) * width
            peak = torch.cuda.max_memory_allocated() / 2**30 if fast else float("nan")
            held = table.weight.nbytes / 2**30
            out.append(
                f"| {labels:,} | {'host' if on_host else 'device'} {table.weight.dtype} | {np.mean(sizes):.0f} | "
                f"{1000 * seconds:.2f} | {100 * work / seconds / ceiling:.1f}% | {peak:.2f} | {held:.2f} |"
            )
            print(out[-1], flush=True)
            del table, task, optimiser, encoder
    return "\n".join(out)


def product_speed(device: Any) -> float:
    """Operations a second of a large bf16 product there."""
    import torch

    size = 8192 if device.type == "cuda" else 512
    one = torch.randn(size, size, device=device, dtype=torch.bfloat16)
    best = float("inf")
    for _ in range(10):
        begun = time.perf_counter()
        one @ one
        if device.type == "cuda":
            torch.cuda.synchronize()
        best = min(best, time.perf_counter() - begun)
    return 2 * size**3 / best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parts = ("encoders", "classifiers", "losses", "ablations", "unseen", "pools", "speed")
    parser.add_argument("--part", choices=parts, required=True)
    parser.add_argument("--data")
    parser.add_argument("--encoder", default="minilm")
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--settings", default="", help="settings of depsl and unidec in every job")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--rows", type=int)
    parser.add_argument("--limit", type=float, default=540.0)
    parser.add_argument("--out", type=Path, default=Path("unidec"))
    parser.add_argument("--queries", type=int, default=1024)
    parser.add_argument("--pool", type=int, default=3000)
    parser.add_argument("--labels", type=int, nargs="+", default=[10_000, 100_000, 1_000_000, 10_000_000])
    parser.add_argument("--rounds", type=int, default=4)
    options = parser.parse_args()
    if options.part != "speed" and not options.data:
        parser.error("--data is needed for every part but speed")
    work = {"pools": pools, "speed": speed}.get(options.part, trained)
    print(work(options))


if __name__ == "__main__":
    main()
