"""An attention for each label, against loops over texts, labels and tokens."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy import sparse

from longtail.data.corpus import Corpus
from longtail.errors import DataError, RecipeError
from longtail.linear.features.sparse_features import unit_rows
from longtail.nn.encoders.build import build_encoder
from longtail.nn.label_tree.attention_heads import AttentionHeads, TokenStates, token_states
from longtail.nn.label_tree.attention_scorer import _words
from longtail.nn.label_tree.candidate_blocks import Entries
from longtail.nn.label_tree.label_levels import LabelLevels
from longtail.recipe import Recipe
from longtail.store import load

WIDTH, HIDDEN, LABELS = 6, 5, 11
TINY = "encoder='bag', dimension=16, batch_size=32, epochs=3, hidden=8"


def read_of(texts: int, seed: int = 0) -> TokenStates:
    rng = np.random.default_rng(seed)
    lengths = torch.from_numpy(rng.integers(2, 5, texts))  # labels that see one token see the same
    mask = torch.arange(4) < lengths[:, None]
    return TokenStates(torch.from_numpy(rng.normal(size=(texts, 4, WIDTH))), mask)


def heads_of(levels: LabelLevels, beam: int = 2) -> AttentionHeads:
    torch.manual_seed(0)
    heads = AttentionHeads(levels, WIDTH, HIDDEN, 0.0, beam).double().eval()
    for parameter in heads.parameters():
        torch.nn.init.normal_(parameter)
    return heads


def slow_score(heads: AttentionHeads, read: TokenStates, text: int, level: int, node: int) -> float:
    states = read.states[text][read.mask[text]].numpy()
    a = heads.weights[level][node].detach().numpy()
    shares = np.exp(states @ a) / (np.exp(states @ a).sum() + 1)  # 1 for looking at nothing
    seen = sum(share * state for share, state in zip(shares, states, strict=True))
    hidden = np.maximum(heads.hidden.weight.detach().numpy() @ seen + heads.hidden.bias.detach().numpy(), 0)
    return float(heads.last.weight.detach().numpy()[0] @ hidden + heads.last.bias.item())


def test_flat_every_label_is_scored_by_what_it_saw() -> None:
    heads, read = heads_of(LabelLevels.flat(LABELS)), read_of(3)
    labels, odds = heads.search(read, LABELS)
    for text in range(3):
        slow = {label: slow_score(heads, read, text, 0, label) for label in range(LABELS)}
        assert labels[text].tolist() == sorted(slow, key=lambda label: -slow[label])
        for place, label in enumerate(labels[text].tolist()):
            assert odds[text, place].item() == pytest.approx(slow[label], abs=1e-5)


def test_flat_the_loss_is_the_mean_cross_entropy_over_texts_and_labels() -> None:
    heads, read = heads_of(LabelLevels.flat(LABELS)), read_of(3)
    entries = Entries(torch.tensor([0, 2]), torch.tensor([4, 9]), torch.tensor([1.0, 0.3], dtype=torch.float64))
    losses = []
    for text in range(3):
        for label in range(LABELS):
            target = {(0, 4): 1.0, (2, 9): 0.3}.get((text, label), 0.0)
            score = slow_score(heads, read, text, 0, label)
            losses.append(math.log1p(math.exp(score)) - target * score)
    assert heads.loss(read, [entries]).item() == pytest.approx(np.mean(losses), rel=1e-6)


def test_in_a_tree_a_label_has_the_product_of_its_whole_path() -> None:
    vectors = unit_rows(sparse.csr_array(np.random.default_rng(1).random((LABELS, 8)).astype(np.float32)))
    levels = LabelLevels.build(vectors, 2, 2, 3, seed=0)
    assert levels.count == 4
    heads, read = heads_of(levels, beam=100), read_of(4, seed=2)
    labels, odds = heads.search(read, LABELS)
    for text in range(4):
        slow = {}
        for label in range(LABELS):
            scores = [slow_score(heads, read, text, at, int(levels.node_of_label[at][label])) for at in range(4)]
            slow[label] = math.prod(1 / (1 + math.exp(-score)) for score in scores)
        assert labels[text].tolist() == sorted(slow, key=lambda label: -slow[label])
        for place, label in enumerate(labels[text].tolist()):
            assert odds[text, place].item() == pytest.approx(math.log(slow[label] / (1 - slow[label])), abs=1e-4)


def test_in_a_tree_a_texts_own_clusters_are_candidates_in_training_however_badly_they_score() -> None:
    vectors = unit_rows(sparse.csr_array(np.random.default_rng(1).random((LABELS, 8)).astype(np.float32)))
    levels = LabelLevels.build(vectors, 3, 2, 1, seed=0)
    heads, read = heads_of(levels, beam=1), read_of(4, seed=3)
    scores = [[slow_score(heads, read, text, 0, node) for node in range(levels.nodes(0))] for text in range(4)]
    worst = [int(np.argmin(of_text)) for of_text in scores]
    below = [
        [label for label in range(LABELS) if levels.node_of_label[0][label] == node] for node in range(levels.nodes(0))
    ]
    labels = [below[node][0] for node in worst]
    nodes = [torch.from_numpy(level.astype(np.int64))[labels] for level in levels.node_of_label]
    entries = [Entries(torch.arange(4), found, torch.full((4,), 0.7, dtype=torch.float64)) for found in nodes]
    losses: tuple[list[float], list[float]] = ([], [])
    for text in range(4):
        for node, score in enumerate(scores[text]):
            losses[0].append(math.log1p(math.exp(score)) - 0.7 * (node == worst[text]) * score)
        for label in below[worst[text]]:  # its own cluster, which has the worst score, and no other
            score = slow_score(heads, read, text, 1, int(levels.node_of_label[1][label]))
            losses[1].append(math.log1p(math.exp(score)) - 0.7 * (label == labels[text]) * score)
    assert heads.loss(read, entries).item() == pytest.approx(np.mean(losses[0]) + np.mean(losses[1]), rel=1e-6)


@pytest.mark.parametrize("kind", ["bag", "gru", "transformer"])
def test_padding_changes_no_state_and_is_never_looked_at(kind: str) -> None:
    settings = {"kind": kind, "vocabulary": 30, "width": WIDTH, "dropout": 0.0}
    if kind == "bag":
        settings["residual"] = False
    if kind == "transformer":
        settings |= {"layers": 2, "heads": 2, "inner": 8, "places": 16, "attention_dropout": 0.0}
    encoder = build_encoder(settings, seed=0).eval()
    ids = torch.randint(1, 30, (1, 3))
    alone = token_states(encoder, ids, torch.ones(1, 3, dtype=torch.bool))
    padded = token_states(encoder, torch.cat([ids, torch.zeros(1, 5, dtype=torch.long)], 1), torch.arange(8)[None] < 3)
    torch.testing.assert_close(alone.states, padded.states[:, :3])
    heads = heads_of(LabelLevels.flat(LABELS)).float()
    torch.testing.assert_close(heads.search(alone, LABELS), heads.search(padded, LABELS))
    assert (heads.attention(padded, 0, slice(None))[:, :, 3:] == 0).all()


def test_pieces_of_a_word_are_one_word() -> None:
    whole, place_of = _words(["[CLS]", "mush", "##room", "##s", "of", "[SEP]"])
    assert whole == ["[CLS]", "mushrooms", "of", "[SEP]"]
    assert place_of.tolist() == [0, 1, 1, 1, 2, 3]


@pytest.mark.parametrize("tree", ["", ", max_flat_labels=1, max_leaf_labels=2, branches=2, beam=3"])
def test_a_model_is_the_same_after_saving_and_names_the_words_a_label_looked_at(
    tree: str, tiny: Corpus, tmp_path: Path
) -> None:
    model = Recipe.parse(f"attentionxml({TINY}{tree})").fit(tiny.train, tiny.valid)
    again = load(model.save(tmp_path / "model"))
    texts = tiny.test.texts or ()
    one, two = model.predict(texts, k=3), again.predict(texts, k=3)
    np.testing.assert_array_equal(one.indices, two.indices)
    np.testing.assert_array_equal(one.scores, two.scores)
    reasons = again.explain(texts[:5], again.predict(texts[:5], k=3))
    for text, places in zip(texts[:5], reasons, strict=True):
        for reason in places:
            assert {word.word for word in reason.words} <= {part.strip(".,") for part in text.lower().split()}
            assert sum(word.weight for word in reason.words) <= 1.0001


@pytest.mark.parametrize("settings", ["hidden=0", "branches=3", "max_flat_labels=-1", "levels_of_clusters=0"])
def test_settings_that_make_no_sense_are_refused(settings: str) -> None:
    with pytest.raises(RecipeError):
        Recipe.parse(f"attentionxml({settings})")


def test_an_encoder_whose_states_are_projected_is_refused(tiny: Corpus) -> None:
    with pytest.raises(DataError, match="leave dimension out"):
        Recipe.parse("attentionxml(encoder='tiny', dimension=8, epochs=1)").fit(tiny.train, tiny.valid)
