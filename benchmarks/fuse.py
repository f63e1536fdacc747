"""`fuse` beats its best member in head and tail, and other ways to combine the same members.

    python benchmarks/fuse.py wordnet [DATA ...] [--members "bm25" "knn" ...] [--seeds 3] [--ablate] [--keep FOLDER]

Prints, on the test split, every member alone, four plain combinations, and `fuse` at three places of the dial. The
members are fitted once; their answers are kept in a folder, where --keep names one. With --ablate, what the combiner
loses on the valid and the test split without a group of numbers, without a member, and with fewer rows to learn from;
on valid, it learns on four fifths and is measured on the rest. Nothing is chosen on test.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from shared.command import parser_for
from shared.splits import with_test
from shared.tables import at_ks, cells, header, row

MEMBERS = ["bm25", "centroid", "centroid(probabilities=false)", "knn", "parabel", "bonsai"]
MEASURES = [*at_ks("P", "PSP", "C"), "nDCG@20", "F1@5", "ECE@5"]
FEWER = ["P@1", "P@5", "PSP@1", "PSP@5", "C@5", "ECE@5"]
DIALS = (0.0, 0.3, 0.6)
PLACES = 40


class Answered:
    """The members' answers for valid and test, and the seconds that each took."""

    def __init__(self, corpus: Any, members: list[str], keep: Path | None) -> None:
        self.corpus, self.members = corpus, members
        self.valid, self.test, self.seconds = [], [], []
        for member in members:
            valid, test, seconds = self.ask(member, keep)
            self.valid.append(valid)
            self.test.append(test)
            self.seconds.append(seconds)

    def ask(self, member: str, keep: Path | None) -> tuple[Any, Any, float]:
        import numpy as np

        import longtail
        from longtail.seams import FittedMember

        plain = "".join(letter if letter.isalnum() else "-" for letter in member)
        path = None if keep is None else keep / f"{self.corpus.name}-{plain}.npz"
        if path is not None and path.exists():
            found = np.load(path)
            return (found["a"], found["b"]), (found["c"], found["d"]), float(found["seconds"])
        start = time.perf_counter()
        model = longtail.Recipe.parse(member).fit(self.corpus.train, self.corpus.valid)
        seconds = time.perf_counter() - start
        fitted = FittedMember.of(model, self.corpus.labels)
        valid, test = (
            fitted.top(part.rows, PLACES, self.corpus.labels) for part in (self.corpus.valid, self.corpus.test)
        )
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            np.savez(path, a=valid[0], b=valid[1], c=test[0], d=test[1], seconds=seconds)
        return valid, test, seconds


def measured(labels: Any, scores: Any, data: Any) -> dict[str, float]:
    """The measures of a ranking, and F1@5 as a mean over rows."""
    import numpy as np

    from longtail import evaluate
    from longtail.predictions import Predictions, ranked

    found = Predictions(data.labels, *ranked(labels, scores)).without(data.excluded).top(20)
    values = dict(evaluate(found, data, ks=(1, 3, 5, 20)).values)
    hits, truth = found.hits(data.targets)[:, :5].sum(axis=1), np.diff(data.targets.indptr)
    values["F1@5"] = 100 * float(np.mean(2 * hits / np.maximum(5 + truth, 1)))
    return values


def padded(candidates: Any, scores: Any) -> tuple[Any, Any]:
    """Candidates as (rows, places)."""
    from longtail.linear.fusion.fuse_scorer import best_candidates

    return best_candidates(candidates, scores, 100)


def plain_combinations(asked: Answered) -> dict[str, tuple[Any, Any]]:
    """Mean, reciprocal ranks, the best weighted mean by valid, and a logistic model over the members' numbers."""
    import numpy as np

    from longtail.linear.fusion.candidate_numbers import member_numbers
    from longtail.linear.fusion.candidates import CandidateLists
    from longtail.linear.solvers.logistic import newton_logistic

    valid, test = CandidateLists.joined(asked.valid), CandidateLists.joined(asked.test)

    def shares(found: Any) -> Any:
        return found.scores / found.best[found.rows]

    def mean(found: Any, weights: Any) -> Any:
        return (shares(found) @ weights).astype(np.float32)

    def reciprocal(found: Any) -> Any:
        return np.where(found.places >= 0, 1 / (60.0 + found.places + 1), 0).sum(axis=1).astype(np.float32)

    weights, best = np.ones(len(asked.members)), -1.0
    for _ in range(2):  # one member after the other, twice
        for member in range(len(weights)):
            for factor in (0.0, 0.25, 0.5, 2.0, 4.0):
                tried = weights.copy()
                tried[member] *= factor
                value = measured(*padded(valid, mean(valid, tried)), asked.corpus.valid)
                if value["P@1"] + value["PSP@5"] > best:
                    best, weights = value["P@1"] + value["PSP@5"], tried
    inputs = np.concatenate([member_numbers(valid, PLACES)[0], np.ones((len(valid.labels), 1))], axis=1)
    fitted = newton_logistic(inputs.astype(np.float64), right_of(valid, asked.corpus.valid).astype(np.float64))
    outputs = np.concatenate([member_numbers(test, PLACES)[0], np.ones((len(test.labels), 1))], axis=1)
    linear = 1 / (1 + np.exp(-np.clip(outputs @ fitted, -30, 30)))
    return {
        "mean": padded(test, mean(test, np.ones(len(weights)))),
        "reciprocal rank fusion": padded(test, reciprocal(test)),
        "weighted mean": padded(test, mean(test, weights)),
        "logistic model": padded(test, linear.astype(np.float32)),
    }


def right_of(candidates: Any, data: Any) -> Any:
    from longtail.linear.fusion.combiner import _held

    return _held(candidates, data.targets)


def combined(
    asked: Answered, data: Any, answers: Any, seed: int, groups: Any = None, learn_on: Any = None, **settings: Any
) -> tuple[Any, Any, float]:
    """Candidates, probabilities and the seconds to learn: on valid, or on some rows of it."""
    from longtail.linear.fusion.boosted_trees import Growing
    from longtail.linear.fusion.candidates import CandidateLists
    from longtail.linear.fusion.combiner import KEPT, CombinerExamples, LabelFacts, learn

    valid, learned = asked.corpus.valid, asked.valid
    if learn_on is not None:
        valid = valid.take(learn_on)
        learned = [(labels[learn_on], scores[learn_on]) for labels, scores in learned]
    facts = LabelFacts.of(asked.corpus.train, True)
    start = time.perf_counter()
    growing = Growing(seed=seed, **settings)
    combiner = learn([CombinerExamples(learned, valid, facts)], len(learned), PLACES, facts, growing, groups or KEPT)
    seconds = time.perf_counter() - start
    found = CandidateLists.joined(answers)
    return found, combiner.probabilities(found, data.texts), seconds


def tables(asked: Answered, seeds: int) -> None:
    import numpy as np

    from longtail.metrics import inverse_propensity

    corpus = asked.corpus
    name, weight = f"{corpus.name}", inverse_propensity(corpus.labels)
    print(header(["data", "recipe", *MEASURES, "train s"], words=2))
    for member, (labels, scores), seconds in zip(asked.members, asked.test, asked.seconds, strict=True):
        values = measured(labels, scores, corpus.test)
        print(row([name, f"`{member}`", *cells(values, MEASURES), f"{seconds:.0f}"]), flush=True)
    for way, (labels, scores) in plain_combinations(asked).items():
        print(row([name, way, *cells(measured(labels, scores, corpus.test), MEASURES), ""]), flush=True)
    found: dict[float, list[dict[str, float]]] = {dial: [] for dial in DIALS}
    took = []
    for seed in range(seeds):
        candidates, scores, seconds = combined(asked, corpus.test, asked.test, seed)
        took.append(seconds)
        for dial in DIALS:
            turned = scores * weight[candidates.labels] ** dial
            found[dial].append(measured(*padded(candidates, turned.astype(np.float32)), corpus.test))
    for dial, values in found.items():
        means = {one: float(np.mean([value[one] for value in values])) for one in MEASURES if one in values[0]}
        print(row([name, f"fuse, dial {dial:g}", *cells(means, MEASURES), f"{np.mean(took):.1f}"]), flush=True)
    spread = {one: float(np.ptp([value[one] for value in found[0.0]])) for one in MEASURES}
    print(f"\n{seeds} seeds of the trees; largest less smallest at dial 0: {row(cells(spread, MEASURES, 2))}\n")


def ablations(asked: Answered) -> None:
    import numpy as np

    from longtail.linear.fusion.candidate_numbers import GROUPS
    from longtail.linear.fusion.combiner import KEPT

    corpus = asked.corpus
    rng = np.random.default_rng(0)
    fold = rng.permutation(len(corpus.valid)) % 5
    learned, judged = np.flatnonzero(fold > 0), np.flatnonzero(fold == 0)
    held_out = corpus.valid.take(judged)
    judged_answers = [(labels[judged], scores[judged]) for labels, scores in asked.valid]

    def line(what: str, asked_of: Answered, members: list[int], groups: Any, share: float = 1.0) -> None:
        part = Answered.__new__(Answered)
        part.corpus, part.members = corpus, [asked_of.members[one] for one in members]
        part.valid = [asked_of.valid[one] for one in members]
        on_valid = []
        for number in range(3):  # other trees, so that a difference is more than the luck of one seed
            rows = learned[: int(len(learned) * share)]
            answers = [judged_answers[one] for one in members]
            candidates, scores, _ = combined(part, held_out, answers, number, groups, rows)
            on_valid.append(measured(*padded(candidates, scores), held_out))
        whole = rng.permutation(len(corpus.valid))[: int(len(corpus.valid) * share)] if share < 1 else None
        candidates, scores, seconds = combined(
            part, corpus.test, [asked_of.test[one] for one in members], 0, groups, whole
        )
        test = measured(*padded(candidates, scores), corpus.test)
        means = {one: float(np.mean([value[one] for value in on_valid])) for one in FEWER}
        print(row([corpus.name, what, *cells(means, FEWER, 2), *cells(test, FEWER, 2), f"{seconds:.1f}"]), flush=True)

    every = list(range(len(asked.members)))
    print(header(["data", "combiner", *(f"valid {one}" for one in FEWER), *FEWER, "s"], words=2))
    line("everything", asked, every, KEPT)
    for group in KEPT:
        if group != "members":
            line(f"without {group}", asked, every, tuple(one for one in KEPT if one != group))
    for group in sorted(set(GROUPS) - set(KEPT)):
        line(f"with {group}", asked, every, (*KEPT, group))
    for member in every if len(every) > 1 else []:
        line(f"without `{asked.members[member]}`", asked, [one for one in every if one != member], KEPT)
    for share in (0.1, 0.25, 0.5):
        line(f"{share:.0%} of valid", asked, every, KEPT, share)
    print()


def main() -> None:
    parser = parser_for(__doc__)
    parser.add_argument("data", nargs="+", help="names or folders of data sets")
    parser.add_argument("--members", nargs="+", default=MEMBERS, help="recipes to combine")
    parser.add_argument("--seeds", type=int, default=1, help="of the trees")
    parser.add_argument("--ablate", action="store_true", help="also print what each group and member brings")
    parser.add_argument("--keep", type=Path, help="folder for the members' answers")
    options = parser.parse_args()
    for data in options.data:
        asked = Answered(with_test(data), options.members, options.keep)
        tables(asked, options.seeds)
        if options.ablate:
            ablations(asked)


if __name__ == "__main__":
    main()
