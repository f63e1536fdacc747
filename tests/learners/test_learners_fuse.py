"""`fuse` and `predictions` as users meet them: members, sharing, saving, new rows and labels, bad input."""

from __future__ import annotations

import json
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

from longtail import grammar
from longtail.data import Corpus, LabelSet
from longtail.errors import DataError, LongtailError, RecipeError
from longtail.learners import fuse
from longtail.learners.dpr import Dpr
from longtail.learners.fuse import Fuse
from longtail.learners.knn import Knn
from longtail.linear.fusion.boosted_trees import Growing
from longtail.linear.fusion.combiner import CombinerFit
from longtail.linear.fusion.fuse_scorer import FuseScorer
from longtail.model import Model
from longtail.plan import DataFacts
from longtail.progress import collecting
from longtail.recipe import Recipe
from longtail.seams.members import FittedMember
from longtail.store import load
from stored import check

SMALL = "trees=20, min_leaf=5, learning_rate=0.3"
DPR = "dpr(encoder='bag', dimension=32, batch_size=64, epochs=3)"


def fit(recipe: str, corpus: Corpus) -> Model:
    return Recipe.parse(recipe).fit(corpus.train, corpus.valid)


def first(model: Model, corpus: Corpus) -> float:
    return float(model.predict(corpus.test.rows, k=1).hits(corpus.test.targets).mean())


@pytest.fixture(scope="module")
def pair(tiny: Corpus) -> Model:
    return fit(f'fuse("knn(neighbours=5)", "bm25 + rerank", {SMALL})', tiny)


def test_members_are_written_read_and_printed_alike() -> None:
    text = "fuse(\"knn(neighbours=3)\", 'bm25 + rerank', folds=4) + rerank(strength=0.5)"
    recipe = Recipe.parse(text)
    assert str(recipe) == text
    assert isinstance(recipe.learner, Fuse) and recipe.learner.members == ("knn(neighbours=3)", "bm25 + rerank")
    assert Recipe.from_toml(recipe.to_toml()) == [recipe]
    assert Recipe.of(recipe.learner, *recipe.tail) == recipe
    assert Recipe.parse(str(Recipe.of(Fuse(members=("knn",), folds=2)))).learner == Fuse(members=("knn",), folds=2)
    nested = 'fuse("fuse(\\"knn\\", \\"bm25\\")", "knn")'
    assert str(Recipe.parse(nested)) == nested and Recipe.from_toml(Recipe.parse(nested).to_toml())[0].depth == 3


@pytest.mark.parametrize(
    ("recipe", "problem"),
    [
        (
            'knn("parabel")',
            'knn takes no members, and "parabel" stands without a name.*members are for fuse and memory',
        ),
        ('knn + rerank("parabel")', "rerank takes no members"),
        ('fuse(folds=2, "knn")', "the members of fuse stand before its settings"),
        ('fuse(members=["knn"])', "the members of fuse have no name"),
        ('fuse("nonsense")', "the member 'nonsense' of fuse is no recipe and no model folder: unknown learner"),
        ('fuse("knn(k=3)")', "unknown setting 'k' of knn"),
        ('fuse("knn", folds=1)', "setting 'folds' of fuse is 0 .* or 2 to 100, got 1"),
        ('fuse("knn", candidates=0)', "setting 'candidates' of fuse is at least 1, got 0"),
        ('fuse("knn", leaves=1)', "setting 'leaves' of fuse is between 2 and 4096, got 1"),
        ('fuse("knn", learning_rate=0)', "learning_rate"),
        ('memory("knn")', "memory uses the encoder of another recipe, and 'knn' has none"),
        ('memory("dpr", "ngame")', "memory has one member"),
        ('memory("dpr", neighbours=0)', "setting 'neighbours' of memory is at least 1, got 0"),
        ('memory("dpr", temperature=0)', "setting 'temperature' of memory"),
        ("fuse(" + ", ".join(['"knn"'] * 33) + ")", "1 to 32 members, got 33"),
    ],
)
def test_recipes_that_cannot_work(recipe: str, problem: str) -> None:
    with pytest.raises(RecipeError, match=problem):
        Recipe.parse(recipe)


def test_members_inside_members_have_a_limit() -> None:
    recipe = "knn"
    for _ in range(3):
        recipe = f"fuse({grammar.literal(recipe)})"
    assert Recipe.parse(recipe).depth == 4
    with pytest.raises(RecipeError, match="5 levels of recipes, and at most 4"):
        Recipe.parse(f"fuse({grammar.literal(recipe)})")


def test_a_combination_is_better_than_its_members(tiny: Corpus, tmp_path: Path) -> None:
    """One member knows the even labels and guesses the others, one the odd ones: together they know all."""
    rng = np.random.default_rng(0)
    members = []
    for parity in (0, 1):
        for split, data in (("valid", tiny.valid), ("test", tiny.test)):
            scores = rng.random((len(data), 10))
            known = np.arange(10) % 2 == parity
            scores[:, known] = data.targets.toarray()[:, known] + 0.5 * scores[:, known]
            lines = [
                json.dumps({"id": name, "labels": [{"id": f"L{one}", "score": row[one] + 1e-3} for one in range(10)]})
                for name, row in zip(data.ids, scores, strict=True)
            ]
            (tmp_path / f"{split}-{parity}.jsonl").write_text("\n".join(lines))
        members.append(f"predictions(valid='{tmp_path}/valid-{parity}.jsonl', test='{tmp_path}/test-{parity}.jsonl')")

    def both(recipe: str) -> float:
        return float(fit(recipe, tiny).predict(tiny.test.rows, k=2).hits(tiny.test.targets).mean())

    alone = max(map(both, members))
    together = both(f'fuse("{members[0]}", "{members[1]}", {SMALL})')
    assert together > 0.9 and together > alone + 0.15


def test_scores_are_probabilities(pair: Model, tiny: Corpus) -> None:
    assert isinstance(pair.scorer, FuseScorer) and FuseScorer.probabilities
    found = pair.predict(tiny.test.rows, k=10)
    scores, hits = found.scores[found.indices >= 0], found.hits(tiny.test.targets)[found.indices >= 0]
    assert ((scores > 0) & (scores <= 1)).all()
    assert scores.mean() == pytest.approx(hits.mean(), abs=0.05)


def test_saved_and_loaded_with_a_re_ranked_member(pair: Model, tiny: Corpus, tmp_path: Path) -> None:
    again = load(pair.save(tmp_path / "model"))
    before, after = (one.predict(tiny.test.rows, k=5) for one in (pair, again))
    assert np.array_equal(before.indices, after.indices) and np.array_equal(before.scores, after.scores)
    assert pair.saved_bytes() == sum(file.stat().st_size for file in (tmp_path / "model").iterdir())
    assert "Stacked Generalization" in (tmp_path / "model" / "README.md").read_text()
    assert "BM25" in (tmp_path / "model" / "README.md").read_text()


def test_loading_and_predicting_need_no_lightgbm(
    pair: Model, tiny: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = pair.save(tmp_path / "model")
    monkeypatch.setitem(sys.modules, "lightgbm", None)
    again = load(folder)
    assert np.array_equal(again.predict(tiny.test.rows).indices, pair.predict(tiny.test.rows).indices)
    assert again.explain(["apple"], again.predict(["apple"], k=1))[0][0].votes
    with pytest.raises(LongtailError, match=r"pip install 'longtail\[fuse\]'"):
        fit(f'fuse("knn", {SMALL})', tiny)


def counted_fits(monkeypatch: pytest.MonkeyPatch, *kinds: type) -> Counter[str]:
    fits: Counter[str] = Counter()
    for kind in kinds:
        real = kind.fit

        def counting(self, *given, real=real, kind=kind):  # type: ignore[no-untyped-def]
            fits[kind.__name__] += 1
            return real(self, *given)

        monkeypatch.setattr(kind, "fit", counting)
    return fits


def test_what_members_share_is_trained_and_stored_once(
    tiny: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fits = counted_fits(monkeypatch, Knn)
    model = fit(f'fuse("knn", "knn(neighbours=50)", "knn + rerank", "fuse(\'knn\', \'bm25\', {SMALL})", {SMALL})', tiny)
    assert fits == {"Knn": 1}
    scorers = {id(member.scorer) for member in model.scorer.members[:3]}  # type: ignore[attr-defined]
    assert len(scorers) == 1
    saved = model.save(tmp_path / "model")
    manifest = json.loads((saved / "manifest.json").read_text())
    assert json.dumps(manifest).count('"same_as"') == 3
    again = load(saved)
    assert len({id(member.scorer) for member in again.scorer.members[:3]}) == 1  # type: ignore[attr-defined]
    assert np.array_equal(model.predict(tiny.test.rows).indices, again.predict(tiny.test.rows).indices)


def test_folds_train_every_member_once_a_fold(tiny: Corpus, monkeypatch: pytest.MonkeyPatch) -> None:
    fits = counted_fits(monkeypatch, Knn)
    with collecting() as events:
        model = fit(f'fuse("knn", "knn + rerank", "bm25", folds=3, {SMALL})', tiny)
    assert fits == {"Knn": 4}  # three folds, and the model's own
    [made] = [event for event in events if isinstance(event, CombinerFit)]
    assert made.rows == len(tiny.train) and 0 < made.right < made.candidates and made.held_out_error < 5
    assert first(model, tiny) > 0.9


def test_without_valid_it_learns_on_folds(tiny: Corpus) -> None:
    recipe = Recipe.parse(f'fuse("knn", "bm25", {SMALL})')
    with collecting() as events:
        model = recipe.fit(tiny.train, tiny.valid.take([]))
    assert first(model, tiny) > 0.9
    assert [event.rows for event in events if isinstance(event, CombinerFit)] == [len(tiny.train)]


def test_a_single_training_example_cannot_be_cut_into_folds(tiny: Corpus) -> None:
    with pytest.raises(DataError, match="need at least 2 training examples, and train has 1; add some, or valid"):
        Recipe.parse('fuse("knn", "bm25")').fit(tiny.train.take([0]), tiny.valid.take([]))


def test_a_single_member_is_re_ranked(tiny: Corpus) -> None:
    assert first(fit(f'fuse("knn", {SMALL})', tiny), tiny) > 0.9


def test_saved_models_are_members(tiny: Corpus, tmp_path: Path) -> None:
    folder = fit("knn(neighbours=5) + rerank", tiny).save(tmp_path / "knn")
    model = fit(f'fuse("{folder}", "bm25", {SMALL})', tiny)
    assert first(model, tiny) > 0.9
    again = load(model.save(tmp_path / "fuse"))
    assert np.array_equal(model.predict(tiny.test.rows).indices, again.predict(tiny.test.rows).indices)
    with pytest.raises(RecipeError, match="is a saved model, which has seen the training examples"):
        Recipe.parse(f'fuse("{folder}", "bm25", folds=2)')
    with pytest.raises(DataError, match="learns on valid examples, and there are none"):
        Recipe.parse(f'fuse("{folder}", "bm25")').fit(tiny.train, tiny.valid.take([]))


def test_a_saved_member_may_have_other_labels(tiny: Corpus, tmp_path: Path) -> None:
    """Labels in another order, two of them unknown to the data, and two that it lacks; its re-ranker knows its own."""
    order = [9, 3, 5, 0, 1, 2, 4, 7]
    ids = ("X", *(tiny.labels.ids[row] for row in order), "Y")
    texts = ("other words", *(tiny.labels.texts[row] for row in order), "no words")
    counts = np.concatenate([[0], tiny.labels.counts[order], [0]])
    labels = replace(tiny.labels, ids=ids, texts=texts, counts=counts)

    def moved(data):  # type: ignore[no-untyped-def]
        empty = sparse.csr_array((len(data), 1), dtype=np.float32)
        targets = sparse.hstack([empty, data.targets[:, order], empty], format="csr")
        return replace(data, labels=labels, targets=targets)

    other = Recipe.parse("knn(neighbours=5) + rerank").fit(moved(tiny.train), moved(tiny.valid))
    folder = other.save(tmp_path / "other")
    model = fit(f'fuse("{folder}", "bm25", {SMALL})', tiny)
    [mine, _] = model.scorer.members  # type: ignore[attr-defined]
    found, _ = mine.top(tiny.test.rows, 3, tiny.labels)
    direct = other.predict(tiny.test.rows, k=3)
    for row in range(10):
        wanted = [answer.id for answer in direct.answers(row) if answer.id in tiny.labels.row_of]
        assert [tiny.labels.ids[label] for label in found[row] if label >= 0] == wanted
    assert np.array_equal(
        load(model.save(tmp_path / "m")).predict(tiny.test.rows).indices, model.predict(tiny.test.rows).indices
    )
    strangers = replace(tiny.labels, ids=tuple(f"Z{row}" for row in range(10)))
    with pytest.raises(DataError, match="have no label in common"):
        Recipe.parse(f'fuse("{folder}", "bm25")').check(replace(tiny.train, labels=strangers))


def test_nothing_is_answered_where_no_member_knows_a_word(tiny: Corpus) -> None:
    trees = "parabel(max_leaf_labels=3)"
    for members in (
        '"knn", "bm25"', f'"{trees}", "knn"', f'"{trees}"', f'"{trees} + taug", "knn"',
        f'"{trees}", "lexical(trees=5)"', f"\"{trees} + ensemble(tail_model='centroid')\"",
    ):  # fmt: skip
        model = fit(f"fuse({members}, {SMALL})", tiny)
        found = model.predict(["", "zzz qqq", "zzz apple"], k=3)
        assert (found.indices[:2] == -1).all() and (found.scores[:2] == 0).all()
        assert found.indices[2, 0] == 0


def test_explanations_name_members_places_and_records(pair: Model, tiny: Corpus) -> None:
    texts = list(tiny.test.texts[:4])
    found = pair.predict(texts, k=3)
    reasons = pair.explain(texts, found)
    counts = np.bincount(tiny.train.targets.indices, minlength=10)
    for row in range(4):
        for place, label in enumerate(found.indices[row].tolist()):
            reason = reasons[row][place]
            if label < 0:
                assert reason.train_rows is None and not reason.votes
                continue
            assert [vote.member for vote in reason.votes] == ["knn(neighbours=5)", "bm25 + rerank"]
            for vote, member in zip(reason.votes, pair.scorer.members, strict=True):  # type: ignore[attr-defined]
                named, scores = member.top(tiny.test.rows[row : row + 1], 10, tiny.labels)
                where = np.flatnonzero(named[0] == label)
                assert vote.place == (int(where[0]) + 1 if len(where) else None)
                assert vote.score == (pytest.approx(float(scores[0, where[0]])) if len(where) else 0)
            assert reason.train_rows == counts[label]
            assert reason.proposed is not None and reason.right is not None and reason.right <= reason.proposed
    plain = fit("knn", tiny)
    best = plain.predict(texts, k=2)
    assert plain.explain(texts, best)[0][0].train_rows == tiny.labels.counts[best.indices[0, 0]]
    with pytest.raises(DataError, match="do not match"):
        pair.explain(texts[:2], found)


def test_new_labels_are_named_by_the_members_that_take_them(tiny: Corpus, tmp_path: Path) -> None:
    model = fit(f'fuse("{DPR}", "knn", {SMALL})', tiny)
    grown = model.with_labels(["a guitar harbour island"], ["NEW"])
    [dual, knn] = grown.scorer.members  # type: ignore[attr-defined]
    assert dual.labels == 11 and knn.labels == 10
    found = grown.predict(["guitar harbour island"], k=11)
    assert "NEW" in {answer.id for answer in found.answers(0)}
    again = load(grown.save(tmp_path / "grown"))
    assert np.array_equal(again.predict(tiny.test.rows).indices, grown.predict(tiny.test.rows).indices)
    with pytest.raises(DataError, match="no member of fuse can take new labels"):
        fit(f'fuse("knn", "bm25", {SMALL})', tiny).with_labels(["new"])


def test_a_label_is_explained_by_the_members_that_know_it(tiny: Corpus) -> None:
    """A memory that had not heard of a label that joined once looked for it behind its last one."""
    model = fit(f'fuse("{DPR}", "memory(\\"{DPR}\\")", {SMALL})', tiny)
    grown = model.with_labels(["a guitar harbour island"], ["NEW"])
    texts = ["guitar harbour island", tiny.test.rows.texts[0]]  # type: ignore[index]
    found = grown.predict(texts, k=11)
    reasons = grown.explain(texts, found)
    assert {10} <= set(found.indices[0].tolist())
    for row, labels in enumerate(found.indices.tolist()):
        for place, label in enumerate(labels):
            assert (label != 10) or not reasons[row][place].neighbours
    assert any(reason.neighbours for reason in reasons[1])


def test_a_saved_member_explains_labels_in_its_own_rows(tiny: Corpus) -> None:
    model = fit(f'memory("{DPR}")', tiny)
    turned = LabelSet(ids=("OTHER", *reversed(model.labels.ids)), texts=("other", *reversed(model.labels.texts)))
    member = FittedMember.of(model, turned)
    rows, own = tiny.test.rows[:3], np.array([[0, 9, 4], [3, -1, 2], [8, 5, -1]], dtype=np.int32)
    there = np.where(own >= 0, 10 - own, -1).astype(np.int32)
    assert member.explain(rows, there) == model.scorer.explain(rows, own)  # type: ignore[attr-defined]
    assert member.explain(rows, there * 0) == model.scorer.explain(rows, there * 0 - 1)  # type: ignore[attr-defined]


def test_plans_count_what_is_shared_once_and_folds_as_often_as_they_train(tiny: Corpus) -> None:
    facts = DataFacts.of(tiny.train)

    def seconds(recipe: str) -> float:
        return Recipe.parse(recipe).plan(facts).train_seconds

    assert seconds('fuse("parabel", "parabel")') == pytest.approx(seconds('fuse("parabel")'), rel=0.3)
    single = Recipe.parse("parabel").plan(facts).train_seconds
    assert seconds('fuse("parabel", folds=4)') > seconds('fuse("parabel")') + 2.5 * single
    steps = [name for name, _ in Recipe.parse('fuse("parabel", folds=4)').plan(facts).steps]
    assert "candidates of 4 folds of train" in steps
    assert "candidates of valid" in [name for name, _ in Recipe.parse('fuse("parabel")').plan(facts).steps]


def test_plans_know_the_valid_rows(tiny: Corpus) -> None:
    """More of them take longer; without any, two folds of train are learned from; wrong candidates have a limit."""
    facts, recipe = replace(DataFacts.of(tiny.train), rows=50_000, labels=20_000), Recipe.parse('fuse("knn", "bm25")')
    few, many, none = (recipe.plan(replace(facts, valid_rows=rows)) for rows in (500, 5000, 0))
    assert few.train_seconds < many.train_seconds < none.train_seconds
    sizes = [dict(one.steps)["candidates of valid"] for one in (few, many)]
    assert 5 * sizes[0] < sizes[1] < 10 * sizes[0]  # the numbers of a chunk and a sample of them have a limit
    assert "candidates of 2 folds of train" in dict(none.steps)
    assert recipe.plan(facts) == recipe.plan(replace(facts, valid_rows=2500))
    assert DataFacts.of(tiny.train, len(tiny.valid)).valid_rows == len(tiny.valid)


def test_a_member_that_names_nothing_changes_nothing(tiny: Corpus, tmp_path: Path) -> None:
    for split, data in (("valid", tiny.valid), ("test", tiny.test)):
        lines = (json.dumps({"id": row, "labels": []}) for row in data.ids)
        (tmp_path / f"{split}.jsonl").write_text("\n".join(lines))
    silent = f"predictions(valid='{tmp_path}/valid.jsonl', test='{tmp_path}/test.jsonl')"
    assert first(fit(f'fuse("knn", "{silent}", {SMALL})', tiny), tiny) > 0.9


def test_settings_reach_the_trees(tiny: Corpus, monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[Growing] = []
    real = fuse.learn

    def learn(*arguments):  # type: ignore[no-untyped-def]
        given.append(arguments[4])
        return real(*arguments)

    monkeypatch.setattr(fuse, "learn", learn)
    fit('fuse("knn", trees=7, leaves=5, learning_rate=0.2, min_leaf=9, seed=3)', tiny)
    assert given == [Growing(trees=7, leaves=5, learning_rate=0.2, min_leaf=9, seed=3)]


def test_the_same_seed_gives_the_same_model_on_any_number_of_threads(
    tiny: Corpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = []
    for threads in ("1", "3"):
        monkeypatch.setenv("LONGTAIL_THREADS", threads)
        found.append(fit(f'fuse("knn", "bm25", {SMALL})', tiny).predict(tiny.test.rows, k=10))
    assert np.array_equal(found[0].indices, found[1].indices) and np.array_equal(found[0].scores, found[1].scores)


def test_a_damaged_model_is_refused(pair: Model, tmp_path: Path) -> None:
    state = pair.scorer.state()
    for change in (
        {"counts": state.tensors["counts"][:-1]},
        {"right": -state.tensors["right"]},
        {"together.indices": state.tensors["together.indices"] + np.int32(99)},
    ):
        with pytest.raises((ValueError, LongtailError)):
            check(FuseScorer, replace(state, tensors={**state.tensors, **change}))
    for settings in ({"groups": ["nonsense"]}, {"places": 0}, {"log_kept": float("nan")}):
        with pytest.raises(ValueError):
            check(FuseScorer, replace(state, settings={**state.settings, **settings}))


def test_a_combination_inside_another_is_asked_only_for_what_its_own_members_take(tiny: Corpus, tmp_path: Path) -> None:
    """It has the methods for new labels and rows whatever its members are."""
    inner = f"fuse('bm25', 'centroid', {SMALL})"
    model = fit(f'fuse("{inner}", "{DPR}", "knn", {SMALL})', tiny)
    grown = model.with_labels(["a guitar harbour island"], ["NEW"])
    assert "NEW" in {answer.id for answer in grown.predict(["guitar harbour island"], k=11).answers(0)}
    assert [member.labels for member in grown.scorer.members] == [10, 11, 10]  # type: ignore[attr-defined]
    more = model.with_rows(["guitar and harbour"], [["L6"]])
    assert more.labels.counts[6] == model.labels.counts[6] + 1
    joins = "`model.with_labels([...])` adds new ones"
    assert joins in (model.save(tmp_path / "joins") / "README.md").read_text()
    plain = fit(f'fuse("knn", "bm25", {SMALL})', tiny)
    assert joins not in (plain.save(tmp_path / "plain") / "README.md").read_text()


def test_memory_shares_the_encoder_of_its_member(tiny: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trained = counted_fits(monkeypatch, Dpr)
    model = fit(f'fuse("{DPR}", "memory(\\"{DPR}\\")", {SMALL})', tiny)
    [dual, memory] = model.scorer.members  # type: ignore[attr-defined]
    assert memory.scorer.encoding is dual.scorer
    assert trained == {"Dpr": 1}
    assert "`bag`" in (model.save(tmp_path / "card") / "README.md").read_text()  # the encoder stands in the card
    again = load(model.save(tmp_path / "model"))
    [dual, memory] = again.scorer.members  # type: ignore[attr-defined]
    assert memory.scorer.encoding is dual.scorer
