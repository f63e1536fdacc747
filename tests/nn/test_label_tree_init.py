"""Classifiers of nets over a label tree that start from the vectors of label texts."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from longtail.data.corpus import Corpus
from longtail.data.labels import LabelSet
from longtail.errors import DataError
from longtail.nn.label_tree.graph_fit import GraphFit
from longtail.nn.label_tree.level_fit import CascadeFit, LightFit
from longtail.recipe import Recipe


def unit(vectors: np.ndarray) -> np.ndarray:
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def means_of(vectors: np.ndarray, node_of: np.ndarray, nodes: int) -> np.ndarray:
    found = [unit(vectors[node_of == node]).sum(axis=0) for node in range(nodes)]
    return unit(np.array(found))


@pytest.mark.parametrize(
    ("recipe", "kind"),
    [
        ("cascadexml(encoder='tiny', branches=2, max_leaf_labels=2, head_init='texts')", CascadeFit),
        ("lightxml(encoder='tiny', hidden=8, max_leaf_labels=4, head_init='texts')", LightFit),
        ("elias(encoder='tiny', max_leaf_labels=4, head_init='texts')", GraphFit),
    ],
)
def test_labels_start_at_their_texts_and_clusters_at_the_mean_of_their_labels(
    recipe: str, kind: type, tiny: Corpus
) -> None:
    fit = kind.begin(Recipe.parse(recipe).learner, tiny.train, tiny.valid, ())
    heads, vectors, levels = fit.make_heads(), fit.text_vectors(), fit.levels
    if kind is GraphFit:
        np.testing.assert_allclose(heads.weights.detach(), vectors, rtol=1e-5)
        wanted = means_of(vectors, levels.node_of_label[0], levels.nodes(0))
        np.testing.assert_allclose(heads.clusters.detach(), wanted, rtol=1e-4, atol=1e-6)
        return
    assert levels.count > 1
    for level, feature in enumerate(heads.features):
        seen = vectors[:, feature.first : feature.last]
        if feature.mapped:
            seen = heads.maps[str(level)](torch.from_numpy(seen)).detach().numpy()
        wanted = means_of(seen, levels.node_of_label[level], levels.nodes(level))
        np.testing.assert_allclose(heads.weights[level].detach(), wanted, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(("init", "texts"), [("auto", False), ("random", False), ("texts", True)])
def test_an_encoder_with_random_weights_says_nothing_of_label_texts_unless_asked(
    init: str, texts: bool, tiny: Corpus
) -> None:
    learner = Recipe.parse(f"elias(encoder='bag', dimension=16, head_init='{init}')").learner
    fit = GraphFit.begin(learner, tiny.train, tiny.valid, ())
    assert fit.starts_at_texts is texts
    assert ("label_texts" in learner.data_needs) is texts


def test_the_second_stage_of_elias_begins_its_labels_at_texts_again_where_it_keeps_none(tiny: Corpus) -> None:
    recipe = "elias(encoder='bag', dimension=16, epochs=1, cluster_epochs=1, head_init='texts', keep_labels={})"
    for keep in ("true", "false"):
        fit = GraphFit.begin(Recipe.parse(recipe.format(keep)).learner, tiny.train, tiny.valid, ())
        fit.heads = fit.make_heads()
        with torch.no_grad():
            fit.heads.weights.add_(1.0)
            fit.heads.clusters.add_(1.0)
        fit.graph = fit.found_graph()
        second = fit.make_heads()
        torch.testing.assert_close(second.clusters, fit.heads.clusters)
        wanted = fit.heads.weights.detach() if keep == "true" else torch.from_numpy(fit.text_vectors())
        torch.testing.assert_close(second.weights.detach(), wanted)


def test_labels_without_texts_are_refused_with_what_to_do(tiny: Corpus) -> None:
    labels = LabelSet(ids=tiny.labels.ids)
    bare = tuple(replace(part, labels=labels) for part in (tiny.train, tiny.valid))
    recipe = Recipe.parse("cascadexml(encoder='bag', dimension=16, epochs=1, head_init='texts')")
    with pytest.raises(DataError, match="texts"):
        recipe.fit(*bare)
