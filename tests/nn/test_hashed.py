"""Labels hashed into buckets, against the paper's formulas computed label by label."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy import sparse

from longtail.data.corpus import Corpus
from longtail.errors import ModelError, RecipeError
from longtail.export.parts import ExportParts
from longtail.model import Model
from longtail.nn.hashed.bucket_sums import top_labels
from longtail.nn.hashed.bucket_tables import PRIME, bucket_number, bucket_tables, output_counts
from longtail.nn.hashed.hashed_fit import BucketTargets
from longtail.nn.hashed.hashed_scorer import HashedScorer
from longtail.recipe import Recipe
from longtail.store import load

MACH = "mach(encoder='bag', dimension=16, batch_size=32, epochs=3, repetitions=5, buckets=4)"
CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def model(tiny: Corpus) -> Model:
    return Recipe.parse(MACH).fit(tiny.train, tiny.valid)


def test_the_best_labels_by_the_mean_score_of_their_buckets_label_by_label() -> None:
    rng = np.random.default_rng(0)
    tables = rng.integers(0, 7, (3, 40)).astype(np.int32)
    scores = rng.normal(size=(300, 21)).astype(np.float32)  # more rows than are scored at once
    found, values = top_labels(scores, tables, 40)
    for row in range(0, 300, 13):
        slow = np.array(
            [np.mean([scores[row, 7 * number + tables[number, label]] for number in range(3)]) for label in range(40)]
        )
        np.testing.assert_allclose(values[row], np.sort(slow)[::-1], rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(slow[found[row]], values[row], rtol=1e-5, atol=1e-6)
        assert len(set(found[row].tolist())) == 40


def test_labels_with_the_same_buckets_stand_in_order_of_the_label() -> None:
    tables = np.zeros((2, 9), dtype=np.int32)
    found, values = top_labels(np.ones((1, 4), dtype=np.float32), tables, 5)
    assert found[0].tolist() == [0, 1, 2, 3, 4]
    assert (values == 1).all()


def test_a_random_table_is_a_universal_hash_and_every_repetition_draws_another() -> None:
    tables = bucket_tables(np.ones(2000, np.int64), 4, 16, "random", seed=3)
    again = bucket_tables(np.ones(2000, np.int64), 4, 16, "random", seed=3)
    other = bucket_tables(np.ones(2000, np.int64), 4, 16, "random", seed=4)
    np.testing.assert_array_equal(tables, again)
    assert (tables != other).any()
    assert tables.min() == 0
    assert tables.max() == 15
    for one in range(4):
        assert max(Counter(tables[one].tolist()).values()) < 2 * 2000 / 16
        for two in range(one):  # two labels of a bucket in one table share that of another by chance alone
            assert np.mean(tables[one] == tables[two]) < 0.2
    rng = np.random.default_rng([3, 4, 16])
    factor, offset = int(rng.integers(1, PRIME)), int(rng.integers(0, PRIME))
    assert tables[0].tolist() == [(factor * label + offset) % PRIME % 16 for label in range(2000)]


def test_balanced_buckets_hold_as_many_labels_as_each_other_and_frequent_labels_do_not_meet() -> None:
    counts = np.random.default_rng(0).zipf(1.5, 103).astype(np.int64)
    frequent = np.argsort(-counts, kind="stable")[:10]
    for table in bucket_tables(counts, 6, 10, "balanced", seed=0):
        assert len(set(table[frequent].tolist())) == 10
        sizes = np.bincount(table, minlength=10)
        assert sizes.max() - sizes.min() <= 1


@pytest.mark.parametrize(
    ("labels", "asked", "found"), [(1, None, 2), (3, None, 3), (131_073, None, 2048), (50, 8, 8), (5, 99, 5)]
)
def test_there_are_no_more_buckets_than_labels(labels: int, asked: int | None, found: int) -> None:
    assert bucket_number(labels, asked) == found


def test_the_target_of_a_bucket_is_the_largest_of_its_labels_and_not_their_sum() -> None:
    rng = np.random.default_rng(1)
    dense = np.where(rng.random((6, 12)) < 0.5, rng.uniform(0.1, 1, (6, 12)), 0).astype(np.float32)
    inverse = rng.uniform(1, 1.5, 12).astype(np.float32)
    tables = bucket_tables(np.ones(12, np.int64), 3, 4, "random", seed=0)
    targets = BucketTargets(sparse.csr_array(dense), 1.0, inverse, tables=tables, buckets=4)
    rows = np.array([4, 1, 5])
    batch = targets.batch(rows, CPU)
    found = np.zeros((3, 12), dtype=np.float32)
    found[batch.rows.numpy(), batch.labels.numpy()] = batch.positive_weight.numpy()
    for place, row in enumerate(rows):
        for number in range(3):
            for bucket in range(4):
                inside = [dense[row, label] * inverse[label] for label in range(12) if tables[number, label] == bucket]
                assert found[place, 4 * number + bucket] == pytest.approx(max(inside, default=0.0))
    assert (batch.sorted[1:] >= batch.sorted[:-1]).all()
    np.testing.assert_allclose(batch.negative_weight.numpy(), 1 - batch.positive_weight.numpy(), atol=1e-6)


def test_a_process_trains_its_own_range_of_the_buckets() -> None:
    dense = np.eye(6, dtype=np.float32)
    tables = bucket_tables(np.ones(6, np.int64), 2, 3, "random", seed=0)
    whole = BucketTargets(sparse.csr_array(dense), tables=tables, buckets=3).batch(np.arange(6), CPU)
    parts = [
        BucketTargets(sparse.csr_array(dense), first=low, last=high, tables=tables, buckets=3).batch(np.arange(6), CPU)
        for low, high in ((0, 4), (4, 6))
    ]
    assert parts[0].sorted.max() < 4
    joined = np.concatenate([parts[0].sorted, parts[1].sorted + 4])
    np.testing.assert_array_equal(joined, whole.sorted)


def test_counts_of_buckets_add_up_in_every_repetition() -> None:
    counts = np.array([5, 0, 2, 9])
    tables = np.array([[0, 1, 0, 1], [1, 1, 1, 0]], dtype=np.int32)
    assert output_counts(counts, tables, 2).tolist() == [7, 9, 9, 7]


def test_a_label_is_scored_by_the_mean_of_its_buckets_vectors_and_exported_as_that(model: Model, tiny: Corpus) -> None:
    scorer = model.scorer
    assert isinstance(scorer, HashedScorer)
    vectors = scorer.encoder.unnormalised(tiny.test.texts or ())
    rows, bias = scorer.label_rows()
    assert bias is not None
    every = vectors @ rows.T + bias
    found, scores = scorer.nearest(vectors, 3)
    np.testing.assert_allclose(np.take_along_axis(every, found.astype(np.int64), axis=1), scores, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(scores, -np.sort(-every, axis=1)[:, :3], rtol=1e-4, atol=1e-4)
    exported = ExportParts.of(model)
    np.testing.assert_array_equal(exported.vectors, rows)
    np.testing.assert_array_equal(exported.bias, bias)
    np.testing.assert_allclose(scorer.row_norms(), np.linalg.norm(rows, axis=1), rtol=1e-5)


def test_the_same_seed_gives_the_same_model(model: Model, tiny: Corpus) -> None:
    again = Recipe.parse(MACH).fit(tiny.train, tiny.valid)
    one, two = (each.predict(tiny.test.texts or (), k=5) for each in (model, again))
    np.testing.assert_array_equal(one.scores, two.scores)


APART = MACH.replace("repetitions=5", "repetitions=3, shared_encoder=false, seed=4")


@pytest.fixture(scope="module")
def apart(tiny: Corpus) -> Model:
    return Recipe.parse(APART).fit(tiny.train, tiny.valid)


def test_nets_of_their_own_are_those_of_single_repetitions_and_their_scores_are_averaged(
    apart: Model, tiny: Corpus, tmp_path: Path
) -> None:
    """Against three models of one repetition, trained alone."""
    texts, labels = tiny.test.texts or (), len(tiny.train.labels)
    every = np.zeros((len(texts), labels))
    for seed in (4, 5, 6):
        one = MACH.replace("repetitions=5", f"repetitions=1, seed={seed}")
        scorer = Recipe.parse(one).fit(tiny.train, tiny.valid).scorer
        assert isinstance(scorer, HashedScorer) and scorer.bias is not None
        buckets = scorer.encoder.unnormalised(texts) @ scorer.weights[0].T + scorer.bias[0]
        every += buckets[:, scorer.tables[0]] / 3
    whole = apart.scorer
    assert isinstance(whole, HashedScorer) and len(whole.nets) == 3
    found, scores = whole.nearest(whole.row_vectors(texts), labels)
    np.testing.assert_allclose(scores, np.take_along_axis(every, found.astype(np.int64), axis=1), rtol=1e-4, atol=1e-4)
    rows, bias = whole.label_rows()
    assert bias is not None
    np.testing.assert_allclose(whole.row_vectors(texts) @ rows.T + bias, every, rtol=1e-4, atol=1e-4)
    apart.save(tmp_path / "model")
    again = load(tmp_path / "model").predict(texts, k=5)
    np.testing.assert_array_equal(again.scores, apart.predict(texts, k=5).scores)
    with pytest.raises(ModelError, match="no encoder with a vector for each label to export"):
        ExportParts.of(apart)


def test_a_net_with_other_buckets_is_no_part_of_a_model(apart: Model) -> None:
    state = apart.scorer.state()
    small = replace(state.parts["net-1"], weights=state.parts["net-1"].weights[:, :3])
    with pytest.raises(ValueError, match="different buckets"):
        HashedScorer.restore(replace(state, parts={**state.parts, "net-1": small}))
    assert not Recipe.parse(MACH).runs_in_jobs and Recipe.parse(APART).runs_in_jobs


def test_a_plan_counts_buckets_and_not_labels(tiny: Corpus) -> None:
    from longtail.plan import DataFacts

    facts = replace(DataFacts.of(tiny.train), labels=3_000_000, rows=1_000_000)
    hashed, full = (Recipe.parse(name).learner.plan(facts) for name in ("mach(encoder='bag')", "renee(encoder='bag')"))
    assert hashed.model_bytes < full.model_bytes / 2
    assert hashed.train_bytes < full.train_bytes


@pytest.mark.parametrize("settings", ["repetitions=0", "buckets=1", "head_init='texts'"])
def test_settings_that_make_no_sense_are_refused(settings: str) -> None:
    with pytest.raises(RecipeError):
        Recipe.parse(f"mach({settings})")
