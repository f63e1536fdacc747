"""The learned graph of clusters and labels, against loops over examples, clusters and labels."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy import sparse

from longtail.data.corpus import Corpus
from longtail.errors import RecipeError
from longtail.nn.label_tree import candidate_blocks, graph_heads
from longtail.nn.label_tree.candidate_blocks import Entries
from longtail.nn.label_tree.cluster_graph import ClusterGraph, strongest_links
from longtail.nn.label_tree.graph_fit import GraphFit, GraphTask
from longtail.nn.label_tree.graph_heads import NEVER, GraphHeads, targets_of
from longtail.recipe import Recipe
from longtail.store import load

CLUSTERS, LABELS, WIDTH = 4, 11, 5
MEMBERS = np.array([[0, 1, 2, 3], [3, 4, 5, -1], [6, 7, 8, 0], [9, 10, -1, -1]], dtype=np.int32)
PARENT = np.array([0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3], dtype=np.int32)


def heads_of(beam: int = 2, shortlist: int = 100, **settings: float) -> GraphHeads:
    torch.manual_seed(0)
    heads = GraphHeads(
        ClusterGraph(MEMBERS, PARENT), LABELS, WIDTH, learned=True, cluster_scale=2.0, link_scale=1.5, beam=beam,
        shortlist=shortlist, **settings,
    )  # fmt: skip
    for parameter in heads.parameters():
        torch.nn.init.normal_(parameter)
    return heads


def slow_probabilities(heads: GraphHeads, vector: np.ndarray, clusters: list[int]) -> dict[int, tuple[float, float]]:
    """Of each label: the shortlist's score and the probability, by the formulas."""
    w, a = heads.clusters.detach().double().numpy(), heads.strength.detach().double().numpy()
    products = w @ vector
    share = np.exp(products) / np.exp(products).sum()
    c = np.clip(2.0 * share, 0, 1)
    found: dict[int, tuple[float, float]] = {}
    for cluster in clusters:
        real = MEMBERS[cluster] >= 0
        links = np.exp(a[cluster][real]) / np.exp(a[cluster][real]).sum()
        for label, link in zip(MEMBERS[cluster][real], np.clip(1.5 * links, 0, 1), strict=True):
            near = c[cluster] * link
            if near > found.get(int(label), (0.0, 0.0))[0]:
                score = heads.weights[label].detach().double().numpy() @ vector + heads.bias[label].item()
                found[int(label)] = (near, near / (1 + math.exp(-score)))
    return found


def best_clusters(heads: GraphHeads, vector: np.ndarray, beam: int) -> list[int]:
    return np.argsort(-(heads.clusters.detach().double().numpy() @ vector), kind="stable")[:beam].tolist()


def test_search_is_the_best_path_times_the_labels_own_probability() -> None:
    heads = heads_of().eval()
    vectors = np.random.default_rng(1).normal(size=(6, WIDTH)).astype(np.float32)
    labels, odds = heads.search(torch.from_numpy(vectors), LABELS)
    for row, vector in enumerate(vectors.astype(np.float64)):
        slow = slow_probabilities(heads, vector, best_clusters(heads, vector, 2))
        best = sorted(slow, key=lambda label: -slow[label][1])
        assert [label for label in labels[row].tolist() if label >= 0] == best
        for place, label in enumerate(best):
            p = slow[label][1]
            assert odds[row, place].item() == pytest.approx(math.log(p / (1 - p)), abs=1e-4)


@pytest.mark.parametrize("whole", [0, 1000])
@pytest.mark.parametrize("shortlist", [100, 3])
def test_the_loss_is_that_of_the_formulas(shortlist: int, whole: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether paths are sorted or all labels have a place."""
    monkeypatch.setattr(graph_heads, "FEW", 0)
    monkeypatch.setitem(candidate_blocks.WHOLE, "cpu", whole)
    heads = heads_of(shortlist=shortlist, shortlist_weight=0.3).eval()
    vectors = np.random.default_rng(2).normal(size=(3, WIDTH)).astype(np.float32)
    # The last example has more clusters of its own than the beam, and the others have no more candidates for it.
    targets = {(0, 4): 1.0, (0, 9): 0.4, (1, 0): 1.0, (2, 1): 1.0, (2, 4): 0.5, (2, 7): 1.0}
    examples, labels = (torch.tensor([key[part] for key in targets]) for part in (0, 1))
    found = heads.loss(torch.from_numpy(vectors), [Entries(examples, labels, torch.tensor(list(targets.values())))])
    losses, near, most = [], [], 3  # no example has more labels
    for row, vector in enumerate(vectors.astype(np.float64)):
        own = {int(PARENT[label]) for example, label in targets if example == row}
        order = sorted(range(CLUSTERS), key=lambda c: (c not in own, best_clusters(heads, vector, 4).index(c)))
        slow = slow_probabilities(heads, vector, order[: max(2, len(own))])
        near += [-t * math.log(slow[label][0]) for (example, label), t in targets.items() if example == row]
        for label in sorted(slow, key=lambda label: -slow[label][0])[:shortlist]:
            p, t = slow[label][1], targets.get((row, label), 0.0)
            losses.append(-t * math.log(p) - (1 - t) * math.log1p(-p))
    assert found.item() == pytest.approx(np.mean(losses) + 0.3 * sum(near) / (3 * most), rel=1e-4)


def test_a_probability_near_zero_still_has_a_gradient() -> None:
    heads = heads_of(beam=1)
    vectors = torch.zeros(1, WIDTH)
    vectors[0, 0] = 1.0
    with torch.no_grad():
        heads.clusters.zero_()
        heads.clusters[3, 0] = -40.0
        heads.bias[9] = -40.0
    heads.loss(vectors, [Entries(torch.tensor([0]), torch.tensor([9]), torch.tensor([1.0]))]).backward()
    assert heads.clusters.grad is not None
    assert heads.bias.grad is not None
    assert heads.clusters.grad[3, 0] < -0.01
    assert heads.bias.grad[9] < -0.01


def test_no_link_and_no_label_is_ever_an_answer_behind_the_last_one() -> None:
    heads = heads_of(beam=1).eval()
    for row in heads.search(torch.randn(20, WIDTH), LABELS)[0].tolist():
        found = [label for label in row if label >= 0]
        assert len(found) == len(set(found))
        assert any(set(found) == set(members[members >= 0].tolist()) for members in MEMBERS)
    assert (heads.log_links()[torch.from_numpy(MEMBERS) < 0] == NEVER).all()


def test_scores_are_the_same_whether_all_labels_are_scored_or_candidates_are_gathered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    heads, vectors = heads_of().eval(), torch.randn(4, WIDTH)
    before = heads.search(vectors, 5)
    monkeypatch.setattr(graph_heads, "WHOLE", 0)
    monkeypatch.setattr(graph_heads, "FEW", 0)
    torch.testing.assert_close(heads.search(vectors, 5), before)
    monkeypatch.setitem(candidate_blocks.WHOLE, "cpu", 1000)
    torch.testing.assert_close(heads.search(vectors, 5), before)


def test_gradients_are_the_same_whether_paths_are_sorted_or_all_labels_have_a_place(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = []
    monkeypatch.setattr(graph_heads, "FEW", 0)
    for whole in (0, 1000):
        monkeypatch.setitem(candidate_blocks.WHOLE, "cpu", whole)
        heads = heads_of(shortlist_weight=0.3)
        right = Entries(torch.tensor([0, 0, 2]), torch.tensor([4, 9, 1]), torch.tensor([1.0, 0.4, 1.0]))
        heads.loss(torch.linspace(-2, 2, 3 * WIDTH).view(3, WIDTH), [right]).backward()
        found.append({name: one.grad for name, one in heads.named_parameters()})
    torch.testing.assert_close(found[0], found[1])


def test_links_are_the_sum_of_cluster_scores_times_targets_and_every_label_keeps_a_cluster() -> None:
    rng = np.random.default_rng(3)
    found = np.array([rng.permutation(5)[:2] for _ in range(30)], dtype=np.int32)
    weights = rng.random((30, 2)).astype(np.float32)
    dense = (rng.random((30, 12)) < 0.2).astype(np.float32) * rng.uniform(0.2, 1, (30, 12)).astype(np.float32)
    dense[:, 7] = 0  # a label without examples
    home = rng.integers(0, 5, 12).astype(np.int32)
    graph = strongest_links(found, weights, sparse.csr_array(dense), 5, 3, home)
    slow = np.zeros((5, 12))
    for row in range(30):
        for place in range(2):
            slow[found[row, place]] += weights[row, place] * dense[row]
    for label in range(12):
        assert graph.parent[label] == (slow[:, label].argmax() if slow[:, label].any() else home[label])
        assert label in graph.members[graph.parent[label]]
    for cluster in range(5):
        members = [label for label in graph.members[cluster].tolist() if label >= 0]
        assert len(members) == len(set(members))
        forced = [label for label in range(12) if graph.parent[label] == cluster]
        others = sorted((label for label in range(12) if slow[cluster, label] and label not in forced),
                        key=lambda label: -slow[cluster, label])  # fmt: skip
        assert set(members) == set(forced) | set(others[: max(3 - len(forced), 0)])


def test_labels_ask_for_the_cluster_of_their_strongest_link() -> None:
    heads = heads_of()
    heads.renew_parents()
    logs = heads.log_links().detach().numpy()
    for label in range(LABELS):
        places = np.argwhere(label == MEMBERS)
        best = max(places.tolist(), key=lambda place: logs[tuple(place)])
        assert heads.parent[label].item() == best[0]


def test_targets_of_candidates_are_looked_up() -> None:
    right = Entries(torch.tensor([1, 0, 1]), torch.tensor([4, 2, 0]), torch.tensor([0.5, 1.0, 0.25]))
    labels = torch.tensor([[2, -1, 4], [0, 4, 3], [0, 2, 4]])
    wanted = torch.tensor([[1.0, 0, 0], [0.25, 0.5, 0], [0, 0, 0]])
    torch.testing.assert_close(targets_of(labels, right, 11), wanted)


@pytest.mark.parametrize("cluster_epochs", [0, 2])
def test_a_model_is_the_same_after_saving_and_finds_rare_labels_clusters(
    cluster_epochs: int, tiny: Corpus, tmp_path: Path
) -> None:
    recipe = f"elias(encoder='bag', dimension=16, batch_size=32, epochs=3, cluster_epochs={cluster_epochs}, beam=2, "
    model = Recipe.parse(recipe + "max_leaf_labels=2, links=1)").fit(tiny.train, tiny.valid)
    again = load(model.save(tmp_path / "model"))
    texts = tiny.test.texts or ()
    one, two = model.predict(texts, k=5), again.predict(texts, k=5)
    np.testing.assert_array_equal(one.indices, two.indices)
    np.testing.assert_array_equal(one.scores, two.scores)
    members = model.scorer.members  # type: ignore[attr-defined]
    assert set(members[members >= 0].tolist()) == set(range(len(tiny.train.labels)))


def test_the_second_stage_has_learning_rates_of_its_own_and_keeps_the_labels_where_asked(tiny: Corpus) -> None:
    rates, begun = [], []
    for keep in ("true", "false"):
        recipe = f"elias(encoder='bag', dimension=16, batch_size=64, epochs=1, cluster_epochs=1, keep_labels={keep}, "
        recipe += "learning_rate=0.01, head_learning_rate=0.02, graph_learning_rate=0.03, cluster_learning_rate=0.04)"
        fit = GraphFit.begin(Recipe.parse(recipe).learner, tiny.train, tiny.valid, ())

        def task(fit: GraphFit = fit, **given: Any) -> GraphTask:
            made, name_of = GraphTask(**given), {id(one): name for name, one in fit.heads.named_parameters()}
            rates.append({name_of.get(id(one), "encoder"): g["lr"] for g in made.groups() for one in g["params"]})
            begun.append(fit.heads.weights.detach().clone())
            return made

        fit.learn(task=task)
    labels = {"weights": 0.02, "bias": 0.02}
    assert rates[0] == rates[2] == {"encoder": 0.01, "clusters": 0.02, **labels}
    assert rates[1] == rates[3] == {"encoder": 0.03, "clusters": 0.04, "strength": 0.02, **labels}
    assert not torch.equal(begun[1], begun[3])
    torch.testing.assert_close(begun[0], begun[2])
    torch.testing.assert_close(begun[3], begun[0])  # anew: the same seed draws the same


def test_clusters_and_labels_are_told_apart_where_there_are_as_many_of_both() -> None:
    graph = ClusterGraph(np.arange(4, dtype=np.int32)[:, None], np.arange(4, dtype=np.int32))
    heads = GraphHeads(graph, 4, 8, learned=True, cluster_scale=2, link_scale=2, beam=2, shortlist=4)
    assert heads.clusters.shape == heads.weights.shape
    targets = sparse.csr_array(np.eye(4, dtype=np.float32))
    encoder: Any = torch.nn.Linear(8, 8)
    task = GraphTask(
        encoder, heads, encoder, targets, (np.arange(4, dtype=np.int32),), batch_size=4, learning_rate=0.01,
        head_learning_rate=0.02, device=torch.device("cpu"), cluster_learning_rate=0.04,
    )  # fmt: skip
    name_of = {id(one): name for name, one in heads.named_parameters()}
    rates = {name_of.get(id(one), "encoder"): group["lr"] for group in task.groups() for one in group["params"]}
    assert rates == {"encoder": 0.01, "weights": 0.02, "bias": 0.02, "strength": 0.02, "clusters": 0.04}


@pytest.mark.parametrize(
    "settings", ["cluster_learning_rate=0", "links=0", "cluster_scale=0", "cluster_epochs=-1", "shortlist_weight=-1"]
)
def test_settings_that_make_no_sense_are_refused(settings: str) -> None:
    with pytest.raises(RecipeError):
        Recipe.parse(f"elias({settings})")
