"""What a saved encoder declares, against the networks that torch really builds; and folders of pretrained encoders that
ask for more than they hold."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from longtail.errors import DataError, ModelError  # noqa: E402
from longtail.nn.encoders.build import build_encoder, load_encoder  # noqa: E402
from longtail.nn.encoders.encoder_declared import ENCODER, dimension_of  # noqa: E402
from longtail.nn.encoders.encoder_names import ACTIVATIONS, POOLINGS  # noqa: E402
from longtail.nn.encoders.pretrained import check_size  # noqa: E402
from longtail.nn.encoders.text_encoder import TextEncoder  # noqa: E402
from longtail.nn.encoders.tokenizers import learn_words  # noqa: E402
from longtail.seams import Misfit  # noqa: E402
from longtail.seams.conforms import conforms  # noqa: E402

transformers = pytest.importorskip("transformers")

WORDS = learn_words(["one two three"])
SHARES = {"dropout": 0.1, "attention_dropout": 0.1}
TRANSFORMER = {"kind": "transformer", "vocabulary": 5, "width": 8, "layers": 2, "heads": 2, "inner": 12, "places": 6}
TRANSFORMER |= {**SHARES, "activation": "gelu", "epsilon": 1e-12, "pooling": "cls"}
ENCODERS: dict[str, dict[str, Any]] = {
    "transformer": TRANSFORMER,
    "bag": {"kind": "bag", "vocabulary": 5, "width": 8, "residual": False, "dropout": 0.0},
    "residual bag": {"kind": "bag", "vocabulary": 5, "width": 8, "residual": True, "dropout": 0.0},
    "gru": {"kind": "gru", "vocabulary": 5, "width": 8, "dropout": 0.0},
    **{
        f"bag with {block}": {"kind": "weighted bag", "vocabulary": 5, "width": 8, "block": block, "dropout": 0.1}
        for block in ("none", "added", "gated", "scaled")
    },
    "inception": {
        "kind": "inception",
        "vocabulary": 5,
        "vectors": 72,
        "places": 17,
        "channels": 3,
        "dropout": 0,
        "last": 0,
    },
}


def stored(settings: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """What a scorer stores of an encoder with these settings; a single number becomes an array of one."""
    plain = TextEncoder.of(build_encoder(settings), WORDS, 6)
    tensors = {name: array.reshape(-1) if array.ndim == 0 else array for name, array in plain.tensors().items()}
    return {"encoder": settings, "max_tokens": 6, "calibration": [1.0, 0.0]}, tensors


@pytest.mark.parametrize("dimension", [None, 4])
@pytest.mark.parametrize("name", ENCODERS)
def test_the_arrays_that_are_declared_are_those_of_the_network(name: str, dimension: int | None) -> None:
    settings, tensors = stored({**ENCODERS[name], "dimension": dimension})
    conforms(ENCODER, settings, tensors, {}, 10)
    assert dimension_of(settings) == str(build_encoder(settings["encoder"]).dimension)
    for array in tensors:
        if array != "tokenizer":
            with pytest.raises(Misfit, match="is missing"):
                conforms(ENCODER, settings, {one: tensors[one] for one in tensors if one != array}, {}, 10)
            with pytest.raises(Misfit, match=f"array '{array}'"):
                conforms(ENCODER, settings, {**tensors, array: tensors[array][..., None]}, {}, 10)


@pytest.mark.parametrize("name", ENCODERS)
def test_every_size_that_settings_name_is_compared(name: str) -> None:
    settings, tensors = stored(ENCODERS[name])
    for key, value in ENCODERS[name].items():
        if isinstance(value, int) and not isinstance(value, bool) and key not in ("heads", "dropout", "last"):
            for other in (0, -1, value + 4, 2**31 - 4, 2**40, str(value), None, float(value), True):
                wrong = {**settings, "encoder": {**ENCODERS[name], key: other}}
                with pytest.raises(Misfit):
                    conforms(ENCODER, wrong, tensors, {}, 10)
        missing = {one: given for one, given in ENCODERS[name].items() if one != key}
        with pytest.raises(Misfit, match=key):
            conforms(ENCODER, {**settings, "encoder": missing}, tensors, {}, 10)
    with pytest.raises(Misfit, match="is not one that this kind stores"):
        conforms(ENCODER, {**settings, "encoder": {**ENCODERS[name], "more": 1}}, tensors, {}, 10)


def test_words_that_torch_and_the_declaration_share() -> None:
    from longtail.nn.encoders import layouts, transformer_layer

    assert layouts.POOLINGS is POOLINGS and transformer_layer.ACTIVATIONS is ACTIVATIONS


def folder_of(folder: Path, kind: str, **changes: Any) -> Path:
    """A small pretrained encoder of this family, whose config.json somebody changed."""
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    made = {"bert": transformers.BertConfig, "mpnet": transformers.MPNetConfig}[kind]
    config = made(vocab_size=40, max_position_embeddings=40, **sizes)
    transformers.AutoModel.from_config(config).save_pretrained(folder)
    (folder / "tokenizer.json").write_bytes(WORDS.to_bytes())
    facts = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(facts | changes))
    return folder


@pytest.mark.parametrize("kind", ["bert", "mpnet"])
@pytest.mark.parametrize(
    "changes",
    [
        {"vocab_size": 2**31 - 1},
        {"vocab_size": 2**60},
        {"vocab_size": "many"},
        {"num_hidden_layers": 3000},
        {"num_hidden_layers": 10**9},
        {"hidden_size": 2**20},
        {"intermediate_size": 2**30},
        {"max_position_embeddings": -3},
        {"num_attention_heads": 0},
    ],
    ids=str,
)
def test_a_config_that_asks_for_more_than_the_files_hold(kind: str, changes: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"config\.json|cannot read|do not fit|lack"):
        load_encoder(str(folder_of(tmp_path, kind, **changes)))


def test_no_code_is_taken_from_a_name_in_a_config(tmp_path: Path) -> None:
    """A way of computing attention may be a repository of kernels on the hub, and a map of classes a file of code."""
    named = {"auto_map": {"AutoModel": "evil.Model"}, "attn_implementation": "somebody/kernels"}
    named |= {"_attn_implementation": "somebody/kernels", "quantization_config": {"quant_method": "awq"}}
    folder = folder_of(tmp_path, "mpnet", **named)
    (folder / "evil.py").write_text("raise SystemExit('code was run')")
    encoder, _ = load_encoder(str(folder))
    assert not named.keys() & encoder.settings["config"].keys()
    again = build_encoder({**encoder.settings, "config": encoder.settings["config"] | named})
    again.load_state_dict(encoder.state_dict())
    ids = torch.ones(1, 4, dtype=torch.long)
    assert torch.equal(again.eval()(ids), encoder.eval()(ids))


def test_a_foreign_network_is_compared_before_it_takes_memory(tmp_path: Path) -> None:
    encoder, _ = load_encoder(str(folder_of(tmp_path, "mpnet")))
    weights, config = encoder.state_dict(), encoder.settings["config"]
    check_size(config, weights)
    with pytest.raises(ModelError, match="do not fit the encoder's config"):
        check_size(config | {"vocab_size": 2**31 - 1, "hidden_size": 2**15}, weights)  # 280 TB


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "tokenizer.json"])
def test_pipes_and_devices_in_a_folder_are_not_read(name: str, tmp_path: Path) -> None:
    folder = folder_of(tmp_path, "bert")
    (folder / name).unlink()
    os.mkfifo(folder / name)
    with pytest.raises(DataError):
        load_encoder(str(folder))
    (folder / name).unlink()
    (folder / name).symlink_to("/dev/zero")
    with pytest.raises(DataError):
        load_encoder(str(folder))
