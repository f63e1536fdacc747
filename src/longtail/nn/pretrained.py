"""Encoders that others trained: from a folder as transformers and sentence-transformers write it, or from the hub."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from longtail.errors import DataError, ModelError
from longtail.nn.extra import require
from longtail.nn.layouts import Padded
from longtail.nn.transformer import ACTIVATIONS, Shape
from longtail.progress import stage

# What is fetched of a repository on the hub: no weights of other frameworks.
WANTED = ("*.json", "model*.safetensors", "*/model.safetensors", "pytorch_model*.bin", "*/pytorch_model.bin")

# Where the three families keep a layer's parts: queries, keys and values, and the others in our order.
BERT_LAYER = (
    ("attention.self.query", "attention.self.key", "attention.self.value"),
    ("attention.output.dense", "attention.output.LayerNorm", "intermediate.dense", "output.dense", "output.LayerNorm"),
)
DISTILBERT_LAYER = (
    ("attention.q_lin", "attention.k_lin", "attention.v_lin"),
    ("attention.out_lin", "sa_layer_norm", "ffn.lin1", "ffn.lin2", "output_layer_norm"),
)
OUR_LAYER = ("attended", "attended_norm", "widen", "narrow", "narrow_norm")


def read(
    folder: Path, pooling: str | None = None, dropout: float | None = None
) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Settings and weights of the encoder in the folder, for `build_encoder` and its body.

    BERT, RoBERTa and DistilBERT become our own `Transformer`; others run through the transformers package.
    """
    config, pooling = _described(folder, pooling)
    shape = _shape(config, pooling, dropout)
    if shape is None:
        return _foreign(folder, config, pooling, dropout)
    weights = _read_weights(folder)
    try:
        return {"kind": "transformer", **asdict(shape)}, _ours(weights, shape, config)
    except KeyError as error:
        raise DataError(f"the weights in {folder} lack {error}, which a {config['model_type']} has") from None


def settings_alone(folder: Path) -> dict[str, Any]:
    """What `read` would say of the encoder in the folder, but for the places of a foreign one; no weights are read."""
    config, pooling = _described(folder, None)
    shape = _shape(config, pooling, None)
    if shape is None:
        return {"kind": "foreign", "config": _nameless(config), "pooling": pooling}
    return {"kind": "transformer", **asdict(shape)}


def fetch(name: str) -> Path:
    """The folder with a repository of the hub, from the cache on this machine or over the network."""
    require(f"the encoder {name}", "huggingface_hub")
    import huggingface_hub as hub

    try:
        with stage(f"fetching {name}"), _quiet_hub():
            return Path(hub.snapshot_download(name, allow_patterns=list(WANTED)))
    except Exception as error:  # of several libraries: the network's, the hub's, the disk's
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise DataError(
            f"cannot fetch the encoder {name} from the Hugging Face hub, and no folder here has that name: {reason}. "
            "Without a network, copy the folder over and give its path, or use minilm, bag or gru"
        ) from None


class Foreign(nn.Module):
    """Any encoder that the transformers package knows, pooled."""

    def __init__(self, config: dict[str, Any], pooling: str) -> None:
        super().__init__()
        require(f"an encoder of the family {config.get('model_type')}", "transformers")
        from transformers import AutoConfig, AutoModel

        try:
            rest = {key: value for key, value in config.items() if key != "model_type"}
            self.model = AutoModel.from_config(AutoConfig.for_model(config["model_type"], **rest))
        except (ValueError, KeyError, TypeError) as error:
            raise ModelError(f"transformers cannot build this encoder: {str(error).splitlines()[0]}") from None
        self.width = int(self.model.config.hidden_size)
        self.pooling = pooling

    def forward(self, ids: Tensor, mask: Tensor | None = None) -> Tensor:
        mask = torch.ones_like(ids, dtype=torch.bool) if mask is None else mask
        states = self.model(input_ids=ids, attention_mask=mask.long()).last_hidden_state
        return Padded(mask, None).pool(states, self.pooling)


def _foreign(
    folder: Path, config: dict[str, Any], pooling: str, dropout: float | None
) -> tuple[dict[str, Any], dict[str, Tensor]]:
    require(f"an encoder of the family {config.get('model_type')}", "transformers")
    from transformers import AutoModel
    from transformers.utils import logging

    if config.get("is_encoder_decoder"):
        raise DataError(f"{folder} holds an encoder with a decoder; only encoders are read")
    config = _nameless(config)
    if dropout is not None:
        config |= {key: dropout for key in config if key.endswith(("dropout", "dropout_prob"))}
    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        model = AutoModel.from_pretrained(folder, local_files_only=True).float()
    except (OSError, ValueError, KeyError, RuntimeError) as error:
        raise DataError(f"transformers cannot read {folder}: {(str(error).splitlines() or ['?'])[0]}") from None
    finally:
        if shown:
            logging.enable_progress_bar()
    weights = {f"model.{name}": tensor for name, tensor in model.state_dict().items()}
    places = model.config.to_dict().get("max_position_embeddings")
    if isinstance(places, int) and model.config.pad_token_id == 1:
        places -= 2  # families that pad with 1 count places from 2
    return {"kind": "foreign", "config": config, "pooling": pooling, "places": places}, weights


def _described(folder: Path, pooling: str | None) -> tuple[dict[str, Any], str]:
    """The folder's config.json, and how its states are pooled."""
    config = _json(folder / "config.json", f"{folder} holds no encoder: config.json is missing")
    if (folder / "2_Dense").exists():
        raise DataError(f"{folder} ends in a dense layer, which is not read; use its transformer alone, or a dimension")
    return config, pooling or _pooling(folder)


def _nameless(config: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in config.items() if key != "_name_or_path"}


def _shape(config: dict[str, Any], pooling: str, dropout: float | None) -> Shape | None:
    """The shape of a family that is our own `Transformer` under other names, else None."""
    family = config.get("model_type")
    if family == "distilbert":
        keys = ("dim", "n_layers", "n_heads", "hidden_dim", "dropout", "attention_dropout", "activation")
    elif family in ("bert", "roberta", "xlm-roberta"):
        keys = (
            *("hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size", "hidden_dropout_prob"),
            *("attention_probs_dropout_prob", "hidden_act"),
        )
    else:
        return None
    try:
        width, layers, heads, inner, dropped, attention, activation = (config[key] for key in keys)
        relative = config.get("position_embedding_type", "absolute") != "absolute"
        if relative or config.get("is_decoder") or activation not in ACTIVATIONS:
            return None
        return Shape(
            vocabulary=config["vocab_size"],
            width=width,
            layers=layers,
            heads=heads,
            inner=inner,
            places=config["max_position_embeddings"] - _skipped(config),
            dropout=dropped if dropout is None else dropout,
            attention_dropout=attention if dropout is None else dropout,
            activation=activation,
            epsilon=config.get("layer_norm_eps", 1e-12),
            pooling=pooling,
        )
    except KeyError as error:
        raise DataError(f"the config.json of a {family} has no {error}") from None


def _skipped(config: dict[str, Any]) -> int:
    """Rows at the head of RoBERTa's position table that no token uses."""
    return int(config.get("pad_token_id", 1)) + 1 if "roberta" in config["model_type"] else 0


def _ours(weights: dict[str, Tensor], shape: Shape, config: dict[str, Any]) -> dict[str, Tensor]:
    """The weights of a folder under our names."""
    table = "embeddings.word_embeddings.weight"
    prefix = next((name.removesuffix(table) for name in weights if name.endswith(table)), "")
    positions = weights[f"{prefix}embeddings.position_embeddings.weight"][_skipped(config) :]
    if config["model_type"] == "distilbert":
        stem, (heads, parts) = f"{prefix}transformer.layer", DISTILBERT_LAYER
    else:
        positions = positions + weights[f"{prefix}embeddings.token_type_embeddings.weight"][0]
        stem, (heads, parts) = f"{prefix}encoder.layer", BERT_LAYER
    ours = {"words.weight": weights[prefix + table], "positions.weight": positions}
    for kind in ("weight", "bias"):
        ours[f"norm.{kind}"] = weights[f"{prefix}embeddings.LayerNorm.{kind}"]
        for row in range(shape.layers):
            ours[f"layers.{row}.attend.{kind}"] = torch.cat([weights[f"{stem}.{row}.{part}.{kind}"] for part in heads])
            for our, part in zip(OUR_LAYER, parts, strict=True):
                ours[f"layers.{row}.{our}.{kind}"] = weights[f"{stem}.{row}.{part}.{kind}"]
    return ours


def _read_weights(folder: Path) -> dict[str, Tensor]:
    """All tensors of the folder's files, in float32. Nothing in them is executed."""
    files: list[Path] = sorted(folder.glob("model*.safetensors"))
    reader: Callable[[Path], dict[str, Tensor]] = load_file
    if not files:
        files = sorted(folder.glob("pytorch_model*.bin"))
        reader = _read_pickled
    if not files:
        raise DataError(f"{folder} holds no weights: neither model.safetensors nor pytorch_model.bin is there")
    weights: dict[str, Tensor] = {}
    for file in files:
        try:
            weights |= reader(file)
        except Exception as error:  # each format has its own
            raise DataError(f"cannot read the weights: {(str(error).splitlines() or ['?'])[0]}", file) from None
    renamed = {"gamma": "weight", "beta": "bias"}  # of very old files
    return {
        re.sub(r"(?<=LayerNorm\.)(gamma|beta)$", lambda found: renamed[found[0]], name): tensor.float()
        for name, tensor in weights.items()
    }


def _read_pickled(file: Path) -> dict[str, Tensor]:
    weights: dict[str, Tensor] = torch.load(file, map_location="cpu", weights_only=True)
    return weights


def _pooling(folder: Path) -> str:
    """What a sentence-transformers folder says, else the mean."""
    path = folder / "1_Pooling" / "config.json"
    if not path.is_file():
        return "mean"
    facts = _json(path, "")
    known = {"pooling_mode_cls_token": "cls", "pooling_mode_mean_tokens": "mean", "pooling_mode_max_tokens": "max"}
    asked = [key for key, value in facts.items() if key.startswith("pooling_mode_") and value is True]
    if isinstance(facts.get("pooling_mode"), str):  # written by newer releases
        asked = [f"pooling_mode_{facts['pooling_mode']}{'_token' if facts['pooling_mode'] == 'cls' else '_tokens'}"]
    if len(asked) != 1 or asked[0] not in known:
        raise DataError(f"pools by {', '.join(asked) or 'nothing'}; set pooling to mean, cls or max", path)
    return known[asked[0]]


def _json(path: Path, missing: str) -> dict[str, Any]:
    try:
        facts = json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        raise DataError(missing) from None
    except (OSError, ValueError) as error:
        raise DataError(f"cannot be read as JSON: {error}", path) from None
    if not isinstance(facts, dict):
        raise DataError("is not a JSON object", path)
    return facts


@contextmanager
def _quiet_hub() -> Iterator[None]:
    """No bars of the hub's own: the stage tells."""
    from huggingface_hub import utils

    shown = not utils.are_progress_bars_disabled()
    utils.disable_progress_bars()
    try:
        yield
    finally:
        if shown:
            utils.enable_progress_bars()
