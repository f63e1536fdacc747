"""How a trained dual encoder finds labels: cut vectors, exact or approximate search, and the reason."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from longtail.data import Corpus
from longtail.errors import MissingExtra, RecipeError
from longtail.learners.dpr import Dpr
from longtail.learners.ngame import Ngame
from longtail.metrics.evaluate import evaluate
from longtail.model import Model
from longtail.nn.dual import dual_fit
from longtail.nn.dual.dual_scorer import SINGLE, DualEncoderScorer
from longtail.nn.encoders.text_encoder import normalised
from longtail.plan import DataFacts
from longtail.progress import listening
from longtail.recipe import Recipe
from longtail.seams import Misfit
from longtail.search import choose
from longtail.search.approximate import Approximate
from longtail.search.exact import Exact
from longtail.store import load, size_on_disk
from stored import check

SMALL: dict[str, Any] = {"encoder": "bag", "dimension": 64, "batch_size": 64, "epochs": 5}


def fitted(learner: Any, corpus: Corpus, *parts: str) -> Model:
    return Recipe.parse(" + ".join([str(Recipe.of(learner)), *parts])).fit(corpus.train, corpus.valid)


def scorer(model: Model) -> DualEncoderScorer:
    assert isinstance(model.scorer, DualEncoderScorer)
    return model.scorer


def test_vectors_are_cut_and_normalised_again(tiny: Corpus) -> None:
    whole, cut = (scorer(fitted(Dpr(**SMALL, search_dimension=cut), tiny)) for cut in (None, 24))
    texts = list(tiny.test.texts or ())
    np.testing.assert_allclose(cut.encoder.vectors(texts), normalised(whole.encoder.vectors(texts)[:, :24]), atol=1e-6)
    np.testing.assert_allclose(cut.labels, normalised(whole.labels[:, :24]), atol=1e-6)
    np.testing.assert_allclose(np.linalg.norm(cut.labels, axis=1), 1, atol=1e-6)


@pytest.mark.parametrize(
    ("learner", "parts"),
    [(Dpr(**SMALL), ()), (Dpr(**SMALL), ("dexa",)), (Ngame(**SMALL, classifier_epochs=3, frequency_weight=0.2), ())],
    ids=["dpr", "dexa", "ngame"],
)
def test_the_model_is_smaller_and_still_right(learner: Any, parts: tuple[str], tiny: Corpus, tmp_path: Path) -> None:
    sizes = []
    for cut in (None, 24):
        model = fitted(replace(learner, search_dimension=cut), tiny, *parts)
        found = model.predict(tiny.test.rows, 5)
        assert evaluate(found, tiny.test)["P@1"] > 90
        again = load(model.save(tmp_path / str(cut)))
        np.testing.assert_array_equal(again.predict(tiny.test.rows, 5).indices, found.indices)
        more = again.with_labels(["a kettle"])
        assert more.predict(["kettle"], 11).indices.max() == 10
        sizes.append(size_on_disk(tmp_path / str(cut)))
    saved = sizes[0] - sizes[1]
    assert abs(saved - 10 * 40 * 4) < 100  # 10 labels, 40 numbers each; the rest are words of the manifest


def test_a_cut_that_cannot_be_is_refused(tiny: Corpus) -> None:
    with pytest.raises(RecipeError, match="'search_dimension' of dpr is at least 1"):
        Recipe.parse("dpr(search_dimension=0)")
    with pytest.raises(RecipeError, match="cuts vectors of dimension 8, got 9"):
        Recipe.parse("dpr(dimension=8, search_dimension=9)")
    with pytest.raises(RecipeError, match=r"is 513, and the vectors of bag have 512 numbers"):
        Dpr(encoder="bag", search_dimension=513).fit(tiny.train, tiny.valid, ())


def test_the_plan_knows_of_the_cut(tiny: Corpus) -> None:
    facts = DataFacts.of(tiny.train)
    whole, cut = (Dpr(**SMALL, search_dimension=cut).plan(facts).model_bytes for cut in (None, 24))
    assert whole - cut == 10 * 40 * 4


class Stages:
    def __init__(self) -> None:
        self.names: list[str] = []

    def start(self, name: str, total: int | None) -> int:
        self.names.append(name)
        return 0

    def advance(self, handle: int, amount: int) -> None: ...

    def finish(self, handle: int) -> None: ...


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if ten labels were millions."""
    pytest.importorskip("faiss")
    monkeypatch.setattr(choose, "FEW", 5)
    monkeypatch.setattr(choose, "PATIENCE", 0.0)


def test_few_labels_are_searched_exactly(tiny: Corpus) -> None:
    own = scorer(fitted(Dpr(**SMALL), tiny))
    assert own.searching == "exact search: 10 vectors of 64 are few enough to compare with all"
    assert isinstance(own._quick[0], Exact)


@pytest.mark.usefixtures("impatient")
def test_where_one_text_would_wait_too_long_a_graph_is_built(tiny: Corpus, tmp_path: Path) -> None:
    model = fitted(Ngame(**SMALL, classifier_epochs=3, frequency_weight=0.2), tiny)
    texts = list(tiny.test.texts or ())
    assert len(texts) > SINGLE
    exact = model.predict(texts, 5)
    assert "_quick" not in vars(model.scorer)  # many rows share one product: nothing was built
    for one in (model, load(model.save(tmp_path / "model"))):
        heard = Stages()
        with listening(heard):
            near = one.predict(texts[:SINGLE], 5)
        assert any(name.startswith("approximate search: one query over 10 vectors of 65") for name in heard.names)
        assert "building hnsw" in heard.names
        assert isinstance(scorer(one)._quick[0], Approximate)
        assert "finds 1.000 of the exact top 10" in scorer(one).searching
        np.testing.assert_array_equal(near.indices, exact.indices[:SINGLE])
        np.testing.assert_allclose(near.scores, exact.scores[:SINGLE], rtol=1e-4)


@pytest.mark.usefixtures("impatient")
def test_a_recipe_may_ask_for_either(tiny: Corpus) -> None:
    texts = list(tiny.test.texts or ())
    exact, near = (fitted(Dpr(**SMALL, search=how), tiny) for how in ("exact", "approximate"))  # type: ignore[arg-type]
    heard = Stages()
    with listening(heard):
        found = near.predict(texts, 3).indices
    assert "approximate search: the recipe asks for it" in heard.names
    np.testing.assert_array_equal(found, exact.predict(texts, 3).indices)
    exact.predict(texts[:1], 3)
    assert "_quick" not in vars(exact.scorer)


def test_an_approximate_search_without_faiss_is_refused_before_training(
    tiny: Corpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dual_fit, "find_spec", lambda name: None)
    with pytest.raises(MissingExtra, match=r"pip install 'longtail\[search\]'"):
        Dpr(**SMALL, search="approximate").fit(tiny.train, tiny.valid, ())
    with pytest.raises(RecipeError, match="auto"):
        Recipe.parse("dpr(search='fast')")


def test_a_place_that_a_graph_leaves_empty_has_no_score(tiny: Corpus) -> None:
    """A graph may not reach as many labels as are asked for."""

    class Half:
        def top(self, queries: Any, k: int) -> Any:
            rows, scores = own._exact.top(queries, k)
            rows[:, 1], scores[:, 1] = -1, -np.inf
            return rows, scores

    own = replace(scorer(fitted(Dpr(**SMALL), tiny)))
    vars(own)["_quick"] = (Half(), "")
    rows, scores = own.top(tiny.test.take([0]).rows, 3)
    assert rows[0, 2] == -1 and scores[0, 2] == 0
    assert (rows[0, :2] >= 0).all() and (scores[0, :2] > 0).all()


def test_a_model_with_unknown_settings_is_refused(tiny: Corpus) -> None:
    state = scorer(fitted(Dpr(**SMALL, search_dimension=24), tiny)).state()
    with pytest.raises(Misfit, match="setting 'search' is one of auto, exact, approximate, not 'fast'"):
        check(DualEncoderScorer, replace(state, settings=state.settings | {"search": "fast"}))
    with pytest.raises(Misfit, match="array 'labels' has 24 numbers along an axis of 20"):
        check(DualEncoderScorer, replace(state, settings=state.settings | {"cut": 20}))
    with pytest.raises(Misfit, match="setting 'cut' is 90, more than the 64 numbers of the encoder's vectors"):
        check(DualEncoderScorer, replace(state, settings=state.settings | {"cut": 90}))


@pytest.mark.parametrize("threads", ["1", "3"])
def test_vectors_are_divided_by_their_norms(threads: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LONGTAIL_THREADS", threads)
    vectors = np.random.default_rng(0).standard_normal((3000, 5)).astype(np.float32) * np.float32(1e3)
    vectors[7] = 0  # stays zeros
    wide = vectors.astype(np.float64)
    wanted = wide / np.maximum(np.linalg.norm(wide, axis=1, keepdims=True), 1e-12)
    assert np.array_equal(normalised(vectors), wanted.astype(np.float32)) and normalised(vectors[:0]).shape == (0, 5)
