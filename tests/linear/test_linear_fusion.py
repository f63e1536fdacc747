"""The numbers and the trees of `fuse`, each against a slow and obvious reference."""

from __future__ import annotations

import math
import os
import re
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse

from lines import Lines
from longtail.arrays import Bools, Floats, Ints
from longtail.data import Corpus, Dataset, LabelSet
from longtail.errors import LongtailError, MissingExtra
from longtail.linear.fusion import boosted_trees
from longtail.linear.fusion.boosted_trees import BoostedTrees, Growing, grow, require_lightgbm
from longtail.linear.fusion.candidate_numbers import NumberColumns, company_numbers, member_numbers
from longtail.linear.fusion.candidates import Answers, CandidateLists
from longtail.linear.fusion.combiner import MAX_WRONG, Combiner, CombinerExamples, LabelFacts, learn
from longtail.linear.fusion.label_phrases import LabelPhrases
from longtail.linear.fusion.reliability import FOLDS, LabelRecord, out_of_fold
from longtail.progress import listening

PLACES = 6


def answers(seed: int, rows: int = 30, labels: int = 25, members: int = 3) -> Answers:
    """Lists of different lengths, some of them empty."""
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(members):
        chosen = np.full((rows, PLACES), -1, dtype=np.int32)
        scores = np.zeros((rows, PLACES), dtype=np.float32)
        for row in range(rows):
            number = int(rng.integers(0, PLACES + 1))
            chosen[row, :number] = rng.choice(labels, number, replace=False)
            scores[row, :number] = np.sort(rng.random(number).astype(np.float32))[::-1] + np.float32(0.01)
        found.append((chosen, scores))
    return found


def by_hand(given: Answers, row: int) -> dict[int, list[tuple[int, float] | None]]:
    """For each label of a row, place and score by member."""
    found: dict[int, list[tuple[int, float] | None]] = {}
    for member, (labels, scores) in enumerate(given):
        for place, label in enumerate(labels[row].tolist()):
            if label >= 0:
                found.setdefault(label, [None] * len(given))[member] = (place, float(scores[row, place]))
    return found


@pytest.mark.parametrize("seed", range(3))
def test_candidates_and_their_numbers_are_those_counted_by_hand(seed: int) -> None:
    given = answers(seed)
    candidates = CandidateLists.joined(given)
    own, agreement, shares = member_numbers(candidates, PLACES)
    for row in range(30):
        begin, end = candidates.starts[row : row + 2]
        wanted = by_hand(given, row)
        assert sorted(candidates.labels[begin:end].tolist()) == sorted(wanted)
        for place in range(begin, end):
            said = wanted[int(candidates.labels[place])]
            total = 0.0
            for member, one in enumerate(said):
                scores = [score for score in given[member][1][row].tolist() if score > 0]
                best, lowest = (max(scores), min(scores)) if scores else (1.0, 1.0)
                value = math.log(one[1]) if one else math.log(lowest) - 1
                rank = one[0] if one else PLACES
                expected = [value, value - math.log(best), math.log(1 + rank)]
                np.testing.assert_allclose(own[place, 3 * member : 3 * member + 3], expected, rtol=1e-5, atol=1e-6)
                total += one[1] / best if one else 0.0
            named = [one for one in said if one]
            expected = [
                len(named),
                sum(1 / (1 + one[0]) for one in named),
                math.log(1 + min(one[0] for one in named)),
            ]
            np.testing.assert_allclose(agreement[place], expected, rtol=1e-5, atol=1e-6)
            assert shares[place] == pytest.approx(total / 3, rel=1e-5)


def test_candidates_can_be_left_out() -> None:
    candidates = CandidateLists.joined(answers(5))
    kept = np.random.default_rng(0).random(len(candidates.labels)) < 0.4
    kept[candidates.starts[3] : candidates.starts[4]] = False  # a row loses all
    fewer = candidates.take(kept)
    for row in range(30):
        part = slice(candidates.starts[row], candidates.starts[row + 1])
        left = fewer.labels[fewer.starts[row] : fewer.starts[row + 1]]
        assert left.tolist() == candidates.labels[part][kept[part]].tolist()


LABEL_TEXTS = ("red fox", "fox", "fox hunting in winter", "", "Snow!", "the red red fox", "winter")
TEXTS = ("A red fox in the snow", "fox hunting in winter and a red, fox", "", "nothing here", "winter fox")


def test_phrases_are_found_where_a_person_finds_them() -> None:
    phrases = LabelPhrases(LABEL_TEXTS)
    starts = np.arange(0, len(TEXTS) * len(LABEL_TEXTS) + 1, len(LABEL_TEXTS), dtype=np.int64)
    labels = np.tile(np.arange(len(LABEL_TEXTS), dtype=np.int32), len(TEXTS))
    found, sizes = phrases.numbers(TEXTS, starts, labels)
    words = [re.findall(r"\w+", text.lower()) for text in LABEL_TEXTS]
    holders = {word: sum(word in own for own in words) for own in words for word in own}
    idf = {word: math.log((1 + len(words)) / (1 + number)) + 1 for word, number in holders.items()}
    for row, text in enumerate(TEXTS):
        said = re.findall(r"\w+", text.lower())
        assert sizes[row] == pytest.approx(math.log(1 + len(said)))
        for label, own in enumerate(words):
            share = sum(idf[word] for word in own if word in said) / max(sum(idf[word] for word in own), 1e-9)
            places = [place for place in range(len(said)) if own and said[place : place + len(own)] == own]
            first = places[0] if places else len(said) + 1
            expected = [share, float(bool(places)), math.log(1 + first)]
            np.testing.assert_allclose(found[starts[row] + label], expected, rtol=1e-5, atol=1e-6)


def test_company_is_the_share_of_the_surest_others_rows() -> None:
    rng = np.random.default_rng(1)
    targets = (rng.random((60, 25)) < 0.2).astype(np.float32)
    together, counts = targets.T @ targets, targets.sum(axis=0)
    candidates = CandidateLists.joined(answers(2))
    surest = rng.permutation(len(candidates.labels)).astype(np.float32)
    found = company_numbers(candidates, surest, sparse.csr_array(together), counts)
    for row in range(30):
        part = range(candidates.starts[row], candidates.starts[row + 1])
        for place in part:
            others = sorted((one for one in part if one != place), key=lambda one: -surest[one])[:3]
            label = candidates.labels[place]
            held = [
                together[candidates.labels[one], label] / max(counts[candidates.labels[one]], 1e-9) for one in others
            ]
            expected = [held[0], float(np.mean(held))] if held else [0, 0]
            np.testing.assert_allclose(found[place], expected, rtol=1e-5, atol=1e-6)


def test_reliability_never_sees_the_rows_own_answer() -> None:
    """Whether a row's own candidates are right may change what other rows see, not what it sees itself."""
    candidates = CandidateLists.joined(answers(3, rows=80))
    rng = np.random.default_rng(0)
    right = rng.random(len(candidates.labels)) < 0.3
    shares = rng.random(len(candidates.labels)).astype(np.float32)
    before = out_of_fold(candidates.labels, candidates.rows, shares, right, 25, 0)
    changed = 0
    for row in range(80):
        own = candidates.rows == row
        after = out_of_fold(candidates.labels, candidates.rows, shares, right ^ own, 25, 0)
        assert np.array_equal(before[own], after[own])
        changed += not np.array_equal(before[~own], after[~own])
    assert changed > 40


def test_reliability_counts_the_other_folds() -> None:
    labels, rows = np.zeros(40, dtype=np.int32), np.arange(40, dtype=np.int32)
    right, shares = np.ones(40, dtype=np.bool_), np.full(40, 0.5, dtype=np.float32)
    seen = out_of_fold(labels, rows, shares, right, 3, 0)
    others = 40 - 40 // FOLDS
    expected = [math.log((others + 1) / (others / 2 + 1)), math.log(1 + others), math.log(1 + others)]
    np.testing.assert_allclose(seen, np.tile(expected, (40, 1)), rtol=1e-5)
    assert (
        LabelRecord.of(labels, shares, right, 3).with_labels(5).numbers(np.array([2, 3, 4], np.int32)).tolist()
        == [[0, 0, 0]] * 3
    )


def lesson_data(seed: int, rows: int = 4000, width: int = 8) -> tuple[Floats, Bools]:
    rng = np.random.default_rng(seed)
    numbers = rng.normal(size=(rows, width)).astype(np.float32)
    odds = 2 * numbers[:, 0] - (numbers[:, 1] > 0.3) * numbers[:, 2] - 1
    return numbers, rng.random(rows) < 1 / (1 + np.exp(-odds))


@pytest.mark.parametrize("depth", [1, 2, 3, 6])
def test_our_kernel_walks_trees_as_lightgbm_does(depth: int, monkeypatch: pytest.MonkeyPatch) -> None:
    numbers, right = lesson_data(0)
    boosters = []
    lightgbm = require_lightgbm()
    real = lightgbm.train

    def kept(*given: object, **named: object) -> object:
        boosters.append(real(*given, **named))
        return boosters[-1]

    monkeypatch.setattr(lightgbm, "train", kept)
    for held_out in (None, np.arange(len(right)) % 5 == 0):
        trees = grow(numbers, right, held_out, Growing(trees=40, leaves=9, max_depth=depth, min_leaf=20))
        used = None if held_out is None else boosters[-1].best_iteration
        expected = boosters[-1].predict(numbers, raw_score=True, num_iteration=used)
        np.testing.assert_allclose(trees.log_odds(numbers), expected, atol=1e-6)
        again = BoostedTrees.from_tensors(trees.tensors(), 8)
        assert np.array_equal(again.log_odds(numbers), trees.log_odds(numbers))


def test_trees_do_not_depend_on_the_number_of_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    numbers, right = lesson_data(1)
    grown = []
    for threads in ("1", "2", "3"):
        monkeypatch.setenv("LONGTAIL_THREADS", threads)
        grown.append(grow(numbers, right, None, Growing(trees=20, leaves=7, min_leaf=20)).log_odds(numbers))
    assert np.array_equal(grown[0], grown[1]) and np.array_equal(grown[0], grown[2])


def test_trees_of_a_single_leaf() -> None:
    numbers, right = lesson_data(2, rows=200)
    trees = grow(numbers, right, None, Growing(trees=3, min_leaf=1000))
    odds = math.log(right.mean() / (1 - right.mean()))
    np.testing.assert_allclose(trees.log_odds(numbers), odds, atol=1e-4)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("children", lambda array: np.zeros_like(array)),  # back to the root
        ("children", lambda array: array + np.int32(10_000)),
        ("columns", lambda array: array + np.int32(8)),
        ("thresholds", lambda array: array * np.nan),
        ("leaves", lambda array: array[:-1]),
        ("roots", lambda array: array + np.int32(10_000)),
    ],
)
def test_damaged_trees_are_refused(name: str, change: object) -> None:
    numbers, right = lesson_data(3)
    tensors = grow(numbers, right, None, Growing(trees=2, leaves=5)).tensors()
    tensors[f"trees.{name}"] = change(tensors[f"trees.{name}"])  # type: ignore[operator]
    with pytest.raises(ValueError):
        BoostedTrees.from_tensors(tensors, 8)


def test_a_missing_lightgbm_and_a_missing_openmp_are_different(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> object:
        raise ImportError(name)

    def broken(name: str) -> object:
        raise OSError("libgomp.so.1: cannot open shared object file: No such file or directory")

    monkeypatch.setattr(boosted_trees, "import_module", missing)
    with pytest.raises(MissingExtra, match=r"pip install 'longtail\[fuse\]'"):
        require_lightgbm()
    monkeypatch.setattr(boosted_trees, "import_module", broken)
    with pytest.raises(LongtailError, match=r"cannot load libgomp\.so\.1.*apt install libgomp1"):
        require_lightgbm()
    assert "OMP_WAIT_POLICY" not in os.environ


def some_examples(corpus: Corpus, seed: int = 0) -> CombinerExamples:
    """Members that know something of the right labels of valid."""
    rng = np.random.default_rng(seed)
    truth = corpus.valid.targets.toarray()
    found = []
    for noise in (0.3, 0.6):
        scores = (truth + noise * rng.random(truth.shape)).astype(np.float32)
        order = np.argsort(-scores, axis=1)[:, :PLACES].astype(np.int32)
        found.append((order, np.take_along_axis(scores, order, axis=1)))
    return CombinerExamples(found, corpus.valid, LabelFacts.of(corpus.train, True))


def learned(some: CombinerExamples, **settings: object) -> Combiner:
    growing = replace(Growing(trees=30, leaves=5, min_leaf=5), **settings)  # type: ignore[arg-type]
    return learn([some], 2, PLACES, some.facts, growing)


def test_sampled_wrong_candidates_leave_probabilities_as_they_are(
    tiny: Corpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A share of the wrong candidates is learned from, and the odds are corrected by that share."""
    some = some_examples(tiny)
    candidates = CandidateLists.joined(some.answers)
    whole = learned(some).probabilities(candidates, tiny.valid.texts)
    wrong = len(candidates.labels) - some.data.targets.nnz
    monkeypatch.setattr("longtail.linear.fusion.combiner.MAX_WRONG", wrong // 2)
    fewer = learned(some)
    assert fewer.log_kept == pytest.approx(math.log(0.5), abs=0.02) and wrong < MAX_WRONG
    sampled = fewer.probabilities(candidates, tiny.valid.texts)
    assert sampled.mean() == pytest.approx(whole.mean(), rel=0.1)
    assert sampled.mean() == pytest.approx(some.data.targets.nnz / len(candidates.labels), rel=0.1)


def test_a_combiner_with_too_little_to_learn_from_averages_its_members(tiny: Corpus) -> None:
    some = some_examples(tiny)
    few = CombinerExamples(
        [(labels[:3], scores[:3]) for labels, scores in some.answers],
        tiny.valid.take([0, 1, 2]),
        some.facts,
    )
    combiner = learned(few)
    assert combiner.trees is None
    candidates = CandidateLists.joined(few.answers)
    assert np.array_equal(combiner.probabilities(candidates, None), member_numbers(candidates, PLACES)[2])


def test_why_nothing_is_learned_is_said(tiny: Corpus) -> None:
    some, heard = some_examples(tiny), Lines()
    truth = tiny.valid.targets.toarray()
    order = np.argsort(-truth, axis=1)[:, :2].astype(np.int32)  # every row has two labels
    right = CombinerExamples([(order, np.take_along_axis(truth, order, axis=1))] * 2, tiny.valid, some.facts)
    with listening(heard):
        assert learned(right).trees is None
        first = [(labels[:1], scores[:1]) for labels, scores in some.answers]
        assert learned(replace(some, answers=first, data=tiny.valid.take([0]))).trees is None
    assert "no candidate is wrong, so nothing to learn from" in heard.lines[0]
    assert "only 2 candidates are right, too few to learn from" in heard.lines[1]


def test_the_frequency_of_a_label_does_not_depend_on_the_row() -> None:
    """The trap: "count less this row's own target" is 0 for a label with one row only where it is right; trees learn
    that sign. The counts come from the rows that the members were fitted on, whatever the rows to learn from."""
    labels = LabelSet(ids=tuple("abc"), texts=("a", "b", "c"))
    dense = np.array([[1, 0, 0], [1, 1, 0], [1, 0, 1]], dtype=np.float32)
    train = Dataset(labels=labels, targets=sparse.csr_array(dense), ids=("1", "2", "3"), texts=("x", "y", "z"))
    held_out = train.take([2])
    # The label set counts all rows given, those too that were held out afterwards.
    counted = train.over(labels.counted(train.targets))
    assert counted.labels.counts.tolist() == [3, 1, 1]
    assert LabelFacts.of(counted.take([0, 1]), False).counts.tolist() == [2, 1, 0]
    given: list[tuple[Ints, Floats]] = [(np.array([[0, 1, 2]], np.int32), np.array([[3, 2, 1]], np.float32))]
    some = CombinerExamples(given, held_out, LabelFacts.of(counted.take([0, 1]), True))
    from longtail.linear.fusion.combiner import _Joined

    columns = NumberColumns(1, ("members", "frequency"))
    joined = _Joined.of(some, 0)
    assert joined.right.tolist() == [True, False, True]
    numbers = joined.numbers(columns, PLACES, LabelPhrases(labels.texts))
    np.testing.assert_allclose(numbers[:, columns.of("frequency")][:, 0], np.log1p([2, 1, 0]), rtol=1e-6)


def test_rows_that_tail_methods_added_do_not_count(tiny: Corpus) -> None:
    added = tiny.train.with_rows(targets=tiny.train.targets[:5], origin="test", texts=tiny.train.texts[:5])
    before, after = LabelFacts.of(tiny.train, True), LabelFacts.of(added, True)
    assert np.array_equal(before.counts, after.counts) and before.together is not None
    assert np.array_equal(before.together.toarray(), after.together.toarray())
    dense = (tiny.train.targets.toarray() > 0).astype(np.float32)
    assert np.array_equal(before.together.toarray(), dense.T @ dense)
    more = before.with_rows(sparse.csr_array(np.eye(2, 12, dtype=np.float32)))
    assert more.counts[:2].tolist() == (before.counts[:2] + 1).tolist() and len(more.counts) == 12
    assert more.together is not None and more.together[0, 0] == before.together[0, 0] + 1


def test_predicting_loads_no_lightgbm() -> None:
    code = "import longtail.learners.fuse, sys; print('lightgbm' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
