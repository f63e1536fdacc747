"""Labels as rows with soft targets: what is added, what stays as it was, and every variant."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from lines import Lines
from longtail.data import Corpus, Dataset, LabelSet
from longtail.data.labels import Propensity
from longtail.errors import DataError, RecipeError
from longtail.metrics.frequency import equi_volume_bins
from longtail.metrics.propensity import inverse_propensity
from longtail.plan import DataFacts
from longtail.progress import listening
from longtail.recipe import Recipe
from longtail.tail.gandalf import Gandalf
from longtail.tail.rows import LabelRows

DENSE = np.array(
    # cat dog pet unseen bare
    [[1, 0, 1, 0, 0], [1, 0, 1, 0, 0], [1, 0, 0, 0, 0], [0, 1, 1, 0, 0], [0, 1, 1, 0, 1]],
    dtype=np.float32,
)


def animals(texts: bool = True, features: bool = False, soft: bool = False) -> Dataset:
    """cat 3 rows, dog 2, pet 4, a label that no row has, and one without a text."""
    dense = DENSE * np.float32(0.5) if soft else DENSE
    labels = LabelSet(
        ids=("c", "d", "p", "u", "b"),
        texts=("a cat", "a dog", "a pet", "unseen", " ") if texts else (),
        features=sparse.csr_array(np.eye(5, 7, dtype=np.float32) * [[1], [1], [1], [1], [0]]) if features else None,
        propensity=Propensity(0.6, 2.6),
    )
    targets = sparse.csr_array(dense)
    return Dataset(
        labels=labels.counted(targets),
        targets=targets,
        ids=tuple("vwxyz"),
        texts=("cat pet", "cat pet here", "cat", "dog pet", "dog pet bare") if texts else None,
        features=sparse.csr_array(np.eye(5, 7, dtype=np.float32)) if features else None,
    )


def added(data: Dataset, name: str) -> Dataset:
    assert data.origins is not None
    return data.take(np.flatnonzero(data.origins == data.origin_names.index(name)))


def test_targets_are_the_shares_of_a_labels_rows() -> None:
    """Equation 6 by hand: two of three rows with cat have pet, half of the rows with pet have cat or dog."""
    data = Gandalf().augment(animals())
    new = added(data, "gandalf")
    assert new.texts == ("a cat", "a dog", "a pet", "unseen")  # the label without a text gets no row
    third = np.float32(2 / 3)
    expected = [[1, 0, third, 0, 0], [0, 1, 1, 0, 0.5], [0.5, 0.5, 1, 0, 0.25], [0, 0, 0, 1, 0]]
    assert np.array_equal(new.targets.toarray(), np.array(expected, dtype=np.float32))
    assert new.ids == ("gandalf:c", "gandalf:d", "gandalf:p", "gandalf:u")


def test_a_long_row_links_none_of_its_labels() -> None:
    """Without the last row, which has three labels, dog has one row, and a third of the rows with pet has it."""
    data = Gandalf(max_labels=2).augment(animals())
    third = np.float32(1 / 3)
    expected = [[1, 0, 2 * third, 0, 0], [0, 1, 1, 0, 0], [2 * third, third, 1, 0, 0], [0, 0, 0, 1, 0]]
    np.testing.assert_allclose(added(data, "gandalf").targets.toarray(), expected, rtol=1e-6)
    assert np.array_equal(data.targets[:5].toarray(), DENSE)  # it is trained on as before


@pytest.mark.parametrize("graph", ["cooccurrence", "walk", "symmetric"])
def test_no_graph_sees_a_long_row(graph: Any) -> None:
    given, method = sparse.csr_array(DENSE), Gandalf(graph=graph, max_labels=2, prior_count=1.0)
    found, wanted = method.soft_targets(given), replace(method, max_labels=None).soft_targets(given[:4])
    assert np.array_equal(found.toarray(), wanted.toarray()) and found.nnz > 5


@pytest.mark.parametrize(
    ("method", "rows", "told"),
    [
        (Gandalf(), 100, "these documents are left out of the counts, max_labels=none"),
        (Gandalf(), 99, "max_labels=100 leaves these documents out"),  # one in 99 is not few
        (Gandalf(max_labels=None), 100, "max_labels=100 leaves these documents out"),
        (Gandalf(max_labels=100), 100, ""),
        (Gandalf(self_only=True), 100, ""),
    ],
)
def test_a_few_rows_that_make_most_pairs_are_told_and_left_out(method: Gandalf, rows: int, told: str) -> None:
    dense = np.zeros((rows, 101), dtype=np.float32)
    dense[0], dense[1:, :3] = 1, 1  # one row of 101 labels, and the others of three
    labels = LabelSet(ids=tuple(map(str, range(101))), texts=tuple(map(str, range(101))))
    targets = sparse.csr_array(dense)
    ids = tuple(map(str, range(rows)))
    train = Dataset(labels=labels.counted(targets), targets=targets, ids=ids, texts=("text",) * rows)
    notes, short = Lines(), train.take(np.arange(1, rows))
    with listening(notes):
        soft = added(method.augment(train), "gandalf").targets
        method.augment(short)
    assert len(notes.lines) == (1 if told else 0)
    if told:
        beginning = f"gandalf: 1 of {rows} documents have more than 100 labels and make 94% of all pairs of labels; "
        assert notes.lines[0].startswith(beginning + told)
    assert soft[[50]].nnz == (1 if "are left out" in told or not told else 101)
    assert (soft[[0]].nnz == 3) == (not method.self_only)


def test_rows_of_many_labels_link_where_they_are_what_the_data_is_like() -> None:
    """Two rows of 101 labels in 200, which make less than half of the pairs beside rows of 50."""
    dense = np.zeros((200, 101), dtype=np.float32)
    dense[:2], dense[2:, :50] = 1, 1
    notes = Lines()
    with listening(notes):
        found = Gandalf().soft_targets(sparse.csr_array(dense))
    assert notes.lines == [] and found[[100]].nnz == 101


def test_given_rows_stay_as_they_are() -> None:
    before, after = animals(), Gandalf().augment(animals())
    assert len(after) == 9 and after.texts is not None and after.texts[:5] == before.texts
    assert np.array_equal(after.targets[:5].toarray(), before.targets.toarray())
    assert after.origins is not None and after.origins.tolist() == [0] * 5 + [1] * 4
    assert after.origin_names == ("given", "gandalf")


@pytest.mark.parametrize("method", [Gandalf(), LabelRows(), Gandalf(rows_only=True), Gandalf(budget=True)])
def test_counts_and_propensities_are_those_of_the_rows_given(method: Gandalf | LabelRows) -> None:
    before, after = animals(), method.augment(animals())
    assert after.labels == before.labels and after.labels.train_rows == 5
    assert np.array_equal(inverse_propensity(after.labels), inverse_propensity(before.labels))


def test_thresholds_caps_and_floors() -> None:
    def kept(**settings: object) -> list[list[float]]:
        return added(Gandalf(**settings).augment(animals()), "gandalf").targets.toarray().tolist()  # type: ignore[arg-type]

    assert kept(threshold=0.5)[2] == [0, 0, 1, 0, 0]  # a share of 0.5 is not above 0.5
    assert kept(max_soft_targets=1)[1] == [0, 1, 1, 0, 0]  # dog: pet in all its rows, bare in half
    assert kept(max_soft_targets=1)[2] == [0.5, 0, 1, 0, 0]  # of equal shares the first label
    assert kept(max_soft_targets=0) == kept(self_only=True)
    assert kept(min_cooccurrence=2)[1] == [0, 1, 1, 0, 0]  # dog and bare stand together once


def test_soft_targets_are_lowered_and_the_label_itself_is_not() -> None:
    """By hand: cat has 3 rows, dog 2, pet 4; with a doubt of 2 they count as 5, 4 and 6."""
    plain = added(Gandalf().augment(animals()), "gandalf").targets.toarray()
    halved = added(Gandalf(soft_scale=0.5).augment(animals()), "gandalf").targets.toarray()
    own = np.eye(5, dtype=bool)[:4]
    assert np.array_equal(halved, np.where(own, plain, plain / 2))
    doubted = added(Gandalf(soft_scale=0.5, prior_count=2).augment(animals()), "gandalf").targets.toarray()
    expected = [[1, 0, 1 / 5, 0, 0], [0, 1, 1 / 4, 0, 1 / 8], [1 / 6, 1 / 6, 1, 0, 1 / 12], [0, 0, 0, 1, 0]]
    assert doubted == pytest.approx(np.array(expected), rel=1e-6)
    for graph in ("walk", "symmetric"):
        soft = added(Gandalf(graph=graph).augment(animals()), "gandalf").targets.toarray()  # type: ignore[arg-type]
        less = added(Gandalf(graph=graph, soft_scale=0.5).augment(animals()), "gandalf").targets.toarray()  # type: ignore[arg-type]
        assert np.array_equal(less, np.where(own, soft, soft / 2)) and soft[~own].any()


def test_label_rows_stand_several_times() -> None:
    once, thrice = (Gandalf(repeats=times).augment(animals()) for times in (1, 3))
    new = added(thrice, "gandalf")
    assert len(thrice) == 5 + 3 * 4 and thrice.texts[:5] == animals().texts  # type: ignore[index]
    assert new.texts == 3 * added(once, "gandalf").texts  # type: ignore[operator]
    assert np.array_equal(new.targets.toarray()[4:8], added(once, "gandalf").targets.toarray())
    alone = Gandalf(repeats=2, rows_only=True).augment(animals())
    assert len(alone) == 8
    facts = DataFacts.of(animals())
    before = Recipe.parse("parabel").plan(facts)
    assert Gandalf(repeats=3).plan_on(before, facts).train_seconds > Gandalf().plan_on(before, facts).train_seconds


def test_rows_is_the_identity() -> None:
    new = added(LabelRows().augment(animals()), "rows")
    assert np.array_equal(new.targets.toarray(), np.eye(5, dtype=np.float32)[:4])
    same = added(Gandalf(self_only=True).augment(animals()), "gandalf")
    assert np.array_equal(same.targets.toarray(), new.targets.toarray()) and same.texts == new.texts


def test_soft_rows_are_probabilities() -> None:
    """Where every target is a half, two of cat's rows are pet's with a probability of a half each."""
    new = added(Gandalf(threshold=0).augment(animals(soft=True)), "gandalf")
    assert np.isclose(new.targets.toarray()[0, 2], (2 * 0.25) / (3 * 0.5))
    assert (new.targets.diagonal() == 1).all()


def test_symmetric_targets_are_logistic() -> None:
    new = added(Gandalf(graph="symmetric").augment(animals()), "gandalf").targets.toarray()
    mean = 0.5 * (2 / 3 + 2 / 4)
    assert np.isclose(new[0, 2], 1 / (1 + np.exp(-mean))) and np.isclose(new[2, 0], new[0, 2])
    assert (new.diagonal() == 1).all()
    assert new[0, 1] == 0  # never together: no target, though the logistic function of 0 is a half


def test_walks_link_what_stands_together() -> None:
    targets = added(Gandalf(graph="walk", threshold=0).augment(animals()), "gandalf").targets
    new = targets.toarray()
    assert new[0, 2] > 0.3 and new[1, 2] > 0.5 and new[3].tolist() == [0, 0, 0, 1, 0]
    assert new[0, 1] > 0  # cat to pet to dog: two steps away
    assert np.array_equal(
        new, added(Gandalf(graph="walk", threshold=0).augment(animals()), "gandalf").targets.toarray()
    )


def test_rows_only_and_budget() -> None:
    alone = Gandalf(rows_only=True).augment(animals())
    assert alone.texts == ("a cat", "a dog", "a pet", "unseen")
    assert np.array_equal(alone.targets.toarray(), added(Gandalf().augment(animals()), "gandalf").targets.toarray())
    drawn = [Gandalf(budget=True, seed=seed).augment(animals()) for seed in range(30)]
    assert {len(data) for data in drawn} == {5}
    from_labels = np.mean([np.mean(data.origins) for data in drawn])
    assert abs(from_labels - 4 / 9) < 0.12  # each row of either kind with the same probability
    assert all(len(set(data.ids)) == 5 for data in drawn)


def test_rows_only_goes_on_a_learner_that_begins_with_another(tiny: Corpus) -> None:
    """The model it begins with is trained on the rows as given, of which there are none left."""
    teacher = "dpr(encoder='bag', dimension=32, batch_size=8, epochs=10)"
    recipe = Recipe.parse(
        f'renee(init_from="{teacher}", batch_size=8, epochs=20) + gandalf(rows_only=true, threshold=0.9)'
    )
    model = recipe.fit(tiny.train, tiny.valid)
    assert model.predict(["a dragon"], k=1).indices[0, 0] == 3


def test_graph_comes_from_given_rows_alone() -> None:
    """Standing behind another method that adds rows changes no target."""
    alone = added(Gandalf().augment(animals()), "gandalf").targets.toarray()
    behind = added(Gandalf().augment(LabelRows().augment(animals())), "gandalf").targets.toarray()
    assert np.array_equal(alone, behind)


def test_shares_of_labels_are_nested_and_tail_first(tiny: Corpus) -> None:
    def chosen(share: float, which: str, seed: int = 0) -> set[str]:
        method = Gandalf(label_share=share, label_selection=which, seed=seed)  # type: ignore[arg-type]
        return set(added(method.augment(tiny.train), "gandalf").ids)

    for which in ("uniform", "tail"):
        assert len(chosen(0.5, which)) == 5
        assert chosen(0.2, which) < chosen(0.5, which) < chosen(1.0, which)
    assert len({frozenset(chosen(0.5, "uniform", seed)) for seed in range(5)}) > 1
    bins = equi_volume_bins(tiny.labels)
    order = np.argsort(-bins, kind="stable")
    rarest = bins[order[2]]  # three labels of ten: all of rarer bins, none of more frequent ones
    rows = [tiny.labels.row_of[name.removeprefix("gandalf:")] for name in chosen(0.3, "tail")]
    assert set(np.flatnonzero(bins > rarest)) <= set(rows) and bins[rows].min() == rarest


def test_features_stand_for_labels_where_rows_have_only_features() -> None:
    new = added(Gandalf().augment(animals(texts=False, features=True)), "gandalf")
    assert np.array_equal(new.features.toarray(), np.eye(5, 7, dtype=np.float32)[:4])


def test_texts_with_features_beside_them() -> None:
    both = animals(features=True)
    assert np.array_equal(added(LabelRows().augment(both), "rows").features.toarray(), np.eye(5, 7)[:4])
    bare = both.over(replace(both.labels, features=None))
    assert added(LabelRows().augment(bare), "rows").features.nnz == 0


def test_labels_without_any_text_are_an_error() -> None:
    data = animals(features=True)
    textless = data.over(replace(data.labels, texts=("",) * 5))
    with pytest.raises(DataError, match="gandalf turns label texts into examples, and no label has a text"):
        Gandalf().augment(textless)
    with pytest.raises(DataError, match=r"gandalf needs labels with texts: .*, or leave gandalf out$"):
        Recipe.parse("knn + gandalf").fit(textless.over(replace(textless.labels, features=None)), textless.take([]))
    narrow = animals(texts=False, features=True)
    narrow = narrow.over(replace(narrow.labels, features=narrow.labels.features[:, :3]))
    with pytest.raises(DataError, match="3 features and documents 7"):
        LabelRows().augment(narrow)


@pytest.mark.parametrize(
    ("recipe", "told"),
    [
        ("gandalf(threshold=1)", "threshold=1"),
        ("gandalf(label_share=0)", "label_share=0"),
        ("gandalf(min_cooccurrence=0)", "min_cooccurrence=0"),
        ("gandalf(max_labels=0)", "'max_labels' of gandalf is at least 1, got 0"),
        ("gandalf(restart=1.5)", "restart=1.5"),
        ("gandalf(soft_scale=0)", "no soft targets: write `rows`"),
        ("gandalf(soft_scale=1.5)", "soft_scale=1.5"),
        ("gandalf(prior_count=-1)", "prior_count=-1"),
        ("gandalf(repeats=0)", "repeats=0"),
        ("gandalf(rows_only=true, budget=true)", "budget or rows_only, not both"),
    ],
)
def test_settings_that_cannot_be(recipe: str, told: str) -> None:
    with pytest.raises(RecipeError, match=told):
        Recipe.parse(f"centroid + {recipe}").tail  # noqa: B018


def test_unseen_labels_are_found_by_their_texts(tiny: Corpus) -> None:
    """Take every row of one label away: only a label row can teach it."""
    kept = np.flatnonzero(tiny.train.targets.toarray()[:, 3] == 0)
    train = tiny.train.take(kept)
    train = train.over(train.labels.counted(train.targets))
    for recipe, found in (("knn(neighbours=5)", False), ("knn(neighbours=5) + gandalf", True)):
        model = Recipe.parse(recipe).fit(train, tiny.valid.over(train.labels))
        assert (3 in model.predict(["dragon"], 3).indices[0].tolist()) is found


def test_plans_count_the_rows_that_are_added(tiny: Corpus) -> None:
    facts = replace(DataFacts.of(tiny.train), rows=10_000, labels=10_000, positives=50_000)

    def plan(recipe: str) -> float:
        return Recipe.parse(recipe).plan(facts).train_seconds

    assert 1.9 < plan("parabel + rows") / plan("parabel") < 2.1
    assert plan("parabel + gandalf") >= plan("parabel + rows")
    assert plan("parabel + gandalf(rows_only=true)") < plan("parabel + rows")
    assert plan("parabel + gandalf(budget=true)") < 1.1 * plan("parabel")
    more, plain = Recipe.parse("parabel + gandalf").plan(facts), Recipe.parse("parabel").plan(facts)
    assert more.train_bytes > plain.train_bytes and more.model_bytes == plain.model_bytes


@pytest.mark.parametrize("given", [True, False])
def test_auto_keeps_the_scale_that_is_best_on_valid(given: bool, tiny: Corpus) -> None:
    """Against the slow way: every scale as a recipe of its own, 0 as `rows`, measured on the same rows."""
    from longtail.data.corpus import held_out
    from longtail.nn.distill.student_choice import validation_value
    from longtail.tail.gandalf import HELD_OUT, SCALES

    train, valid = tiny.train, tiny.valid if given else tiny.valid.take([])
    lines = Lines()
    with listening(lines):
        found = Recipe.parse('centroid + gandalf(soft_scale="auto")').fit(train, valid)
    away = np.zeros(len(train), dtype=np.bool_) if given else held_out(train.ids, HELD_OUT, "gandalf")
    seen, measured = train.take(np.flatnonzero(~away)), valid if given else train.take(np.flatnonzero(away))
    recipes = ["centroid + rows" if scale == 0 else f"centroid + gandalf(soft_scale={scale})" for scale in SCALES]
    values = [validation_value(Recipe.parse(one).fit(seen, measured).scorer, measured)[0] for one in recipes]
    best = int(np.argmax(values))
    assert f"gandalf: chosen soft_scale={SCALES[best]:g}" in lines.lines
    wanted = Recipe.parse(recipes[best]).fit(train, valid)
    expected, got = wanted.predict(tiny.test.rows, 5), found.predict(tiny.test.rows, 5)
    assert np.array_equal(got.indices, expected.indices) and np.array_equal(got.scores, expected.scores)


def test_auto_has_no_place_beside_controls() -> None:
    with pytest.raises(RecipeError, match="self_only and rows_only have no place beside it"):
        Recipe.parse('centroid + gandalf(soft_scale="auto", self_only=true)')
