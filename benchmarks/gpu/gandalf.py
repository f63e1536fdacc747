"""Claim: label texts as training rows, with co-occurring labels as soft targets, lift the tail of every word-based net.

    python benchmarks/gpu/gandalf.py --data DATA [DATA ...] --part table3 [table2 ...] --out DIR
        [--workers 4] [--seeds 1] [--nets NAME ...] [--renee RECIPE] [--limit SECONDS]
        [--set epochs=30] [--rows N] [--recipes RECIPE ...] [--after FILE] [--paper]

The tables and figures of the Gandalf paper on DATA, folders of JSON lines. Parts: table2 (what the rows of training
are), table3 (each net plain, + rows, + gandalf), table4 (its coverage), table5 (predictions for single texts), table6
(other augmentations), table7 (threshold and graph), figure2 (by label frequency), figure3 (over epochs, and with fewer
labels), epochs (how many each net needs, on valid), search (settings of gandalf, on valid), reached (right labels that
are found, by what the text of the row holds of them), gentle (settings with weaker soft targets than the paper's, on
valid), kept (the epoch with the best P@1 on valid against the one with the best mean of P@1 and PSP@5, of all stored
runs), given (the recipes of --recipes). Parts of one net use `astec`, or the only one of --nets.

Several runs share a GPU; workers are forked from a process that has read the data. Each run is a line of DIR/runs.jsonl
and what is stored there is not done again, so parts share runs and an interrupted benchmark continues. `--set` changes
settings of every word-based net, and `--rows` takes the first training rows and their labels: `--set epochs=2
dimension=64 batch=64 --rows 300` tries the script. With `--after`, everything that the runs share is prepared at once
and the first run starts when the file exists. With `--paper`, labels of every row are linked, as in the paper, where
`gandalf` leaves out a few rows with very many labels. Prints the tables at the end; with `--limit 0` those of the
stored runs.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from longtail.nn.encoders.token_cache import sharing_tokens
from shared.command import parser_for
from shared.gandalf_reached import kinds, reached
from shared.gandalf_report import report
from shared.gandalf_settings import (
    AT,
    BEST,
    BOTH,
    EACH_NET,
    EPOCHS,
    GENTLE,
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
from shared.tables import KS, append_lines, read_lines
from shared.timing import gpu_peak, reset_gpu
from shared.words import tokenise_for_nets
from shared.workers import worker_pool


def net(name: str, options: argparse.Namespace, seed: int, **more: Any) -> str:
    """A learner with its settings, as a recipe writes it."""
    if name == "renee":
        return str(options.renee).replace("SEED", str(seed))
    own = {**dict(setting.split("=") for setting in options.set), **more}
    own |= {"seed": seed} if seed else {}
    return f"{name}({', '.join(f'{key}={value}' for key, value in own.items())})" if own else name


def tried_on(options: argparse.Namespace) -> list[str]:
    """The nets on which settings of gandalf are compared."""
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
            f"{share:.0%} of the labels, {which}": f' + gandalf(label_share={share}, label_selection="{which}")'
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
    return re.sub(r"gandalf(\(?)", lambda found: f"gandalf(max_labels=none{', ' if found[1] else ')'}", recipe)


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


def fit(recipe: Any, given: Any) -> tuple[Any, list[Any]]:
    """The model of a recipe, and the history of each of its trainings."""
    from longtail.nn.training.history import History
    from longtail.progress import collecting

    with collecting() as heard:
        model = recipe.fit(given.train, given.valid)
    return model, [fact for fact in heard if isinstance(fact, History)]


def fit_in_epochs(recipe: Any, given: Any, when: str) -> tuple[Any, list[Any]]:
    """The same with label rows in some of the epochs only. `astec` and `eclare` do the steps of their `fit` here."""
    from longtail.model import Model
    from longtail.nn.encoders.word_runs import Runs
    from longtail.nn.shallow.label_mixtures import ThreeWays
    from longtail.nn.shallow.shallow_fit import ShallowFit

    class Fit(ShallowFit):
        def _train(self, task: Any) -> None:
            super()._train(SomeLabelRows(task, len(given.train), len(given.labels), own.epochs, when))

    own, train = recipe.learner, given.train
    for method in recipe.tail:
        train = method.augment(train)
    net = Fit.begin(own, train, given.valid, recipe.tail, own.body)
    if own.name not in ("astec", "eclare") or not net.against_all:
        raise ValueError(f"label rows in some epochs: only astec and eclare, over all labels, not {own.name}")
    if own.name == "astec":
        net.make_labels()
    else:
        texts = net.label_runs()
        around = Runs.of_matrix(net.make_graph(own) @ texts.matrix(net.tokenizer.size))
        net.make_labels(net.bags(around), lambda: ThreeWays(own.dimension, own.dropout), (texts, around))
    net.learn(net.pool())
    return Model(str(recipe), train.labels, net.scorer()), net.histories


class SomeLabelRows:
    """A task whose rows behind the `given` ones take part in some of the epochs; the last `labels` of them are those of
    `rows`, where these follow on others."""

    def __init__(self, task: Any, given: int, labels: int, epochs: int, when: str) -> None:
        self.task, self.given, self.labels, self.epochs, self.when = task, given, labels, epochs, when

    def __getattr__(self, name: str) -> Any:
        return getattr(self.task, name)

    def batches(self, epoch: int, first: int) -> Iterator[Any]:
        drawn = self._drawn(epoch)
        drawn[: self.given] = True
        kept = np.concatenate([batch[drawn[batch]] for batch in self.task.batches(epoch, 0)])
        size = self.task.batch
        return (kept[place : place + size] for place in range(first * size, len(kept), size))

    def _drawn(self, epoch: int) -> Any:
        rows = self.task.rows
        if self.when == THEN:
            own = np.arange(rows) >= rows - self.labels
            return own if 2 * epoch >= self.epochs else ~own
        begin, end, probability = WHEN[self.when]
        drawn = np.random.default_rng([self.task.seed, epoch, 1]).random(rows) < probability
        return drawn & (begin * self.epochs <= epoch < end * self.epochs)


def one(data: str, recipe: str, rows: int | None) -> dict[str, Any]:
    """Train a recipe, and evaluate it on valid and test."""
    import longtail

    given = corpus(data, rows)
    written, _, when = recipe.partition(" @")
    parsed = longtail.Recipe.parse(written)
    reset_gpu()
    begin = time.perf_counter()
    model, histories = fit_in_epochs(parsed, given, when) if when else fit(parsed, given)
    seconds = time.perf_counter() - begin
    kept: dict[str, Any] = {"data": Path(data).name, "recipe": recipe, "rows": rows, "seconds": seconds}
    kept |= {"history": [history.lines for history in histories], "peak": gpu_peak()}
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


def summary(run: dict[str, Any]) -> str:
    figures = ", ".join(f"{name} {run['test'][name]:.1f}" for name in ("P@1", "PSP@1", "PSP@5", "C@5"))
    epochs = sum(line["seconds"] for lines in run["history"] for line in lines)
    return f"{run['recipe']} on {run['data']}: {figures}, {run['seconds']:.0f} s, of it {epochs:.0f} in epochs"


def kept_runs(options: argparse.Namespace) -> dict[tuple[str, str], dict[str, Any]]:
    """Stored runs by data and recipe."""
    runs = read_lines(Path(options.out) / "runs.jsonl")
    return {(run["data"], run["recipe"]): run for run in runs if run["rows"] == options.rows}


def there(part: str, data: str, options: argparse.Namespace, done: dict[tuple[str, str], Any]) -> dict[str, list[Any]]:
    """The stored runs of each line of a part."""
    if part == "kept":
        return {recipe: [run] for (name, recipe), run in done.items() if name == Path(data).name}
    found = {
        line: [done[Path(data).name, recipe] for recipe in some if (Path(data).name, recipe) in done]
        for line, some in recipes(part, options).items()
    }
    return {line: runs for line, runs in found.items() if runs}


def main() -> None:
    parser = parser_for(__doc__)
    parser.add_argument("--data", nargs="+", required=True, help="folders of data sets")
    parser.add_argument("--part", nargs="+", default=["table3"], help="what to train")
    parser.add_argument("--out", required=True, help="folder of the results")
    parser.add_argument("--workers", type=int, default=4, help="trainings at a time")
    parser.add_argument("--seeds", type=int, default=1, help="trainings of each recipe")
    parser.add_argument("--nets", nargs="+", default=list(NETS), help="nets to train")
    parser.add_argument("--renee", default="renee(seed=SEED)", help="the recipe of renee among the nets")
    parser.add_argument("--set", nargs="*", default=[], help="settings of every word-based net, such as epochs=2")
    parser.add_argument("--rows", type=int, help="only the first training rows and their labels")
    parser.add_argument("--ways", nargs="+", help="only these lines of each net, such as '+ gandalf'")
    parser.add_argument("--paper", action="store_true", help="every row links its labels, however many")
    parser.add_argument("--recipes", nargs="+", default=[], help="of the part given")
    parser.add_argument("--limit", type=float, default=1e9, help="seconds after which no run starts")
    parser.add_argument("--after", type=Path, help="the first run waits for this file")
    options = parser.parse_args()
    Path(options.out).mkdir(parents=True, exist_ok=True)
    until, done = time.monotonic() + options.limit, kept_runs(options)
    wanted = [(data, recipe) for part in options.part for data in options.data
              for some in recipes(part, options).values() for recipe in some]  # fmt: skip
    todo = [job for job in dict.fromkeys(wanted) if (Path(job[0]).name, job[1]) not in done and options.limit > 0]
    encoders = re.findall(r"encoder='([^']*)'", options.renee) if "renee" in options.nets else []
    print(f"{len(todo)} runs to do", flush=True)
    with (
        sharing_tokens(),
        prepared(todo, options.rows),
        worker_pool(options.workers, {job[0] for job in todo} if encoders else (), options.rows, encoders) as pool,
    ):
        while todo and options.after and not options.after.exists():
            time.sleep(0.1)
        jobs = [(until, *job, options.rows) for job in todo]
        for run in pool.imap_unordered(timed, jobs):
            if "error" in run:
                print(run["error"], flush=True)
            else:
                append_lines(Path(options.out) / "runs.jsonl", run)
                print(summary(run), flush=True)
    done = kept_runs(options)
    for part in options.part:
        for data in options.data:
            print(f"\n### {part}, {Path(data).name}\n\n{report(part, there(part, data, options, done))}", flush=True)


@contextmanager
def prepared(todo: list[tuple[str, str]], rows: int | None) -> Iterator[None]:
    """What all workers share is done before they start."""
    begin = time.monotonic()
    for data in dict.fromkeys(data for data, _ in todo):
        given, own = corpus(data, rows), [recipe for folder, recipe in todo if folder == data]
        tokenise_for_nets(given, TEXTS if any(recipe.startswith(NETS) for recipe in own) else ())
        compile_kernels(given)
        right(data, rows)
    print(f"prepared in {time.monotonic() - begin:.0f} s", flush=True)
    yield


def compile_kernels(given: Any) -> None:
    """Compile here what every worker would compile for itself."""
    import longtail.nn.shallow.shallow_fit  # noqa: F401  imported once, too
    from longtail.linear.graph.cooccurrence import cooccurrence
    from longtail.linear.trees.label_clusters import balanced_halves, label_vectors
    from longtail.nn.shallow.walk_graph import label_graph

    some = given.train.take(np.arange(min(1000, len(given.train)))).targets
    cooccurrence(some, 0.1)
    cooccurrence(some, 0.1, 3, 2)
    label_graph(some, 10, 0.8, 5, 500, 0)
    balanced_halves(label_vectors(some, some), 8, 0)


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
