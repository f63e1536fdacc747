"""The tables and figures of the RankNet and TAUG paper on your data sets, as Markdown.

    python benchmarks/ranknet_taug.py DATA [DATA ...] --checkpoint-dir FOLDER [--parts ranknet taug rivals]
        [--learners fastxml bonsai parabel] [--rows N] [--so-far]

Stores every result at once as a line of FOLDER/figures.jsonl, with the predictions that RankNet trains on, so that an
interrupted run continues and a finished one prints at once. Delete a line to measure it again. `--rows` takes only so
many training rows; `--so-far` trains nothing and leaves out what is not stored. Prints one table for each table or
figure of the paper.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

import longtail
from longtail.data import Corpus, Dataset, LabelSet
from longtail.held_out import HeldOutPredictions
from longtail.metrics import evaluate, inverse_propensity
from longtail.metrics.norms import norm_bins
from longtail.predictions import CANDIDATES, Predictions
from longtail.recipe import Recipe
from longtail.tail.rerank import Rerank
from shared.command import parser_for
from shared.tables import append_lines, at_ks, read_lines
from shared.tables import table as markdown

if TYPE_CHECKING:
    from longtail.tail.ranknet import RankNetBlocks

LEARNERS = ("fastxml", "bonsai", "parabel")
# Under TAUG, as published; three trees take longer and show the same.
BASE = "bonsai(trees=1, max_iter=8, hard_negatives=0)"
TAUG = {  # what each control is called in the paper's table 6
    "": "baseline",
    "taug(copies=0)": "decoupled only",
    "taug(swap_fraction=0)": "TAUG-d, only dropped",
    "taug(keep_probability=1)": "TAUG-s, only swapped",
    "taug": "TAUG-ds",
}
COPIES = (0, 1, 2, 4, 8, 16)
HEADS = (0.01, 0.03, 0.1, 0.25, 0.5, 1)
RIVALS = (BASE, f"{BASE} + ranknet", f"{BASE} + taug", f"{BASE} + taug + ranknet", "pfastrexml", "proxml")
TAIL, ALL = at_ks("PSP", "PSnDCG"), at_ks("P", "nDCG")
STRENGTHS = np.round(np.arange(0, 3.005, 0.01), 2)  # of rerank, searched for the precision that RankNet has
Values = dict[str, float]


@dataclass(frozen=True)
class Stored:
    """Finished work in a folder."""

    folder: Path
    closed: bool = False  # nothing new is computed

    def values(self, data: str, name: str, make: Callable[[], Values]) -> Values:
        """The figures of this name; computed and stored where they are not stored yet."""
        path = self.folder / "figures.jsonl"
        for found in read_lines(path):
            if (found["data"], found["name"]) == (data, name):
                return found["values"]
        if self.closed:
            return {}
        print(f"{time.strftime('%H:%M:%S')} {data}: {name}", file=sys.stderr, flush=True)
        values = make()
        append_lines(path, {"data": data, "name": name, "values": values})
        return values

    def arrays(self, name: str, make: Callable[[], dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
        path = self.folder / f"{name}.npz"
        if not path.exists():
            print(f"{time.strftime('%H:%M:%S')} {name}", file=sys.stderr, flush=True)
            np.savez(path, **make())
        return dict(np.load(path))


@dataclass(frozen=True)
class HeldOut:
    """A learner's predictions for rows it did not train on: out of fold, on valid and on test."""

    corpus: Corpus
    arrays: dict[str, np.ndarray]

    @property
    def labels(self) -> LabelSet:
        return self.corpus.labels

    @property
    def train(self) -> Dataset:
        return self.corpus.train

    def predictions(self, split: str) -> Predictions:
        return Predictions(self.labels, self.arrays[f"{split}_labels"], self.arrays[f"{split}_scores"])

    def valid(self) -> tuple[Predictions, Dataset]:
        return self.predictions("valid"), self.corpus.valid

    def folds(self, number: int, most: int | None = None, seed: int = 0) -> tuple[Predictions, Dataset]:
        return self.predictions("folds"), self.train


def held_out_of(corpus: Corpus, learner: str, stored: Stored) -> HeldOut:
    """The predictions that `learner + ranknet` trains on, made once for all rows of the tables."""

    from longtail.tail.ranknet import RankNet

    def make() -> dict[str, np.ndarray]:
        recipe, valid, test = Recipe.parse(learner), corpus.valid, corpus.test
        model = recipe.fit(corpus.train, valid)
        held_out = HeldOutPredictions(model, corpus.train, valid, partial(recipe.fit, valid=valid))
        found = {
            "test": model.predict(test.rows, CANDIDATES, test.excluded),
            "valid": held_out.valid()[0],
            "folds": held_out.folds(RankNet.folds, RankNet.max_examples, RankNet.seed)[0],
        }
        labels = {f"{split}_labels": predictions.indices for split, predictions in found.items()}
        return labels | {f"{split}_scores": predictions.scores for split, predictions in found.items()}

    return HeldOut(corpus, stored.arrays(f"{corpus.name}-{learner}", make))


def measured(predictions: Predictions, test: Dataset) -> Values:
    measures = evaluate(predictions.top(5), test)
    return {name: measures[name] for name in [*TAIL, *ALL, "C@1", "C@5"]}


def ranknet_values(corpus: Corpus, learner: str, stored: Stored) -> dict[str, Values]:
    """The rows of tables 2 and 5 for one learner, and what each part of RankNet brings."""
    from longtail.tail.ranknet import RankNet

    known: dict[str, object] = {}

    def once(name: str, make: Callable[[], object]) -> object:
        return known[name] if name in known else known.setdefault(name, make())

    def source() -> HeldOut:
        return once("source", lambda: held_out_of(corpus, learner, stored))  # type: ignore[return-value]

    def network(**settings: object) -> RankNetBlocks:
        method = RankNet(**settings)  # type: ignore[arg-type]
        return once(str(method), lambda: method.fit_reranker(source()))  # type: ignore[return-value]

    def after(make: Callable[[], RankNetBlocks], chosen: bool = False) -> Callable[[], Values]:
        def found() -> Values:
            part = make()
            values = measured(part.rerank(source().predictions("test"), corpus.test.rows), corpus.test)
            return values | ({"step": part.step, "strength": part.strength} if chosen else {})

        return found

    def reranked(strength: float) -> Callable[[], Values]:
        def found() -> Values:
            part = Rerank(strength=strength).fit_reranker(source())
            return measured(part.rerank(source().predictions("test"), corpus.test.rows), corpus.test)

        return found

    def row(name: str, make: Callable[[], Values]) -> Values:
        return stored.values(corpus.name, f"{learner}{name}", make)

    rows = {
        "plain": row("", lambda: measured(source().predictions("test"), corpus.test)),
        "rerank": row(" + rerank", reranked(1.0)),
        "ranknet": row(" + ranknet", after(network, chosen=True)),
    }

    def control(of: str, name: str) -> Values:
        strength = equal_strength(source().predictions("test"), corpus.test, name, rows[of][name])
        return reranked(strength)() | {"strength": strength}

    rows["control"] = row(" + rerank at the P@1 of ranknet", partial(control, "ranknet", "P@1"))
    rows["as rare"] = row(" + rerank at the PSP@1 of ranknet", partial(control, "ranknet", "PSP@1"))
    rows["network"] = row(
        " + ranknet without inverse propensity",
        after(lambda: network().balanced(*source().valid(), strengths=(0.0,)), chosen=True),
    )
    rows["blend"] = row(
        " + ranknet without the network",
        after(lambda: network().balanced(*source().valid(), steps=(0.0,)), chosen=True),
    )
    rows["paper"] = row(" + ranknet(shared=false)", after(lambda: network(shared=False)))
    rows["again"] = row(" + ranknet, another network seed", after(partial(network, seed=1), chosen=True))
    rows["control again"] = row(" + rerank at the P@1 of that", partial(control, "again", "P@1"))
    return rows


def equal_strength(predictions: Predictions, test: Dataset, name: str, value: float) -> float:
    """The strength at which rerank has this P@1, the largest such, or this PSP@1, the smallest such; where none does,
    the strength that comes nearest."""
    hits, worth = predictions.hits(test.targets), inverse_propensity(predictions.labels)
    logs = np.log(np.maximum(predictions.scores, 1e-38))
    gains = np.where(hits, 1.0 if name == "P@1" else worth[predictions.indices], 0)
    rows = test.targets.nonzero()[0]
    possible = np.zeros(len(test))
    np.maximum.at(possible, rows, worth[test.targets.indices])  # the dearest label of each row
    most = len(test) if name == "P@1" else possible.sum()
    rarity = np.log(worth)[predictions.indices]

    def found(strength: float) -> float:
        first = (logs + strength * rarity).argmax(axis=1)[:, None]
        return 100 * float(np.take_along_axis(gains, first, axis=1).sum()) / most

    reached = np.array([found(strength) for strength in STRENGTHS])
    enough = np.flatnonzero(reached >= value - 1e-9)
    if not len(enough):
        return float(STRENGTHS[reached.argmax()])
    return float(STRENGTHS[enough[-1 if name == "P@1" else 0]])


def trained(corpus: Corpus, recipe: str) -> Values:
    """A recipe trained and measured; mean norms of classifier rows by label frequency under "norm LOW-HIGH"."""
    begin = time.perf_counter()
    model = Recipe.parse(recipe).fit(corpus.train, corpus.valid)
    seconds = time.perf_counter() - begin
    predictions = model.predict(corpus.test.rows, CANDIDATES, corpus.test.excluded)
    norms = model.row_norms()
    bins = norm_bins(norms, corpus.labels.counts) if norms is not None else ()
    lengths = {f"norm {part.low}-{part.high}": part.mean for part in bins}
    return measured(predictions, corpus.test) | lengths | {"train seconds": seconds}


def as_features(corpus: Corpus) -> Corpus:
    """The same rows as tf-idf vectors of the training words: TAUG drops and swaps values, as in the paper."""
    from longtail.linear.features.sparse_features import Features

    words, vectors = Features.learn(corpus.train)

    def read(data: Dataset) -> Dataset:
        features = vectors if data is corpus.train else words.of(data.rows)
        return replace(data, texts=None, features=features)

    return replace(corpus, train=read(corpus.train), valid=read(corpus.valid), test=read(corpus.test))


def table(heads: Sequence[str], rows: Sequence[Sequence[object]], words: int) -> None:
    """Print a table without its empty rows; the first columns hold words, the others numbers."""
    some = [row for row in rows if any(cell != "" for cell in row[words:])]
    lines = [[f"{cell:.1f}" if isinstance(cell, float) else cell for cell in row] for row in some]
    print(markdown(heads, lines, words) + "\n", flush=True)


def picked(values: Values, names: Sequence[str]) -> list[float | str]:
    return [values.get(name, "") for name in names]


def print_ranknet(corpora: Sequence[Corpus], stored: Stored, learners: Sequence[str] = LEARNERS) -> None:
    found = {(c.name, learner): ranknet_values(c, learner, stored) for c in corpora for learner in learners}
    names = {"plain": "{}", "rerank": "{} + rerank", "control": "{} + rerank({})", "ranknet": "{} + ranknet"}

    def rows(measures: Sequence[str]) -> Iterator[list[object]]:
        for (data, learner), made in found.items():
            for key, name in names.items():
                strength = f"strength={made['control'].get('strength', 0):g}"
                yield [data, f"`{name.format(learner, strength)}`", *picked(made[key], measures)]

    print("## RankNet beside plain re-ranking (tables 2 and 5)\n")
    table(["data", "recipe", *TAIL], list(rows(TAIL)), 2)
    table(["data", "recipe", *ALL], list(rows(ALL)), 2)
    print("### At the same P@1, and at the same PSP@1\n")
    bar = []
    for (data, learner), made in found.items():
        cells = [*picked(made["plain"], ("P@1", "PSP@1")), *picked(made["ranknet"], ("P@1", "PSP@1"))]
        for one, other, name, fixed in (
            ("ranknet", "control", "PSP@1", "P@1"),
            ("ranknet", "as rare", "P@1", "PSP@1"),
            ("again", "control again", "PSP@1", "P@1"),
        ):
            cells += _gain(made[one], made[other], name, fixed)
        bar.append([data, learner, *cells])
    heads = ["P@1 plain", "PSP@1 plain", "P@1 ranknet", "PSP@1 ranknet", "PSP@1 of rerank at that P@1", "gain"]
    heads += ["P@1 of rerank at that PSP@1", "gain", "PSP@1 of rerank, another seed", "gain"]
    table(["data", "learner", *heads], bar, 2)
    print("### What each part brings\n")
    parts = {
        "plain": "neither",
        "blend": "inverse propensity, strength from valid",
        "network": "network, step from valid",
        "ranknet": "both",
        "paper": "`ranknet(shared=false)`",
    }
    chosen = [
        [data, learner, name, *picked(made[key], ("P@1", "P@5", "PSP@1", "PSP@5", "C@1")), *_chosen(made[key])]
        for (data, learner), made in found.items()
        for key, name in parts.items()
    ]
    table(["data", "learner", "parts", "P@1", "P@5", "PSP@1", "PSP@5", "C@1", "step", "strength"], chosen, 3)


def _gain(one: Values, other: Values, name: str, fixed: str) -> list[str]:
    """The other's value and how far it is behind; in brackets what it reached, where it could not reach as much."""
    if not one or not other:
        return ["", ""]
    short = f" (at {other[fixed]:.1f})" if other[fixed] < one[fixed] - 0.1 else ""
    return [f"{other[name]:.1f}{short}", f"{one[name] - other[name]:+.1f}"]


def _chosen(values: Values) -> list[str]:
    return [f"{values[name]:g}" if name in values else "" for name in ("step", "strength")]


def print_taug(corpora: Sequence[Corpus], stored: Stored) -> None:
    def values(corpus: Corpus, method: str) -> Values:
        recipe = f"{BASE} + {method}" if method else BASE
        return stored.values(corpus.name, f"{recipe}, features", lambda: trained(corpus, recipe))

    print("## TAUG and its controls (tables 3 and 6)\n")
    names = [*TAIL, "P@1", "P@5"]
    rows = [
        [corpus.name, f"`+ {method}`" if method else f"`{BASE}`", name, *picked(values(corpus, method), names)]
        for corpus in corpora
        for method, name in TAUG.items()
    ]
    table(["data", "recipe", "in the paper", *names], rows, 3)
    names = ["PSP@1", "PSP@3", "PSP@5", "P@1", "P@5"]
    for title, setting, sweep in (
        ("Noisy copies, n_aug (figure 2)", "copies", COPIES),
        ("Share of head labels, τ (figure 5)", "head_share", HEADS),
    ):
        print(f"### {title}\n")
        rows = [
            [corpus.name, f"{value:g}", *picked(values(corpus, taug_with(setting, value)), names)]
            for corpus in corpora
            for value in sweep
        ]
        table(["data", setting, *names], rows, 2)
    print("### Mean norm of classifier rows by training rows of the label (figures 1 and 2)\n")
    methods = ["", *(taug_with("copies", value) for value in COPIES)]
    for corpus in corpora:
        made = {f"`{method or BASE}`": _norms(values(corpus, method)) for method in methods}
        sizes = sorted(set().union(*made.values()))
        rows = [
            [_between(size), *(f"{each[size]:.2f}" if size in each else "" for each in made.values())] for size in sizes
        ]
        table([f"{corpus.name}: rows", *made], rows, 1)


def _norms(values: Values) -> dict[int, float]:
    """Mean norm of the rows by the power of two that the labels' numbers of training rows do not exceed."""
    bins = {name.removeprefix("norm ").split("-")[1]: mean for name, mean in values.items() if name.startswith("norm ")}
    return {int(np.ceil(np.log2(int(high)))): mean for high, mean in bins.items()}


def _between(power: int) -> str:
    return f"{2 ** (power - 1) + 1} to {2**power}" if power > 1 else str(2**power)


def taug_with(setting: str, value: float) -> str:
    from longtail.tail.taug import Taug

    return "taug" if getattr(Taug, setting) == value else f"taug({setting}={value:g})"


def print_rivals(corpora: Sequence[Corpus], stored: Stored) -> None:
    print("## Side by side (table 4)\n")
    names = ["PSP@1", "PSP@3", "PSP@5", "P@1", "P@5", "C@1"]
    rows: list[list[object]] = []
    for corpus, recipe in product(corpora, RIVALS):
        values = stored.values(corpus.name, f"{recipe}, features", partial(trained, corpus, recipe))
        rows.append([corpus.name, f"`{recipe}`", *picked(values, names)])
    table(["data", "recipe", *names], rows, 2)


def main() -> None:
    parser = parser_for(__doc__)
    parser.add_argument("data", nargs="+", help="names or folders of data sets")
    parser.add_argument("--checkpoint-dir", type=Path, required=True, help="folder where results are stored")
    parser.add_argument(
        "--parts",
        nargs="+",
        choices=["ranknet", "taug", "rivals"],
        default=["ranknet", "taug", "rivals"],
        help="what to measure",
    )
    parser.add_argument("--learners", nargs="+", default=LEARNERS, help="under RankNet; any that a recipe can name")
    parser.add_argument("--so-far", action="store_true", help="print what is stored, train nothing")
    parser.add_argument("--rows", type=int, help="training rows to take, at most")
    options = parser.parse_args()
    options.checkpoint_dir.mkdir(parents=True, exist_ok=True)
    corpora = [smaller(longtail.load(data), options.rows) for data in options.data]
    stored = Stored(options.checkpoint_dir, options.so_far)
    if "ranknet" in options.parts:
        print_ranknet(corpora, stored, options.learners)
    vectors = [as_features(corpus) for corpus in corpora] if set(options.parts) - {"ranknet"} else []
    if "taug" in options.parts:
        print_taug(vectors, stored)
    if "rivals" in options.parts:
        print_rivals(vectors, stored)


def smaller(corpus: Corpus, rows: int | None) -> Corpus:
    """A random part of the training rows, with the label counts of that part."""
    if rows is None or rows >= len(corpus.train):
        return corpus
    train = corpus.train.take(np.sort(np.random.default_rng(0).permutation(len(corpus.train))[:rows]))
    labels = corpus.labels.counted(train.targets)
    train, valid, test = (replace(data, labels=labels) for data in (train, corpus.valid, corpus.test))
    return replace(corpus, name=f"{corpus.name}, {rows:,} rows", train=train, valid=valid, test=test)


if __name__ == "__main__":
    main()
