"""Claim: label texts as training rows with co-occurring labels as soft targets lift the tail of every frugal net.

    python benchmarks/gpu/gandalf.py --data DATA [DATA ...] --part table3 [table2 ...] --out DIR
                                     [--workers 4] [--seeds 1] [--nets NAME ...] [--renee RECIPE] [--limit SECONDS]
                                     [--set epochs=30] [--rows N] [--recipes RECIPE ...] [--after FILE] [--paper]

The tables and figures of the Gandalf paper on DATA, folders of JSON lines. Parts: table2 (what rows are trained on),
table3 (each net plain, + rows, + gandalf), table4 (its coverage), table5 (what is said about single texts), table6
(other ways to make rows), table7 (threshold and graph), figure2 (by label frequency), figure3 (over epochs, and with
fewer labels), epochs (how many each net wants, by the valid split), search (settings of gandalf, by the valid split),
reached (right answers found, by what the row's text says of them), gentle (settings that say less than the paper's, by
the valid split), kept (which look at valid of all runs that are there would be kept by P@1 and which by the mean of
P@1 and PSP@5), given (those of --recipes). Parts of one net take `astec`, or the only one of --nets.

Several runs share a GPU; workers are copies of a process that has read the data. Each run is a line of DIR/runs.jsonl;
what is there is not done again, so parts share runs and a run that was cut short goes on. `--set` changes settings of
every frugal net, and `--rows` takes the first training rows and the labels they have: to rehearse, say
`--set epochs=2 dimension=64 batch=64 --rows 300`. With `--after`, what all runs share is made at once and the first of
them begins when the file is there. With `--paper`, labels of every row are linked, as the paper does it, where
`gandalf` would leave a few rows with very many labels out. The tables are printed last; with `--limit 0` of what is
there.
"""

from __future__ import annotations

import argparse
import json
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from crew import afresh, crew
from gandalf_reached import kinds, reached
from gandalf_report import report
from gandalf_ways import (
    AT,
    BEST,
    BOTH,
    EACH_NET,
    EPOCHS,
    GENTLE,
    KS,
    LITTLE,
    MORE,
    NETS,
    READERS,
    SHARES,
    TABLE2,
    TABLE6,
    TEXTS,
    THEN,
    WHEN,
)  # fmt: skip
from words import learn

from longtail.nn.read_once import reading_once


def net(name: str, options: argparse.Namespace, seed: int, **more: Any) -> str:
    """A learner with its settings, as a recipe writes it."""
    if name == "renee":
        return str(options.renee).replace("SEED", str(seed))
    own = {**dict(setting.split("=") for setting in options.set), **more}
    own |= {"seed": seed} if seed else {}
    return f"{name}({', '.join(f'{key}={value}' for key, value in own.items())})" if own else name


def tried_on(options: argparse.Namespace) -> list[str]:
    """The nets on which settings of gandalf are tried."""
    return [net(name, options, 0, epochs=epochs) for name, epochs in AT.items() if name in options.nets]


def recipes(part: str, options: argparse.Namespace) -> dict[str, list[str]]:
    """What a part trains: the name of each line, and its recipe for every seed."""

    def lines(name: str, ways: dict[str, str]) -> dict[str, list[str]]:
        found = {}
        for way, more in ways.items():
            if not options.ways or way in options.ways:
                line = (
                    f"`{name}{more}`"
                    if part in (*EACH_NET, "gentle")
                    else f"{name}: {way}"
                    if part == "table5"
                    else way
                )
                found[line] = [net(name, options, seed) + more for seed in range(options.seeds)]
        return found

    four = {"plain": "", "+ rows": " + rows", "+ gandalf": " + gandalf", f"+ {BEST}": f" + {BEST}"}
    main = options.nets[0] if len(options.nets) == 1 else "astec"
    found: dict[str, list[str]] = {}
    if part in EACH_NET:
        for name in options.nets:
            found |= lines(name, four | ({f"+ {LITTLE}": f" + {LITTLE}"} if name in READERS else {}))
    elif part == "table2":
        found |= lines(main, TABLE2)
    elif part == "table5":
        for name in ("inceptionxml-lf", "decaf", "eclare"):
            found |= lines(name, {"plain": "", "+ gandalf": " + gandalf"})
    elif part == "table6":
        found |= lines(main, TABLE6)
    elif part == "table7":
        ways = {f"δ = {value}": f" + gandalf(threshold={value})" for value in (0.0, 0.2)}
        found |= lines(main, {"plain": "", "rows": " + rows", "δ = 0.1": " + gandalf", **ways,
                              "random walk": ' + gandalf(graph="walk")'})  # fmt: skip
    elif part == "figure3":
        shares = {
            f"{share:.0%} of the labels, {which}": f' + gandalf(share={share}, which="{which}")'
            for which in ("uniform", "tail")
            for share in SHARES
        }
        found |= lines(main, {"plain": "", "+ rows": " + rows", "+ gandalf": " + gandalf", **shares})
    elif part == "given":
        found |= {recipe: [recipe] for recipe in options.recipes}
    elif part == "epochs":
        for name in options.nets:
            for epochs in EPOCHS.get(name, ()):
                found[f"`{name}`, {epochs} epochs"] = [net(name, options, 0, epochs=epochs)]
    elif part == "gentle":
        for name in options.nets:
            found |= lines(name, {"plain": "", **{f"+ {way}": f" + {way}" for way in GENTLE}})
    elif part == "search":
        for plain in tried_on(options):
            ways = (*BOTH, *MORE) if plain.startswith("astec") else BOTH
            found |= {f"{plain}: plain": [plain], **{f"{plain}: {way}": [f"{plain} + {way}"] for way in ways}}
    return {line: [of_paper(recipe) for recipe in some] for line, some in found.items()} if options.paper else found


def of_paper(recipe: str) -> str:
    """The same with links from every row."""
    return re.sub(r"gandalf(\(?)", lambda found: f"gandalf(longest=none{', ' if found[1] else ')'}", recipe)


@cache
def corpus(data: str, rows: int | None) -> Any:
    import longtail
    from longtail.data import Dataset, LabelSet, make_corpus

    whole = longtail.load(data)
    if rows is None:
        return whole
    train, known = whole.train.take(np.arange(min(rows, len(whole.train)))), whole.labels
    seen = np.unique(train.targets.indices)
    labels = LabelSet(
        ids=tuple(known.ids[label] for label in seen),
        texts=tuple(known.texts[label] for label in seen),
        propensity=known.propensity,
    )

    def cut(part: Dataset) -> Dataset:
        targets = part.targets[:, seen]
        some = np.flatnonzero(np.diff(targets.indptr))
        ids, texts = ([values[row] for row in some] for values in (part.ids, part.texts))
        return Dataset(labels=labels, targets=targets[some], ids=tuple(ids), texts=tuple(texts))

    return make_corpus(name=whole.name, train=cut(train), valid=cut(whole.valid), test=cut(whole.test))


@cache
def right(data: str, rows: int | None) -> Any:
    return kinds(corpus(data, rows))


@contextmanager
def histories() -> Iterator[list[Any]]:
    """What happened in each epoch of the nets trained inside. Checkpoints would tell it too, and cost disk and time."""
    from longtail.nn.frugal import fit

    train, seen = fit.train, []

    def listening(*given: Any) -> Any:
        history = train(*given)
        seen.append(history.lines)
        return history

    fit.train = listening
    try:
        yield seen
    finally:
        fit.train = train


@contextmanager
def label_rows(given: int, labels: int, epochs: int, when: str) -> Iterator[None]:
    """Rows behind the `given` ones only in some of the epochs; the last `labels` of them are those of `rows`, where
    these follow on others."""
    from longtail.nn.frugal.task import FrugalTask

    batches = FrugalTask.batches

    def wanted(task: Any, epoch: int) -> Any:
        if when == THEN:
            own = np.arange(task.rows) >= task.rows - labels
            return own if 2 * epoch >= epochs else ~own
        begin, end, chance = WHEN[when]
        drawn = np.random.default_rng([task.seed, epoch, 1]).random(task.rows) < chance
        return drawn & (begin * epochs <= epoch < end * epochs)

    def some(task: Any, epoch: int, first: int) -> Iterator[Any]:
        drawn = wanted(task, epoch)
        drawn[:given] = True
        kept = np.concatenate([batch[drawn[batch]] for batch in batches(task, epoch, 0)])
        return (kept[place : place + task.batch] for place in range(first * task.batch, len(kept), task.batch))

    FrugalTask.batches = some
    try:
        yield
    finally:
        FrugalTask.batches = batches


def one(data: str, recipe: str, rows: int | None) -> dict[str, Any]:
    """Train, measure on valid and test."""
    import torch

    import longtail

    given, cuda = corpus(data, rows), torch.cuda.is_available()
    written, _, how = recipe.partition(" @")
    parsed = longtail.Recipe.parse(written)
    only = label_rows(len(given.train), len(given.labels), parsed.learner.epochs, how) if how else nullcontext()
    afresh()
    with histories() as seen, only:
        begin = time.perf_counter()
        model = parsed.fit(given.train, given.valid)
        seconds = time.perf_counter() - begin
    kept: dict[str, Any] = {"data": Path(data).name, "recipe": recipe, "rows": rows, "seconds": seconds}
    kept |= {"history": seen, "peak": torch.cuda.max_memory_allocated() if cuda else 0}
    for split in ("valid", "test"):
        some = getattr(given, split)
        found = model.predict(some.rows, max(KS), some.excluded)
        measures = longtail.evaluate(found, some, ks=KS)
        kept[split] = dict(measures.values)
        kept[f"{split} bins"] = [vars(part) for part in measures.bins]
    kept["reached"] = reached(right(data, rows), found)
    few = sorted(range(len(given.test)), key=lambda row: len(given.test.texts[row]))[:100]
    kept["examples"] = [
        {"text": given.test.texts[row], "right": given.test.targets[[row]].indices.tolist(),
         "found": [answer.text for answer in found.answers(row)], "rows": found.indices[row].tolist()}
        for row in few
    ]  # fmt: skip
    return kept


def told(run: dict[str, Any]) -> str:
    figures = ", ".join(f"{name} {run['test'][name]:.1f}" for name in ("P@1", "PSP@1", "PSP@5", "C@5"))
    epochs = sum(line["seconds"] for lines in run["history"] for line in lines)
    return f"{run['recipe']} on {run['data']}: {figures}, {run['seconds']:.0f} s, of it {epochs:.0f} in epochs"


def kept_runs(options: argparse.Namespace) -> dict[tuple[str, str], dict[str, Any]]:
    """What is done already, by data and recipe."""
    file = Path(options.out) / "runs.jsonl"
    runs = [json.loads(line) for line in file.read_text().splitlines()] if file.is_file() else []
    return {(run["data"], run["recipe"]): run for run in runs if run["rows"] == options.rows}


def there(part: str, data: str, options: argparse.Namespace, done: dict[tuple[str, str], Any]) -> dict[str, list[Any]]:
    """Of each line of a part the runs that are done."""
    if part == "kept":
        return {recipe: [run] for (name, recipe), run in done.items() if name == Path(data).name}
    found = {
        line: [done[Path(data).name, recipe] for recipe in some if (Path(data).name, recipe) in done]
        for line, some in recipes(part, options).items()
    }
    return {line: runs for line, runs in found.items() if runs}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", nargs="+", required=True)
    parser.add_argument("--part", nargs="+", default=["table3"])
    parser.add_argument("--out", required=True)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--nets", nargs="+", default=list(NETS))
    parser.add_argument("--renee", default="renee(seed=SEED)", help="what `renee` among the nets stands for")
    parser.add_argument("--set", nargs="*", default=[], help="settings of every frugal net, such as epochs=2")
    parser.add_argument("--rows", type=int)
    parser.add_argument("--ways", nargs="+", help="only these lines of each net, such as '+ gandalf'")
    parser.add_argument("--paper", action="store_true", help="every row links its labels, however many")
    parser.add_argument("--recipes", nargs="+", default=[], help="of the part `given`")
    parser.add_argument("--limit", type=float, default=1e9, help="seconds after which no run is begun")
    parser.add_argument("--after", type=Path, help="a file that must be there before the first run begins")
    options = parser.parse_args()
    Path(options.out).mkdir(parents=True, exist_ok=True)
    until, done = time.monotonic() + options.limit, kept_runs(options)
    wanted = [(data, recipe) for part in options.part for data in options.data
              for some in recipes(part, options).values() for recipe in some]  # fmt: skip
    todo = [job for job in dict.fromkeys(wanted) if (Path(job[0]).name, job[1]) not in done and options.limit > 0]
    encoders = re.findall(r"encoder='([^']*)'", options.renee) if "renee" in options.nets else []
    print(f"{len(todo)} runs to do", flush=True)
    with (
        reading_once(),
        prepared(todo, options.rows),
        crew(options.workers, {job[0] for job in todo} if encoders else (), options.rows, encoders) as pool,
        (Path(options.out) / "runs.jsonl").open("a") as file,
    ):
        while todo and options.after and not options.after.exists():
            time.sleep(0.1)
        jobs = [(until, *job, options.rows) for job in todo]
        for run in pool.imap_unordered(timed, jobs):
            if "error" in run:
                print(run["error"], flush=True)
            else:
                print(json.dumps(run), file=file, flush=True)
                print(told(run), flush=True)
    done = kept_runs(options)
    for part in options.part:
        for data in options.data:
            print(f"\n### {part}, {Path(data).name}\n\n{report(part, there(part, data, options, done))}", flush=True)


@contextmanager
def prepared(todo: list[tuple[str, str]], rows: int | None) -> Iterator[None]:
    """What workers share is done before they begin."""
    begin = time.monotonic()
    for data in dict.fromkeys(data for data, _ in todo):
        given, own = corpus(data, rows), [recipe for folder, recipe in todo if folder == data]
        learn(given, TEXTS if any(recipe.startswith(NETS) for recipe in own) else ())
        ready(given)
        right(data, rows)
    print(f"prepared in {time.monotonic() - begin:.0f} s", flush=True)
    yield


def ready(given: Any) -> None:
    """What every worker would compile for itself is compiled before they part."""
    import longtail.nn.frugal.fit  # noqa: F401  read once, too
    from longtail.linear.cluster import halve, label_vectors
    from longtail.linear.cooccurrence import cooccurrence
    from longtail.nn.frugal.graph import label_graph

    some = given.train.take(np.arange(min(1000, len(given.train)))).targets
    cooccurrence(some, 0.1)
    cooccurrence(some, 0.1, 3, 2)
    label_graph(some, 10, 0.8, 5, 500, 0)
    halve(label_vectors(some, some), 8, 0)


def timed(job: tuple[float, str, str, int | None]) -> dict[str, Any]:
    until, data, recipe, rows = job
    if time.monotonic() > until:
        return {"error": f"no time left for {recipe}"}
    try:
        return one(data, recipe, rows)
    except Exception as error:  # one run that fails must not take the others with it
        return {"error": f"failed: {recipe}: {type(error).__name__}: {error}"[:500]}


if __name__ == "__main__":
    main()
