"""Claim: pools of some labels teach a dual encoder and classifiers together as well as all labels do.

    PYTHONPATH=src python benchmarks/gpu/unidec.py --part encoders classifiers losses ablations unseen pools
        --data FOLDER [--encoder minilm] [--workers 2] [--out DIR] [--epochs 30] [--rows N] [--limit SECONDS]
        [--settings "positives=3"]
    PYTHONPATH=src python benchmarks/gpu/unidec.py --part B:classifiers A:losses B:encoders --data A B --epochs 30 10
    PYTHONPATH=src python benchmarks/gpu/unidec.py --part sweep --data FOLDER --try "depsl(negatives=2)" ...
    PYTHONPATH=src python benchmarks/gpu/unidec.py --part cost --data FOLDER --workers 1 --epochs 8

`encoders`: dpr, ance, ngame, depsl and dexml; with `--own`, the last two alone. `classifiers`: ngame, renee and unidec;
with `--own`, unidec alone. `losses`: pairs of losses, each found by texts, by classifiers and by both, of one training.
`ablations`: without mined negatives, and from documents to labels alone. `unseen`: the rarest labels leave the training
and join afterwards, with the classifier half empty or mapped. `pools`: labels of a pool and positives of a row in it
against beta and eta. `sweep`: the recipes of `--try` on the second half of valid, the first half being theirs to learn
from, and other ways to search what unidec has learned. `given`: the same recipes on test. `seeds`: both once more.
`cost`: seconds of an epoch, of a renewal and its parts, and peak memory of depsl, unidec, dexml and renee, or of the
recipes of `--try`, one at a time; after the first, epochs are to be one that renews and one that does not
(`refresh=2, epochs=3`), or plain ones. A part is of every data set, or of the one whose folder's name stands before it;
parts begin in the order given and share one set of workers, and a recipe that stands in two of them is trained once.
Results are kept line by line under --out, and what stands there is not done again. Tables come last. How fast a step
is: `unidec_speed.py`; P@1 against the seconds of whole trainings: `unidec_time.py`.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from crew import afresh, crew
from splits import splits

MEASURES = [f"{name}@{k}" for name in ("P", "PSP", "C") for k in (1, 3, 5)]
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
    import torch

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
    gpu = torch.cuda.max_memory_allocated() if torch.cuda.is_available() else 0
    spent = {"seconds": time.perf_counter() - begun, "gib": (gpu or peak.bytes) / 2**30}
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
    from longtail.nn.encode import encode
    from longtail.nn.tokens import tokenise
    from longtail.nn.towers import unit
    from longtail.search.exact import top_k

    encoded = encode(towers.encoder, tokenise(asked.texts, towers.tokenizer, towers.longest))
    queries = [towers.heads.applied(encoded, side) for side in ("encoder", "classifiers")]
    texts, rows = towers.label_vectors(), towers.table.rows()
    lengths = np.linalg.norm(rows, axis=1)
    tried = {"both": ([0, 1], [texts, unit(rows)]), "texts": ([0], [texts]), "classifiers": ([1], [unit(rows)]),
             "classifiers, their lengths": ([1], [rows])}  # fmt: skip
    for power, share in LENGTHS:
        longer = unit(rows) * (share / (1 - share) * (lengths / lengths.mean()) ** power)[:, None]
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
        towers.lengths = lengths
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


class Clock:
    """Seconds that the last stage of each name took, the device's work for it included."""

    def __init__(self) -> None:
        self.begun: list[tuple[str, float]] = []
        self.seconds: dict[str, float] = {}

    def start(self, name: str, total: int | None) -> int:
        self.begun.append((name, self.now()))
        return len(self.begun) - 1

    def advance(self, handle: int, amount: int) -> None: ...

    def finish(self, handle: int) -> None:
        name, begun = self.begun[handle]
        self.seconds[name] = self.now() - begun

    def note(self, line: str) -> None: ...

    def now(self) -> float:
        import torch

        if torch.cuda.is_available():
            torch.cuda.synchronize()
        return time.perf_counter()


def cost(recipe: str, corpus: Split) -> list[dict[str, Any]]:
    """Of a training of few epochs: seconds of the fastest after the first, how much longer the slowest took, which is a
    renewal where there was one, of what the last renewal did, and the peak."""
    import longtail
    from longtail.nn.checkpoint import keeping
    from longtail.nn.history import History
    from longtail.progress import listening

    train, valid, _ = corpus
    clock = Clock()
    with tempfile.TemporaryDirectory() as folder, keeping(folder, every_seconds=1e9), listening(clock):
        longtail.Recipe.parse(recipe).fit(train, valid.take([]))  # which nothing is measured on
        place = max(Path(folder).rglob("history.jsonl"))
        lines = History.read(place.parent).lines
    taken = [line["seconds"] for line in lines[1:] or lines]
    epoch, peak = min(taken), max(line["peak_bytes"] for line in lines) / 2**30
    found = {"seconds an epoch": epoch, "seconds of a renewal": max(taken) - epoch, "first epoch": lines[0]["seconds"]}
    found |= {name: clock.seconds[name] for name in RENEWAL if name in clock.seconds and "clustering" in clock.seconds}
    return [{"by": "", "ms a step": 1000 * epoch / lines[0]["steps"], **found, "gib": peak}]


WORK: dict[str, Callable[[str, Split], list[dict[str, Any]]]] = {"unseen": unseen, "sweep": sweep, "cost": cost}
Job = tuple[str, str, str]  # folder, kind, recipe


def work(until: float, rows: int | None, once: bool, job: Job) -> tuple[Job, list[dict[str, Any]]]:
    """A run in a worker; no lines where it is too late to begin one."""
    data, kind, recipe = job
    if time.monotonic() > until:
        return job, []
    afresh()
    try:
        lines = WORK.get(kind, partial(one, once=once))(recipe, splits(data, rows))
    except Exception as error:  # one run that fails must not take the others with it
        lines = [{"error": f"{type(error).__name__}: {error}"[:500]}]
    return job, [{"kind": kind, **line, "recipe": recipe} for line in lines]


def trained(options: argparse.Namespace) -> str:
    """All jobs of all parts, several at a time; those that were done before are read back."""
    options.out.mkdir(parents=True, exist_ok=True)
    kept = {data: options.out / f"{Path(data).name}.jsonl" for data in options.data}
    lines = {
        data: [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
        for data, path in kept.items()
    }
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
        with crew(options.workers, options.data, options.rows, [options.encoder]) as pool:
            run = partial(work, begun + options.limit, options.rows, options.once)
            print(f"{time.monotonic() - begun:.0f} s to read the data and cut texts into tokens", flush=True)
            while options.after and not options.after.exists():
                time.sleep(0.1)
            for (data, kind, recipe), some in pool.imap_unordered(run, todo):
                with kept[data].open("a") as file:
                    file.writelines(json.dumps(line) + "\n" for line in some)
                lines[data] += some
                said: Any = "no time was left"
                if some:
                    figures = {name: round(some[0][name], 2) for name in ("P@1", "seconds", "gib") if name in some[0]}
                    said = some[0].get("error") or figures
                named = recipe.replace(options.encoder, Path(options.encoder).name)
                print(f"{time.monotonic() - begun:.0f} s {Path(data).name} {kind} {named}: {said}", flush=True)
    return "\n\n".join(
        f"{name}, {part}\n\n{table(options, lines[some[0][0]], some)}" for (name, part), some in wanted.items()
    )


def table(options: argparse.Namespace, lines: list[dict[str, Any]], wanted: list[Job]) -> str:
    chosen = [line for _, *job in wanted for line in lines
              if [line["kind"], line["recipe"]] == job and "error" not in line]  # fmt: skip
    columns = [name for name in (chosen[0] if chosen else {}) if name not in ("kind", "recipe", "by")]
    out = [f"| recipe | found by | {' | '.join(columns)} |", "| --- | --- |" + " --: |" * len(columns)]
    for line in chosen:
        cells = " | ".join(f"{line[name]:.2f}" if name in line else "" for name in columns)
        recipe = line["recipe"].replace(options.encoder, Path(options.encoder).name)
        out.append(f"| `{recipe}` | {line['by']} | {cells} |")
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
        out += ["", f"| {kind} | {' | '.join(BRIEF)} |", "| --- |" + " --: |" * len(BRIEF)]
        for _, asked, recipe in wanted:
            cells = [found.get((kind, recipe, by), "") for by in BRIEF.values()]
            if asked == "test" and any(cells):
                named = recipe.replace(options.encoder, Path(options.encoder).name)
                out.append(f"| `{named}` | {' | '.join(cells)} |")
    return out if any("`" in line for line in out) else []


def pools(data: str, options: argparse.Namespace) -> str:
    """Of batches that are clusters, by the encoder as it is given: labels of a pool, and positives of a row."""
    import numpy as np
    import torch

    from longtail.learners.depsl import Depsl
    from longtail.nn.batches import clustered_order
    from longtail.nn.clusters import balanced_clusters
    from longtail.nn.pool.fit import PoolTowers
    from longtail.nn.pool.picks import Picker

    train, valid, _ = splits(data, options.rows)
    towers = PoolTowers.begin(Depsl(encoder=options.encoder), train, valid, ())
    some = np.flatnonzero(np.diff(train.targets.indptr))
    size = min(options.queries, len(some))
    near = balanced_clusters(
        towers.document_vectors()[some], size=min(options.cluster, len(some)), device=str(towers.device)
    )
    mined = towers.mine(30)
    out = ["| beta | eta | labels of a pool | positives of a row | all its labels | ms a pool |", "|" + " --: |" * 6]
    chance = np.random.default_rng(0)
    order = clustered_order(some, near, chance)
    chosen = np.split(order, range(size, len(order), size))[:20]
    for positives in (1, 2, 3, 5):
        for negatives in (0, 1, 2, 6):
            picker = Picker(train.targets, towers.device, positives, negatives)
            sizes, known, whole, times = [], [], [], []
            for rows in chosen:
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parts = ("encoders", "classifiers", "losses", "ablations", "unseen", "pools", "sweep", "given", "seeds", "cost")
    parser.add_argument("--part", nargs="+", required=True, help=f"[NAME:]PART, of {', '.join(parts)}")
    parser.add_argument("--data", nargs="+", required=True)
    parser.add_argument("--encoder", default="minilm")
    parser.add_argument("--epochs", type=int, nargs="+", default=[30], help="of each data set; the last: of the rest")
    parser.add_argument("--settings", default="", help="settings of depsl and unidec in every job")
    parser.add_argument(
        "--try", dest="tried", nargs="+", default=[], help="recipes of sweep, given and cost, each also as NAME:RECIPE"
    )
    parser.add_argument("--own", action="store_true", help="only depsl, unidec and dexml")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--rows", type=int)
    parser.add_argument("--limit", type=float, default=1e9, help="seconds after which no run is begun; 0: tables alone")
    parser.add_argument("--once", action="store_true", help="unidec by its own settings alone, not in many ways")
    parser.add_argument("--after", type=Path, help="a file that must be there before the first run begins")
    parser.add_argument("--out", type=Path, default=Path("unidec"))
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
