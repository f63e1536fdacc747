"""`fuse` beats its best member in head and tail, and other ways to combine the same members.

    python benchmarks/fuse.py DATA [DATA ...] [--rows 50000] [--keep FOLDER] [--parts alone ways fuse folds left-out]
    python benchmarks/fuse.py --keep FOLDER --page docs/results/appendix/fuse.md

`alone`, `ways`, `fuse`: on the test split every member alone, other combinations of them, and `fuse` at three places of
the dial. `folds`: the combiner learned on out-of-fold answers over train beside valid. `left-out`: what it loses
without a group of numbers, without a member, and with fewer rows, by five-fold cross-validation over valid, and on
test; nothing is chosen on test. `answers`, `fold-answers`: only fits the members, whole and fold by fold. Members are
fitted once: their answers and all results are kept in the folder that --keep names, and what is kept is not repeated.
--called names a combination of other members, as "with nets". Prints the tables of all kept results, or writes them to
the page that --page names.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

from shared.command import parser_for
from shared.fuse_answers import MemberAnswers, cut
from shared.fuse_page import page
from shared.fuse_ways import KEPT, ranked_candidates, ways
from shared.tables import append_lines, read_lines

MEMBERS = ["bm25", "centroid", "centroid(probabilities=false)", "knn", "parabel", "bonsai", "lexical"]
DIALS = (0.0, 0.3, 0.6)
KS = (1, 3, 5, 20)
FOLDS_OF_VALID = 5
SIZES = (0.1, 0.25, 0.5)  # of valid
PROBABILITIES = ("logistic model", "linear model a label", "ensemble")
PARTS = ("alone", "ways", "fuse", "folds", "left-out", "answers", "fold-answers")


class Results:
    """Results as they come: printed, and kept as a line of a file. One that is there is not computed again."""

    def __init__(self, path: Path | None) -> None:
        self.path, self.lines = path, read_lines(path)

    def has(self, data: str, part: str, name: str) -> bool:
        return any((one["data"], one["part"], one["name"]) == (data, part, name) for one in self.lines)

    def add(self, data: str, part: str, name: str, **values: Any) -> None:
        line = {"data": data, "part": part, "name": name, **values}
        self.lines.append(line)
        if self.path is not None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            append_lines(self.path, line)
        shown = {one: values["values"].get(one) for one in ("P@1", "P@5", "PSP@1", "PSP@5", "C@5", "nDCG@20", "F1@5")}
        print(data, part, name, {one: round(value, 2) for one, value in shown.items()}, file=sys.stderr, flush=True)


def measured(ranking: tuple[Any, Any], data: Any) -> tuple[dict[str, float], dict[str, float]]:
    """Measures, and points of P@5 by frequency bin."""
    from longtail import evaluate
    from longtail.predictions import Predictions, ranked

    found = evaluate(Predictions(data.labels, *ranked(*ranking)).without(data.excluded).top(20), data, ks=KS)
    return dict(found.values), {part.name: part.contribution for part in found.bins}


def learned(
    examples: Any, train: Any, members: int, places: int, seed: int = 0, groups: Any = None
) -> tuple[Any, float]:
    """The combiner, and the seconds to learn."""
    from longtail.learners.fuse import Fuse
    from longtail.linear.fusion.combiner import KEPT as GROUPS_KEPT
    from longtail.linear.fusion.combiner import LabelFacts, learn

    start = time.process_time()
    facts, growing = LabelFacts.of(train, True), Fuse(seed=seed).growing()
    combiner = learn(examples, members, places, facts, growing, groups or GROUPS_KEPT)
    return combiner, time.process_time() - start


def judged(combiner: Any, answers: Any, texts: Any) -> tuple[Any, Any]:
    """Candidates and their probabilities."""
    from longtail.linear.fusion.candidates import CandidateLists

    found = CandidateLists.joined(answers)
    return found, combiner.probabilities(found, texts)


class Combination:
    """A data set, members, and what `fuse` makes of them."""

    def __init__(self, asked: MemberAnswers, members: list[str], places: int, called: str = "") -> None:
        self.asked, self.members, self.places = asked, members, places
        self.called = f" {called}" if called else ""

    def answers(self, split: str, members: Any = None, rows: Any = None) -> list[tuple[Any, Any]]:
        chosen = self.members if members is None else members
        return [cut(self.asked.of(member)[split], self.places, rows) for member in chosen]

    def valid_examples(self, members: Any = None, rows: Any = None) -> list[Any]:
        from longtail.linear.fusion.combiner import CombinerExamples, LabelFacts

        data = self.asked.valid if rows is None else self.asked.valid.take(rows)
        return [CombinerExamples(self.answers("valid", members, rows), data, LabelFacts.of(self.asked.train, True))]

    def fold_examples(self, folds: int) -> list[Any]:
        from longtail.learners.fuse import fold_rows
        from longtail.linear.fusion.combiner import CombinerExamples, LabelFacts

        train, found = self.asked.train, []
        answers = [self.asked.out_of_fold(member, folds)["train"] for member in self.members]
        for seen, unseen in fold_rows(train, folds, 0):
            some = [cut(one, self.places, unseen) for one in answers]
            found.append(CombinerExamples(some, train.take(unseen), LabelFacts.of(train.take(seen), True)))
        return found

    def learned(self, examples: Any, seed: int = 0, groups: Any = None, members: Any = None) -> tuple[Any, float]:
        number = len(self.members if members is None else members)
        return learned(examples, self.asked.train, number, self.places, seed, groups)

    def of_split(self, combiner: Any, split: str, members: Any = None) -> tuple[Any, Any]:
        return judged(combiner, self.answers(split, members), getattr(self.asked, split).texts)

    def at_dials(
        self, results: Results, part: str, name: str, examples: Any, seeds: int, on: str = "test", **more: Any
    ) -> None:
        """Adds the measures on test, and on valid where `on` asks for both."""
        import numpy as np

        from longtail.metrics import inverse_propensity

        weight = inverse_propensity(self.asked.labels)
        found: dict[tuple[str, float], list[Any]] = {(split, dial): [] for split in on.split() for dial in DIALS}
        seconds = []
        for seed in range(seeds):
            combiner, took = self.learned(examples, seed)
            seconds.append(took)
            for split in on.split():
                candidates, scores = self.of_split(combiner, split)
                for dial in DIALS:
                    turned = scores * weight[candidates.labels] ** dial if dial else scores
                    ranking = ranked_candidates(candidates, turned)
                    found[split, dial].append(measured(ranking, getattr(self.asked, split)))

        def mean(several: list[Any], side: int) -> dict[str, float]:
            return {one: float(np.mean([each[side][one] for each in several])) for one in several[0][side]}

        for dial in DIALS:
            several = found["test", dial]
            spread = {one: float(np.ptp([each[0][one] for each in several])) for one in several[0][0]}
            extra = {"spread": spread, "seconds": float(np.mean(seconds)), "seeds": seeds, **more}
            if "valid" in on:
                extra["valid"] = mean(found["valid", dial], 0)
            values, bins = mean(several, 0), mean(several, 1)
            results.add(self.asked.name, part, f"{name}, dial {dial:g}", values=values, bins=bins, **extra)


def alone(made: Combination, beside: list[str], results: Results) -> None:
    """Members alone, and other recipes."""
    asked = made.asked
    for recipe in [*made.members, *beside]:
        if not results.has(asked.name, "alone", recipe):
            found = asked.of(recipe)
            values, bins = measured(found["test"], asked.test)
            cost = {"seconds": found["seconds"], "asking": found["asking"]}
            results.add(asked.name, "alone", recipe, values=values, bins=bins, **cost)


def other_ways(made: Combination, results: Results) -> None:
    """Other combinations of the same members."""
    asked = made.asked
    if results.has(asked.name, "ways", f"ensemble{made.called}"):
        return

    def judge(ranking: tuple[Any, Any]) -> float:
        values = measured(ranking, asked.valid)[0]
        return values["P@1"] + values["PSP@5"]

    for way, ranking in ways(made.answers("valid"), made.answers("test"), asked.valid, asked.test, made.places, judge):
        values, bins = measured(ranking, asked.test)
        if way not in PROBABILITIES:  # they lie between 0 and 1, and mean something else
            values = {name: value for name, value in values.items() if not name.startswith("ECE")}
        results.add(asked.name, "ways", f"{way}{made.called}", values=values, bins=bins)


def fused(made: Combination, seeds: int, results: Results) -> None:
    """`fuse`, learned on valid."""
    if not results.has(made.asked.name, "fuse", f"fuse{made.called}, dial 0.6"):
        made.at_dials(results, "fuse", f"fuse{made.called}", made.valid_examples(), seeds)


def folds(made: Combination, number: int, results: Results) -> None:
    """The combiner learned on out-of-fold answers over train."""
    name = f"fuse{made.called}, folds={number}"
    if not results.has(made.asked.name, "folds", f"{name}, dial 0.6"):
        cost = [made.asked.out_of_fold(member, number) for member in made.members]
        spent = sum(one["seconds"] + one["asking"] for one in cost)
        made.at_dials(results, "folds", name, made.fold_examples(number), 1, on="test valid", members=spent)


def left_out(made: Combination, only: list[str], results: Results) -> None:
    """Cross-validation over valid, all its rows ranked by trees that did not see them, and test."""
    import numpy as np

    from longtail.linear.fusion.candidate_numbers import GROUPS
    from longtail.linear.fusion.combiner import KEPT as GROUPS_KEPT

    asked = made.asked
    order = np.random.default_rng(0).permutation(len(asked.valid))

    def add(what: str, members: Any = None, groups: Any = None, share: float = 1.0) -> None:
        name = f"{what}{made.called}"
        if (only and what not in only) or results.has(asked.name, "left out", name):
            return
        labels = np.full((len(asked.valid), KEPT), -1, dtype=np.int32)
        scores = np.zeros(labels.shape, dtype=np.float32)
        for fold in range(FOLDS_OF_VALID):
            apart = np.sort(order[fold::FOLDS_OF_VALID])
            seen = np.setdiff1d(order, apart, assume_unique=True)
            seen = np.sort(seen[: int(len(seen) * share)])
            combiner, _ = made.learned(made.valid_examples(members, seen), fold, groups, members)
            found = judged(combiner, made.answers("valid", members, apart), asked.valid.take(apart).texts)
            best = ranked_candidates(*found)
            labels[apart, : best[0].shape[1]], scores[apart, : best[1].shape[1]] = best
        some = None if share == 1 else np.sort(order[: int(len(order) * share)])
        combiner, seconds = made.learned(made.valid_examples(members, some), 0, groups, members)
        on_test, _ = measured(ranked_candidates(*made.of_split(combiner, "test", members)), asked.test)
        valid, _ = measured((labels, scores), asked.valid)
        results.add(asked.name, "left out", name, values=valid, test=on_test, seconds=seconds)

    add("everything")
    for group in GROUPS_KEPT:
        if group != "members":
            add(f"without {group}", groups=tuple(one for one in GROUPS_KEPT if one != group))
    for group in sorted(set(GROUPS) - set(GROUPS_KEPT)):
        add(f"with {group}", groups=(*GROUPS_KEPT, group))
    for member in made.members if len(made.members) > 1 else []:
        add(f"without `{member}`", [one for one in made.members if one != member])
    for share in SIZES:
        add(f"{share:.0%} of valid", share=share)


def main() -> None:
    parser = parser_for(__doc__)
    parser.add_argument("data", nargs="*", help="names or folders of data sets")
    parser.add_argument("--rows", type=int, default=0, help="training rows, evenly spaced; 0: all")
    parser.add_argument("--asked", type=int, default=0, help="rows of valid and of test, evenly spaced; 0: all")
    parser.add_argument("--members", nargs="+", default=MEMBERS, help="recipes to combine")
    parser.add_argument("--beside", nargs="*", default=[], help="further recipes, shown alone")
    parser.add_argument("--candidates", type=int, default=40, help="labels that a member names at most")
    parser.add_argument("--called", default="", help="of other members: how results name it, after `fuse`")
    parser.add_argument("--parts", nargs="+", default=["alone", "ways", "fuse"], choices=PARTS)
    parser.add_argument("--only", nargs="*", default=[], help='lines of left-out, as "everything" "without `knn`"')
    parser.add_argument("--folds", type=int, default=4, help="of train")
    parser.add_argument("--seeds", type=int, default=3, help="of the trees")
    parser.add_argument("--keep", type=Path, help="folder for answers and results")
    parser.add_argument("--page", type=Path, help="write the tables of all kept results to this page")
    options = parser.parse_args()
    results = Results(None if options.keep is None else options.keep / "results.jsonl")
    for data in options.data:
        asked = MemberAnswers(data, options.rows, options.keep, options.asked)
        made = Combination(asked, options.members, options.candidates, options.called)
        for member in options.members:
            if "answers" in options.parts:
                asked.of(member)
            if "fold-answers" in options.parts:
                asked.out_of_fold(member, options.folds)
        if "alone" in options.parts:
            alone(made, options.beside, results)
        if "ways" in options.parts:
            other_ways(made, results)
        if "fuse" in options.parts:
            fused(made, options.seeds, results)
        if "folds" in options.parts:
            folds(made, options.folds, results)
        if "left-out" in options.parts:
            left_out(made, options.only, results)
    if options.page is not None:
        options.page.write_text(page(results.lines), encoding="utf-8")
    else:
        print(page(results.lines))


if __name__ == "__main__":
    main()
