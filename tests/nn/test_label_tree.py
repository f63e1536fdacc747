"""Nets over a label tree, against loops over examples, clusters and labels."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy import sparse

from longtail.data.corpus import Corpus
from longtail.errors import DataError, RecipeError
from longtail.linear.features.sparse_features import unit_rows
from longtail.nn.encoders.build import build_encoder, with_taps
from longtail.nn.label_tree import candidate_blocks
from longtail.nn.label_tree.candidate_blocks import Entries, block_scores, block_targets, blocks_of
from longtail.nn.label_tree.label_levels import LabelLevels
from longtail.nn.label_tree.level_fit import CascadeFit, LightFit, layers_of_levels
from longtail.nn.label_tree.level_heads import LevelFeature, LevelHeads, beams_of
from longtail.nn.label_tree.tree_task import TreeTask
from longtail.nn.training.weight_average import WeightAverage
from longtail.recipe import Recipe
from longtail.store import load

WIDTH = 6


def levels_of(labels: int, max_leaf_labels: int = 4, levels: int = 3, branches: int = 2) -> LabelLevels:
    rng = np.random.default_rng(labels)
    vectors = unit_rows(sparse.csr_array(rng.random((labels, 12)).astype(np.float32)))
    return LabelLevels.build(vectors, max_leaf_labels, branches, levels, seed=0)


def heads_of(levels: LabelLevels, beam: int = 100, by_parent: bool = True) -> LevelHeads:
    torch.manual_seed(0)
    features = [LevelFeature(0, WIDTH, None, 0.0)] * levels.count
    heads = LevelHeads(levels, features, [True] * levels.count, beam, by_parent).double()
    for parameter in heads.parameters():
        torch.nn.init.normal_(parameter)
    return heads


def children(levels: LabelLevels, level: int, node: int) -> list[int]:
    return list(range(int(levels.begins[level][node]), int(levels.begins[level][node + 1])))


@pytest.mark.parametrize(("labels", "leaf", "levels"), [(37, 4, 3), (37, 4, 1), (3, 4, 2), (64, 2, 9)])
def test_every_label_lies_below_one_node_of_each_level(labels: int, leaf: int, levels: int) -> None:
    tree = levels_of(labels, leaf, levels)
    assert sorted(tree.order.tolist()) == list(range(labels))
    for label in range(labels):
        nodes = [int(found[label]) for found in tree.node_of_label]
        assert tree.order[nodes[-1]] == label
        for level in range(tree.count - 1):
            assert nodes[level + 1] in children(tree, level, nodes[level])
    sizes = np.diff(tree.begins[-1])
    assert sizes.max() <= leaf
    assert sizes.max() - sizes.min() <= 1


@pytest.mark.parametrize(("whole", "copied"), [(0, 1 << 20), (0, 100), (1 << 20, 0)])
def test_scores_of_blocks_and_their_gradients_are_those_of_a_loop_over_pairs(
    whole: int, copied: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However few weights are copied at a time, and where all nodes are scored."""
    monkeypatch.setitem(candidate_blocks.WHOLE, "cpu", whole)
    monkeypatch.setitem(candidate_blocks.COPIED, "cpu", copied)
    rng = np.random.default_rng(0)
    begins = torch.tensor([0, 3, 4, 8, 10, 15])
    parents = torch.from_numpy(rng.integers(0, 5, (70, 3)))  # some clusters need several tiles
    vectors, weights, bias = (
        torch.from_numpy(rng.normal(size=shape)).requires_grad_() for shape in ((70, WIDTH), (15, WIDTH), (15,))
    )
    found = block_scores(vectors, weights, bias, begins, parents, 5)
    nodes, real = blocks_of(begins, parents, 5)
    loss = (found * torch.sin(nodes.double()) * real).sum()
    gradients = torch.autograd.grad(loss, (vectors, weights, bias))
    slow = vectors.new_zeros(())
    for example in range(70):
        for place in range(3):
            cluster = int(parents[example, place])
            run = list(range(int(begins[cluster]), int(begins[cluster + 1])))
            assert nodes[example, place][real[example, place]].tolist() == run
            for number, node in enumerate(run):
                score = vectors[example] @ weights[node] + bias[node]
                assert found[example, place, number].item() == pytest.approx(score.item(), abs=1e-12)
                slow = slow + score * math.sin(node)
    for one, two in zip(gradients, torch.autograd.grad(slow, (vectors, weights, bias)), strict=True):
        torch.testing.assert_close(one, two)


def test_targets_of_candidates_are_soft_and_those_outside_the_clusters_are_left_out() -> None:
    levels = levels_of(37, 4, 1)
    begins, nodes = torch.from_numpy(levels.begins[0]), levels.node_of_label
    parent_of = torch.repeat_interleave(torch.arange(levels.nodes(0)), begins.diff())
    labels = np.array([5, 9, 5, 30])
    entries = Entries(
        torch.tensor([0, 0, 1, 1]),
        torch.from_numpy(nodes[1][labels].astype(np.int64)),
        torch.tensor([1.0, 0.3, 0.7, 1.0]),
    )
    parents = torch.tensor([[nodes[0][5], nodes[0][9]], [nodes[0][5], nodes[0][9]]]).long()
    if nodes[0][5] == nodes[0][9]:
        parents[:, 1] = (parents[:, 0] + 1) % levels.nodes(0)
    found = block_targets(parents, begins, parent_of, entries, levels.widest(0))
    candidates, real = blocks_of(begins, parents, levels.widest(0))
    wanted = {(0, 5): 1.0, (0, 9): 0.3, (1, 5): 0.7, (1, 30): 1.0}
    for example in range(2):
        for place in range(2):
            for number in range(levels.widest(0)):
                label = int(levels.order[candidates[example, place, number]])
                target = wanted.get((example, label), 0.0) if real[example, place, number] else 0.0
                assert found[example, place, number].item() == pytest.approx(target)


def entries_of(levels: LabelLevels, targets: dict[tuple[int, int], float]) -> list[Entries]:
    examples, labels = (torch.tensor([key[part] for key in targets]) for part in (0, 1))
    values = torch.tensor(list(targets.values()))
    return [
        Entries(examples, torch.from_numpy(nodes.astype(np.int64))[labels], values) for nodes in levels.node_of_label
    ]


def test_the_loss_is_the_mean_over_the_candidates_of_each_level() -> None:
    levels = levels_of(37, 4, 3)
    heads, beam = heads_of(levels, beam=2), 2
    vectors = torch.from_numpy(np.random.default_rng(2).normal(size=(4, WIDTH)))
    targets = {(0, 3): 1.0, (0, 17): 0.4, (1, 36): 1.0, (2, 3): 0.5, (2, 4): 1.0}  # the fourth example has no label
    found = heads.loss(vectors, entries_of(levels, targets))
    total = 0.0
    candidates = [list(range(levels.nodes(0))) for _ in range(4)]
    for level in range(levels.count):
        losses, guides = [], []
        for example in range(4):
            guide = []
            for node in candidates[example]:
                below = [label for label in range(37) if levels.node_of_label[level][label] == node]
                target = max((targets.get((example, label), 0.0) for label in below), default=0.0)
                score = float(vectors[example] @ heads.weights[level][node] + heads.bias[str(level)][node])
                losses.append(math.log1p(math.exp(score)) - target * score)
                guide.append((-(1 / (1 + math.exp(-score)) + (target > 0)), node))
            guides.append(guide)
        total += sum(losses) / len(losses)
        if level < levels.count - 1:
            best = [[node for _, node in sorted(guide)[:beam]] for guide in guides]
            candidates = [[child for node in nodes for child in children(levels, level, node)] for nodes in best]
    assert found.item() == pytest.approx(total, rel=1e-5)


def test_an_examples_own_clusters_are_candidates_in_training_however_badly_they_score() -> None:
    levels = levels_of(37, 4, 1)
    heads = heads_of(levels, beam=1)
    own = int(levels.node_of_label[0][8])
    with torch.no_grad():
        heads.bias["0"][own] = -50.0
    vectors = torch.zeros(1, WIDTH, dtype=torch.float64)
    heads.loss(vectors, entries_of(levels, {(0, 8): 1.0})).backward()
    leaf = int(levels.node_of_label[1][8])
    gradient = heads.bias["1"].grad
    assert gradient is not None
    assert gradient[leaf] < 0
    assert set(torch.flatten(gradient.nonzero()).tolist()) == set(children(levels, 0, own))


def test_a_label_moves_as_far_whether_few_or_many_candidates_share_the_mean(
    tiny: Corpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A mean over a thousand times as many candidates has gradients a thousandth as large."""
    recipe = "cascadexml(encoder='bag', dimension=16, batch_size=64, epochs=2, max_gradient_norm=none)"
    moved, mean = [], LevelHeads.loss
    for share in (1.0, 1e-3):
        monkeypatch.setattr(LevelHeads, "loss", lambda *given, share=share: share * mean(*given))
        fit = CascadeFit.begin(Recipe.parse(recipe).learner, tiny.train, tiny.valid, ())
        fit.learn()
        moved.append(fit.heads.weights[-1].detach())
    assert torch.linalg.norm(moved[0] - moved[1]) < 0.02 * torch.linalg.norm(moved[0])


@pytest.mark.parametrize(("until", "on"), [("1.0", [True] * 4), ("0.5", [True, True, False, False])])
def test_dropout_is_off_for_the_rest_of_each_epoch_only_where_asked(until: str, on: list[bool], tiny: Corpus) -> None:
    recipe = f"lightxml(encoder='bag', dimension=16, batch_size=64, epochs=2, dropout_until={until})"
    fit = LightFit.begin(Recipe.parse(recipe).learner, tiny.train.take(range(256)), tiny.valid, ())
    seen = []

    class Watched(TreeTask):
        def entries(self, rows: np.ndarray) -> list[Entries]:
            seen.append(self.encoder.training and self.heads.training)
            return super().entries(rows)

    fit.learn(task=Watched, dropout_until=fit.settings.dropout_until)
    assert seen == on * 2


@pytest.mark.parametrize("by_parent", [True, False])
def test_search_through_every_cluster_finds_the_best_labels_of_all(by_parent: bool) -> None:
    levels = levels_of(37, 4, 1)
    heads = heads_of(levels, by_parent=by_parent).eval()
    vectors = torch.from_numpy(np.random.default_rng(3).normal(size=(5, WIDTH)))
    labels, odds = heads.search(vectors, 10)
    for example in range(5):
        slow = {}
        for label in range(37):
            scores = [
                float(vectors[example] @ heads.weights[level][nodes[label]] + heads.bias[str(level)][nodes[label]])
                for level, nodes in enumerate(levels.node_of_label)
            ]
            chances = [1 / (1 + math.exp(-score)) for score in scores]
            slow[label] = chances[1] * (chances[0] if by_parent else 1.0)
        best = sorted(slow, key=lambda label: -slow[label])[:10]
        assert labels[example].tolist() == best
        for label, found in zip(best, odds[example].tolist(), strict=True):
            assert found == pytest.approx(math.log(slow[label] / (1 - slow[label])), abs=1e-5)


def test_a_score_of_exactly_zero_is_an_answer_and_the_place_behind_the_last_child_is_none() -> None:
    levels = levels_of(37, 4, 2)
    heads = heads_of(levels, beam=1).eval()
    for parameter in heads.parameters():
        torch.nn.init.zeros_(parameter)
    labels, _ = heads.search(torch.zeros(2, WIDTH, dtype=torch.float64), 37)
    found = labels[0][labels[0] >= 0].tolist()
    assert len(found) == len(set(found))
    assert len(found) in (levels.narrowest(1), levels.widest(1))  # the labels of one cluster
    assert labels.shape == (2, 37)


def test_a_beam_is_never_wider_than_what_it_chooses_from() -> None:
    levels = levels_of(64, 2, 9)
    beams = beams_of(levels, 1000)
    assert beams[0] == levels.nodes(0)
    for level in range(1, len(beams)):
        assert beams[level] <= min(levels.nodes(level), beams[level - 1] * levels.widest(level - 1))
    heads = heads_of(levels, beam=1000).eval()
    assert sorted(heads.search(torch.ones(1, WIDTH, dtype=torch.float64), 64)[0][0].tolist()) == list(range(64))


@pytest.mark.parametrize(
    ("layers", "levels", "read"),
    [(12, 3, [(7, 8), (10,), (12,)]), (6, 3, [(3, 4), (5,), (6,)]), (3, 2, [(2,), (3,)]), (1, 3, [(1,), (1,), (1,)])],
)
def test_levels_read_the_later_layers_of_an_encoder(layers: int, levels: int, read: list[tuple[int, ...]]) -> None:
    assert layers_of_levels(layers, levels) == read


def test_tapped_layers_are_those_of_the_same_encoder_cut_off_there() -> None:
    settings = {
        "kind": "transformer",
        "vocabulary": 50,
        "width": 16,
        "layers": 3,
        "heads": 2,
        "inner": 32,
        "places": 16,
    }
    encoder = build_encoder({**settings, "dropout": 0.0, "attention_dropout": 0.0}, seed=1).eval()
    ids, mask = torch.randint(1, 50, (4, 8)), torch.ones(4, 8, dtype=torch.bool)
    mask[1, 5:] = False
    tapped = with_taps(encoder, (1, 3)).eval()
    assert tapped.dimension == 32
    for place, layers in enumerate((1, 3)):
        short = build_encoder({**settings, "layers": layers, "dropout": 0.0, "attention_dropout": 0.0}).eval()
        short.load_state_dict({name: w for name, w in encoder.state_dict().items() if name in short.state_dict()})
        torch.testing.assert_close(tapped(ids, mask)[:, 16 * place : 16 * (place + 1)], short(ids, mask))
    with pytest.raises(DataError, match="layers from 1 to 3"):
        with_taps(encoder, (4,))


def test_the_average_of_weights_is_their_plain_mean_and_survives_a_checkpoint() -> None:
    torch.manual_seed(0)
    layer = torch.nn.Linear(3, 2)
    average, seen = WeightAverage({"layer": layer}), []
    for step in range(5):
        torch.nn.init.normal_(layer.weight)
        seen.append(layer.weight.detach().clone())
        average.add()
        if step == 2:
            stored = {name: tensor.clone() for name, tensor in average.state().items()}
            average = WeightAverage({"layer": layer})
            average.load_state(stored)
    last = layer.weight.detach().clone()
    with average.applied():
        torch.testing.assert_close(layer.weight.detach(), torch.stack(seen).mean(0))
    torch.testing.assert_close(layer.weight.detach(), last)
    average.apply()
    torch.testing.assert_close(layer.weight.detach(), torch.stack(seen).mean(0))


NET = "batch_size=32, epochs=3, max_leaf_labels=3"


@pytest.mark.parametrize(
    "recipe",
    [
        f"cascadexml(encoder='tiny', branches=2, {NET})",
        f"lightxml(encoder='tiny', hidden=8, average_from=1, average_every=2, {NET})",
    ],
)
def test_a_model_with_tapped_layers_is_the_same_after_saving(recipe: str, tiny: Corpus, tmp_path: object) -> None:
    model = Recipe.parse(recipe).fit(tiny.train, tiny.valid)
    model.save(f"{tmp_path}/model")
    again = load(f"{tmp_path}/model")
    texts = tiny.test.texts or ()
    one, two = model.predict(texts, k=5), again.predict(texts, k=5)
    np.testing.assert_array_equal(one.indices, two.indices)
    np.testing.assert_array_equal(one.scores, two.scores)


@pytest.mark.parametrize(
    "recipe",
    [
        "cascadexml(branches=3)",
        "cascadexml(beam=0)",
        "lightxml(hidden=0)",
        "lightxml(dropout_until=0)",
        "lightxml(average_from=15)",
    ],
)
def test_settings_that_make_no_sense_are_refused(recipe: str) -> None:
    with pytest.raises(RecipeError):
        Recipe.parse(recipe)
