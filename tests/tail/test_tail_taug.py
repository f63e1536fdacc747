from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

from lines import Lines
from longtail.catalogue import LEARNERS, learner_class
from longtail.data import Corpus, Dataset, LabelSet
from longtail.errors import RecipeError
from longtail.linear.fusion.sides import Side, TaugScorer
from longtail.linear.solvers.score_scale import ScoreCalibration
from longtail.nn.training.checkpoint import checkpointing
from longtail.plan import DataFacts
from longtail.predictions import Predictions
from longtail.progress import listening
from longtail.recipe import Recipe
from longtail.seams import Misfit, State
from longtail.store import load
from longtail.tail.taug import DecoupledLearner, Taug, facts_of_sides, restricted
from stored import check


def toy(wanted: list[list[int]], labels: int, texts: list[str] | None = None) -> Dataset:
    starts = np.concatenate([[0], np.cumsum([len(row) for row in wanted])])
    targets = sparse.csr_array(
        (np.ones(starts[-1], np.float32), np.array([label for row in wanted for label in row], np.int32), starts),
        (len(wanted), labels),
    )
    names = LabelSet(ids=tuple(f"L{row}" for row in range(labels)))
    words = texts or [" ".join(f"word{label}" for label in row) or "nothing" for row in wanted]
    data = Dataset(labels=names, targets=targets, ids=tuple(map(str, range(len(wanted)))), texts=words)
    return data.over(names.counted(targets))


def sides_of(recipe: str, data: Dataset, valid: Dataset | None = None) -> dict[str, Side]:
    scorer = Recipe.parse(recipe).fit(data, data.take([]) if valid is None else valid).scorer
    assert isinstance(scorer, TaugScorer)
    return scorer.sides


# --- the split ---


@pytest.mark.parametrize(
    ("share", "head"),
    [(0, []), (0.2, [3]), (0.4, [1, 3]), (0.5, [1, 3]), (0.6, [0, 1, 3]), (0.8, [0, 1, 2, 3]), (1, [0, 1, 2, 3, 4])],
)
def test_the_head_is_the_floor_of_the_share_and_equals_stand_in_order(share: float, head: list[int]) -> None:
    labels = LabelSet(ids=tuple("abcde"), counts=np.array([2, 5, 2, 9, 2]))
    assert np.flatnonzero(Taug(head_share=share).head(labels)).tolist() == head


def test_the_floor_does_not_stumble_over_floating_point() -> None:
    labels = LabelSet(ids=tuple(map(str, range(100))))
    for hundredths in range(101):
        assert Taug(head_share=hundredths / 100).head(labels).sum() == hundredths


def test_a_row_with_head_and_tail_labels_is_in_both_parts_with_its_own_targets() -> None:
    data = toy([[0], [0, 2], [1], [0, 1]], labels=3)  # counts 3, 2, 1
    sides = sides_of("knn + taug(head_share=0.34, copies=0)", data)
    assert sides["head"].labels.tolist() == [0]
    assert sides["tail"].labels.tolist() == [1, 2]
    # knn keeps its training rows, so its targets show what each side was given.
    assert sides["head"].scorer.targets.todense().tolist() == [[1], [1], [1]]  # rows 0, 1, 3
    assert sides["tail"].scorer.targets.todense().tolist() == [[0, 1], [1, 0], [1, 0]]  # rows 1, 2, 3


def test_parts_keep_counts_and_excluded_pairs() -> None:
    data = toy([[0], [0, 2], [1]], labels=3)
    banned = sparse.csr_array(np.array([[0, 1, 0], [0, 0, 0], [1, 0, 1]], dtype=bool))
    data = Dataset(labels=data.labels, targets=data.targets, ids=data.ids, texts=data.texts, excluded=banned)
    own = np.array([0, 2])
    labels = data.labels.take(own)
    part = restricted(data, own, labels)
    assert (labels.ids, labels.counts.tolist(), labels.train_rows) == (("L0", "L2"), [2, 1], 3)
    assert part.excluded is not None
    assert part.excluded.todense().tolist() == [[False, False], [False, False], [True, True]]
    assert part.texts == data.texts


# --- the copies ---


def test_copies_are_marked_keep_targets_and_follow_the_seed(tiny: Corpus, numbers: Corpus) -> None:
    for data in (tiny.train, numbers.train):
        more = Taug(copies=3).with_copies(data)
        rows = len(data)
        assert len(more) == 4 * rows
        assert more.origins is not None
        assert [more.origin_names[origin] for origin in more.origins[[0, rows - 1, rows, -1]]] == [
            "given",
            "given",
            "taug",
            "taug",
        ]
        for copy in range(4):
            part = more.targets[copy * rows : (copy + 1) * rows]
            assert (part != data.targets).nnz == 0
        assert np.array_equal(more.labels.counts, data.labels.counts)
        again, other = Taug(copies=3).with_copies(data), Taug(copies=3, seed=1).with_copies(data)
        if data.texts is not None:
            assert again.texts == more.texts
            assert other.texts != more.texts
        else:
            assert (again.features != more.features).nnz == 0
            assert (other.features != more.features).nnz > 0
    assert Taug(copies=0).with_copies(tiny.train) is tiny.train


def test_rows_with_texts_and_features_get_copies_of_both(tiny: Corpus, numbers: Corpus) -> None:
    train = tiny.train
    both = Dataset(
        labels=train.labels,
        targets=train.targets,
        ids=train.ids,
        texts=train.texts,
        features=numbers.train.features,
    )
    more = Taug(copies=2).with_copies(both)
    assert more.texts is not None and more.features is not None
    assert len(more.texts) == more.features.shape[0] == 3 * len(train)


def test_only_the_tail_gets_copies() -> None:
    data = toy([[0], [0, 2], [1], [0, 1]], labels=3)
    sides = sides_of("knn + taug(head_share=0.34, copies=2)", data)
    assert sides["head"].scorer.targets.shape == (3, 1)
    assert sides["tail"].scorer.targets.shape == (9, 2)


# --- one scale ---


def test_without_valid_rows_a_side_is_scaled_by_the_rows_it_saw() -> None:
    sides = sides_of("knn + taug(head_share=0.34)", toy([[0], [0, 2], [1], [0, 1], [0]], labels=3))
    assert sides["head"].scale == ScoreCalibration.of_share(4 / 5)
    assert sides["tail"].scale == ScoreCalibration.of_share(3 / 5)


@pytest.mark.parametrize("banned", [False, True])
def test_probabilities_of_valid_candidates_are_right_as_often_as_they_say(banned: bool) -> None:
    train, valid = common_and_rare(1000, 0), common_and_rare(400, 1)
    # Banned: every odd tail label that is wrong for the row, half of what the tail would answer.
    wrong = np.asarray(valid.targets.todense() == 0) & (np.arange(10) % 2 == 1) & (np.arange(10) > 1)
    excluded = sparse.csr_array(wrong) if banned else None
    valid = Dataset(labels=train.labels, targets=valid.targets, ids=valid.ids, texts=valid.texts, excluded=excluded)
    sides = sides_of("knn(neighbours=20) + taug(head_share=0.2, copies=0)", train, valid)
    for name, (places, scores, rivals) in TaugScorer(sides).rankings(valid.rows, 10).items():
        found = Predictions(train.labels, np.where(places >= 0, sides[name].labels[places], -1), scores)
        kept = (places >= 0) & ~(found.hits(excluded) if banned else np.zeros(places.shape, bool))
        probabilities, hits = sides[name].scale.of(scores, rivals)[kept], found.hits(valid.targets)[kept]
        assert probabilities.mean() == pytest.approx(hits.mean(), rel=0.05)


def test_the_papers_form_puts_raw_scores_side_by_side(tiny: Corpus, tmp_path: Path) -> None:
    model = Recipe.parse("knn(neighbours=5) + taug:paper(head_share=0.3, copies=1)").fit(tiny.train, tiny.valid)
    scorer, rows = model.scorer, tiny.test.rows
    assert isinstance(scorer, TaugScorer) and not model.probabilities
    assert all(side.scale is None for side in scorer.sides.values())
    expected = np.zeros((len(rows), 10), np.float32)  # each side's own model, asked alone
    for side in scorer.sides.values():
        labels, scores = side.scorer.top(rows, len(side.labels))
        for row in range(len(rows)):
            for label, score in zip(labels[row], scores[row], strict=True):
                if label >= 0:
                    expected[row, side.labels[label]] = score
    found = model.predict(rows, k=10)
    for row in range(len(rows)):
        filled = found.indices[row] >= 0
        order = np.lexsort((np.arange(10), -expected[row]))[: filled.sum()]
        assert found.indices[row][filled].tolist() == order.tolist()
        assert np.array_equal(found.scores[row][filled], expected[row][order])
    again = load(model.save(tmp_path / "model")).predict(rows, k=10)
    assert np.array_equal(again.indices, found.indices) and np.array_equal(again.scores, found.scores)


@pytest.mark.parametrize(
    ("recipe", "told"),
    [
        ("knn + taug(copies=1)", "only dropping words acts"),
        ("knn + taug(copies=1, keep_probability=1)", "plain duplicates"),
        ("knn(bigrams=true) + taug(copies=1)", ""),
        ("knn + taug(copies=1, swap_fraction=0)", ""),
        ("knn + taug(copies=0)", ""),
    ],
)
def test_a_note_says_where_swapping_words_changes_nothing(recipe: str, told: str, tiny: Corpus) -> None:
    notes = Lines()
    with listening(notes):
        Recipe.parse(recipe).fit(tiny.train, tiny.valid)
    swapping = [one for one in notes.lines if "swapping" in one]
    assert len(swapping) == (1 if told else 0)
    assert not told or told in swapping[0]


def common_and_rare(rows: int, seed: int) -> Dataset:
    """Label 0 or 1 by the row's word, and in one row of twenty also a rare label (2 to 9) that no word tells of."""
    rng = np.random.default_rng(seed)
    wanted, texts = [], []
    for row in range(rows):
        word = int(rng.integers(2))
        rare = [int(rng.integers(2, 10))] if row % 20 == 0 else []
        wanted.append([word, *rare])
        texts.append(f"{['apple', 'bridge'][word]} {rng.integers(20)}")
    return toy(wanted, 10, texts)


def test_the_tail_does_not_shout_down_the_head() -> None:
    """The tail's model has seen rare labels in every row it knows; only the scale tells it that they are rare."""
    train, valid, test = common_and_rare(1000, 0), common_and_rare(400, 1), common_and_rare(200, 2)
    valid, test = valid.over(train.labels), test.over(train.labels)
    sides = sides_of("knn(neighbours=3) + taug(head_share=0.2, copies=0)", train, valid)
    assert sides["head"].labels.tolist() == [0, 1]
    joined = TaugScorer(sides)
    places, loud, rivals = joined.rankings(test.rows, 1)["tail"]
    assert loud.mean() > 0.3  # as it comes, a rare label has a third of the votes or more
    probabilities = sides["tail"].scale.of(loud, rivals)
    hits = Predictions(train.labels, sides["tail"].labels[places], probabilities).hits(test.targets)
    assert hits.mean() < 0.05
    assert probabilities.mean() < 0.05
    assert (joined.top(test.rows, 1)[0] < 2).all()


# --- the two answers as one ---


def test_sides_inside_sides_have_norms_of_what_they_learned(tiny: Corpus) -> None:
    """The inner ones may end before the last label of the side that they are."""
    scorer = Recipe.parse("parabel").fit(tiny.train, tiny.valid).scorer
    inner = TaugScorer({"head": Side(scorer, np.arange(10), None)})
    norms = TaugScorer({"tail": Side(inner, np.arange(1, 13), None)}).row_norms()
    assert np.array_equal(norms[1:11], scorer.row_norms())  # type: ignore[attr-defined]
    assert np.isnan(norms[[0, 11, 12]]).all()


@pytest.mark.parametrize("recipe", ["centroid", "knn(neighbours=5)", "bm25"])
def test_each_label_comes_from_its_own_side(recipe: str, tiny: Corpus) -> None:
    sides = sides_of(f"{recipe} + taug(head_share=0.4)", tiny.train, tiny.valid)
    assert sorted([*sides["head"].labels, *sides["tail"].labels]) == list(range(10))
    joined, found = TaugScorer(sides), {}
    for name, (places, scores, rivals) in joined.rankings(tiny.test.rows, 10).items():
        other = sides["tail" if name == "head" else "head"]
        assert np.array_equal(rivals, other.scorer.top(tiny.test.rows, 1)[1])
        assert places.max() < len(sides[name].labels)  # a side knows no others
        assert (places >= 0).any()
        own = np.where(places >= 0, sides[name].labels[places], -1)
        found[name] = own, sides[name].scale.of(scores, rivals)
    labels, probabilities = joined.top(tiny.test.rows, 5)
    for row in range(len(labels)):  # the slow way: every answer of both sides in one sorted list
        pairs = [
            (-score, label)
            for own, scores in found.values()
            for label, score in zip(own[row].tolist(), scores[row].tolist(), strict=True)
            if label >= 0
        ]
        best = sorted(pairs)[:5]
        assert labels[row][labels[row] >= 0].tolist() == [label for _, label in best]
        assert probabilities[row][labels[row] >= 0].tolist() == [-score for score, _ in best]


@pytest.mark.parametrize("recipe", ["centroid", "knn(neighbours=5)", "bm25"])
def test_all_labels_in_the_head_is_the_learner_as_it_was(recipe: str, tiny: Corpus) -> None:
    plain = Recipe.parse(recipe).fit(tiny.train, tiny.valid).predict(tiny.test.rows, k=10)
    same = Recipe.parse(f"{recipe} + taug(head_share=1)").fit(tiny.train, tiny.valid).predict(tiny.test.rows, k=10)
    assert np.array_equal(plain.indices, same.indices)


def test_a_side_without_rows_is_left_out_unless_labels_are_read() -> None:
    data = toy([[0], [1], [0]], labels=3)  # the last label has no row
    named = data.over(LabelSet(ids=data.labels.ids, texts=("word0", "word1", "word2"), counts=data.labels.counts))
    assert set(sides_of("centroid + taug(head_share=0.67)", named)) == {"head"}
    assert set(sides_of("bm25 + taug(head_share=0.67)", named)) == {"head", "tail"}
    assert set(sides_of("knn + taug(head_share=0)", named)) == {"tail"}
    model = Recipe.parse("centroid + taug(head_share=0.67)").fit(named, named.take([]))
    assert model.predict(["word1"], k=3).indices.tolist() == [[1, -1, -1]]
    model = Recipe.parse("bm25 + taug(head_share=0.67)").fit(named, named.take([]))
    assert model.predict(["word2"], k=1).indices.tolist() == [[2]]


# Learners that train in a moment: no nets, no memory over a net, no answers from files.
QUICK = [
    name for name in LEARNERS if not hasattr(learner_class(name), "epochs") and name not in ("memory", "predictions")
]


@pytest.mark.parametrize("learner", QUICK)
def test_a_single_head_label_is_enough(learner: str, tiny: Corpus) -> None:
    model = Recipe.parse(f"{learner} + taug(copies=1)").fit(tiny.train, tiny.valid)
    predictions = model.predict(tiny.test.rows, k=2)
    assert predictions.hits(tiny.test.targets)[:, 0].mean() > 0.8


def test_works_on_features_and_without_held_out_rows(numbers: Corpus) -> None:
    for valid in (numbers.valid, numbers.valid.take([])):
        model = Recipe.parse("centroid + taug(head_share=0.3)").fit(numbers.train, valid)
        assert model.predict(numbers.test.rows, k=2).hits(numbers.test.targets)[:, 0].mean() > 0.9


# --- settings, saving, planning ---


def test_the_controls_are_settings(tiny: Corpus) -> None:
    recipe = "knn(neighbours=5) + taug(head_share=0.3"
    rows = len(sides_of(f"{recipe}, copies=0)", tiny.train)["tail"].scorer.targets.indptr) - 1
    for settings, copies in (("copies=2, swap_fraction=0", 2), ("copies=1, keep_probability=1", 1), ("copies=3", 3)):
        assert sides_of(f"{recipe}, {settings})", tiny.train)["tail"].scorer.targets.shape[0] == rows * (1 + copies)
    swapped = Taug(keep_probability=1, copies=1).with_copies(tiny.train)
    dropped = Taug(swap_fraction=0, copies=1).with_copies(tiny.train)
    assert swapped.texts is not None and dropped.texts is not None
    old = [text.split() for text in swapped.texts[: len(tiny.train)]]
    assert [sorted(text.split()) for text in swapped.texts[len(tiny.train) :]] == [sorted(words) for words in old]
    places = [
        [words.index(word) for word in copy.split()] for words, copy in zip(old, dropped.texts[len(old) :], strict=True)
    ]
    assert all(row == sorted(row) for row in places)
    assert sum(map(len, places)) < sum(map(len, old))


@pytest.mark.parametrize(
    "settings",
    [
        *("head_share=1.1", "head_share=-0.1", "copies=-1", "seed=-1"),
        *("keep_probability=0", "keep_probability=1.5", "swap_fraction=-1", "swap_fraction=2"),
    ],
)
def test_settings_out_of_range_are_told_before_training(settings: str) -> None:
    with pytest.raises(RecipeError, match=f"setting '{settings.split('=')[0]}' of taug"):
        Recipe.parse(f"knn + taug({settings})")


def test_at_once_is_the_same_model_and_its_stages_are_heard(tiny: Corpus) -> None:
    class Ear:
        def __init__(self) -> None:
            self.names: list[str] = []

        def start(self, name: str, total: int | None) -> int:
            self.names.append(name)
            return 0

        def advance(self, handle: int, amount: int) -> None: ...

        def finish(self, handle: int) -> None: ...

        def note(self, line: str) -> None: ...

    ear = Ear()
    with listening(ear):
        both = Recipe.parse("centroid + taug(parallel=true)").fit(tiny.train, tiny.valid)
    assert {"learning head labels", "learning tail labels", "averaging examples"} <= set(ear.names)
    apart = Recipe.parse("centroid + taug").fit(tiny.train, tiny.valid)
    first, second = both.predict(tiny.test.rows), apart.predict(tiny.test.rows)
    assert np.array_equal(first.indices, second.indices)
    assert np.array_equal(first.scores, second.scores)


def test_a_training_that_was_kept_goes_on_also_where_sides_were_to_be_fitted_at_once(
    tiny: Corpus, tmp_path: Path
) -> None:
    pytest.importorskip("torch")
    recipe = Recipe.parse("dpr(encoder='bag', dimension=8, epochs=2) + taug(parallel=true, copies=1)")
    found = []
    for _ in range(2):
        with checkpointing(tmp_path):
            found.append(recipe.fit(tiny.train, tiny.valid).predict(tiny.test.rows, 5))
    assert [path.name for path in sorted(tmp_path.glob("*-encoder"))] == ["00-encoder", "01-encoder"]
    assert np.array_equal(found[0].indices, found[1].indices) and np.array_equal(found[0].scores, found[1].scores)


def test_goes_with_rerank_and_on_itself_and_is_saved(tiny: Corpus, tmp_path: Path) -> None:
    recipe = "knn(neighbours=5) + taug(head_share=0.5) + taug(head_share=0.5, copies=1) + rerank"
    model = Recipe.parse(recipe).fit(tiny.train, tiny.valid)
    before = model.predict(tiny.test.rows)
    after = load(model.save(tmp_path / "model")).predict(tiny.test.rows)
    assert np.array_equal(before.indices, after.indices)
    assert np.array_equal(before.scores, after.scores)


def test_a_side_whose_labels_are_not_rows_is_refused(tiny: Corpus) -> None:
    state = Recipe.parse("knn + taug(head_share=0.3)").fit(tiny.train, tiny.valid).scorer.state()
    assert isinstance(check(TaugScorer, state), TaugScorer)
    for wrong in ([2, 1, 0], [-1, 1, 2], [0, 0, 1], [0, 1, 10], []):
        bent = {**state.tensors, "head.labels": np.array(wrong, dtype=np.int64)}
        with pytest.raises(Misfit, match=r"head.labels"):
            check(TaugScorer, State(state.settings, bent, state.parts))
    mixed = {"head": state.settings["head"], "tail": {}}
    with pytest.raises(Misfit, match=r"'tail' has a scale and the head has none"):
        check(TaugScorer, State(mixed, state.tensors, state.parts))
    both = {**state.tensors, "head.labels": state.tensors["tail.labels"][:3]}
    with pytest.raises(Misfit, match=r"'tail.labels' has a label that the head has, too"):
        check(TaugScorer, State(state.settings, both, state.parts))


def test_offers_what_the_learner_offers() -> None:
    learner = Recipe.parse("centroid").learner
    wrapped = Taug().wrap(learner)
    assert isinstance(wrapped, DecoupledLearner)
    assert wrapped.offers == learner.offers
    assert wrapped.data_needs == learner.data_needs


def test_plans_add_up(tiny: Corpus) -> None:
    facts = DataFacts.of(tiny.train)
    assert Recipe.parse("centroid + taug").plan(facts) == Taug().wrap(Recipe.parse("centroid").learner).plan(facts)
    plain = Recipe.parse("centroid").learner
    plans = {
        name: method.wrap(plain).plan(facts)
        for name, method in {
            "apart": Taug(copies=0),
            "copies": Taug(copies=4),
            "at once": Taug(copies=4, parallel=True),
        }.items()
    }
    assert plans["apart"].train_seconds < plans["copies"].train_seconds
    assert plans["apart"].train_bytes < plans["copies"].train_bytes < plans["at once"].train_bytes
    assert plans["copies"].model_bytes == plans["at once"].model_bytes
    head, tail = facts_of_sides(facts, Taug(copies=0))
    assert (head.labels, tail.labels) == (1, 9)
    assert abs(head.positives + tail.positives - facts.positives) <= 2
    assert facts_of_sides(facts, Taug(copies=4))[1].rows == pytest.approx(5 * tail.rows, abs=5)
    everything, nothing = facts_of_sides(facts, Taug(head_share=1))
    assert (everything.labels, nothing.labels, nothing.rows) == (10, 0, 0)
