"""Pretrained encoders: folders as transformers and sentence-transformers write them, and the Hugging Face hub."""

from __future__ import annotations

import json
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from longtail.errors import DataError, ModelError
from longtail.nn.encoders.encoder_declared import check_body, check_encoder_settings
from longtail.nn.encoders.layouts import Padded
from longtail.nn.encoders.transformer_layer import ACTIVATIONS, Shape
from longtail.nn.extra import require
from longtail.progress import stage
from longtail.seams import Misfit

# The files that are downloaded from a repository on the hub: no weights of other frameworks.
WANTED = ("*.json", "model*.safetensors", "*/model.safetensors")
MAX_JSON = 1 << 24  # bytes of a config.json
# What a config may say that leads to code or files elsewhere, or to another way of computing the same.
NOT_OURS = (
    *("_name_or_path", "auto_map", "quantization_config", "kernel_config", "experts_implementation"),
    *("attn_implementation", "_attn_implementation", "_attn_implementation_internal", "_attn_implementation_autoset"),
)

# The names of a layer's weights in BERT, RoBERTa and DistilBERT: queries, keys and values; the rest in our order.
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
    """Read a pretrained encoder.

    BERT, RoBERTa and DistilBERT become our own `Transformer`; others run through the transformers package.

    Args:
        folder: With config.json and weights.
        pooling: mean, cls or max; None: the folder's own.
        dropout: None: the folder's own.

    Returns:
        Settings for `build_encoder`, and weights for the `body` of what it builds.

    Raises:
        DataError: Files are missing, or cannot be read.
        MissingExtra: The transformers package is needed and not installed.
    """
    config, pooling = _described(folder, pooling)
    shape = _shape(config, pooling, dropout)
    if shape is None:
        return _foreign(folder, config, pooling, dropout)
    settings = {"kind": "transformer", **shape.settings()}
    _check_settings(settings, folder)
    weights = _read_weights(folder)
    try:
        ours = _ours(weights, shape, config)
        check_body(settings, {name: tuple(tensor.shape) for name, tensor in ours.items()})
        return settings, ours
    except KeyError as error:
        raise DataError(f"the weights in {folder} lack {error}, which a {config['model_type']} has") from None
    except (Misfit, IndexError, RuntimeError) as error:
        raise DataError(f"the weights in {folder} do not fit its config.json: {error}") from None


def settings_alone(folder: Path) -> dict[str, Any]:
    """Read the settings of a pretrained encoder, without its weights.

    Args:
        folder: With config.json.

    Returns:
        The settings that `read` returns, except `places` where the encoder runs through the transformers package.

    Raises:
        DataError: config.json is missing, or cannot be read.
    """
    config, pooling = _described(folder, None)
    shape = _shape(config, pooling, None)
    if shape is None:
        return {"kind": "foreign", "config": _nameless(config), "pooling": pooling}
    return {"kind": "transformer", **shape.settings()}


def fetch(name: str) -> Path:
    """Download a repository from the Hugging Face hub, unless it is in the cache of this machine.

    Args:
        name: owner/name.

    Returns:
        The folder.

    Raises:
        DataError: It can neither be downloaded nor found in the cache.
        MissingExtra: The huggingface_hub package is not installed.
    """
    require(f"the encoder {name}", "huggingface_hub")
    import huggingface_hub as hub

    try:
        with stage(f"fetching {name}"), _quiet_hub():
            return Path(hub.snapshot_download(name, allow_patterns=list(WANTED)))
    except Exception as error:  # several libraries raise here: for the network, the hub and the disk
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise DataError(
            f"cannot fetch the encoder {name} from the Hugging Face hub, and no folder here has that name: {reason}. "
            "Without a network, copy the folder over and give its path, or use minilm, bag or gru"
        ) from None


class Foreign(nn.Module):
    """An encoder that runs through the transformers package, with pooling."""

    def __init__(self, config: dict[str, Any], pooling: str) -> None:
        super().__init__()
        require(f"an encoder of the family {config.get('model_type')}", "transformers")
        from transformers import AutoModel

        try:
            self.model = AutoModel.from_config(_config_of(config), trust_remote_code=False)
            self.width = int(self.model.config.hidden_size)
        except Exception as error:  # each family checks its config in its own way, or not at all
            reason = (str(error).splitlines() or [type(error).__name__])[0]
            raise ModelError(f"transformers cannot build this encoder: {reason[:200]}") from None
        self.pooling = pooling

    def forward(self, ids: Tensor, mask: Tensor | None = None) -> Tensor:
        """Token ids and mask (texts, places) to vectors (texts, width) float32."""
        mask = torch.ones_like(ids, dtype=torch.bool) if mask is None else mask
        try:
            states = self.model(input_ids=ids, attention_mask=mask.long()).last_hidden_state
        except (RuntimeError, ValueError, IndexError, TypeError, AttributeError) as error:
            if ids.is_cuda:  # such as memory that is short
                raise
            raise ModelError(f"the encoder cannot read texts: {(str(error).splitlines() or ['?'])[0]}") from None
        return Padded(mask, None).pool(states, self.pooling)


def _foreign(
    folder: Path, config: dict[str, Any], pooling: str, dropout: float | None
) -> tuple[dict[str, Any], dict[str, Tensor]]:
    require(f"an encoder of the family {config.get('model_type')}", "transformers")
    from transformers import AutoModel
    from transformers.utils import logging

    if config.get("is_encoder_decoder"):
        raise DataError(f"{folder} holds an encoder and a decoder; use a folder with an encoder alone")
    config = _nameless(config)
    if dropout is not None:
        config |= {key: dropout for key in config if key.endswith(("dropout", "dropout_prob"))}
    _check_settings({"kind": "foreign", "config": config, "pooling": pooling}, folder)
    bytes_there = sum(file.stat().st_size for file in _check_weights_files(folder))
    try:
        with torch.device("meta"):  # which takes no memory
            asked = sum(tensor.numel() for tensor in Foreign(config, pooling).state_dict().values())
    except ModelError as error:
        raise DataError(f"transformers cannot read {folder}: {error}") from None
    if asked > bytes_there:  # a number has at least a byte
        raise DataError(
            f"the config.json of {folder} asks for {asked:,} weights, and its files have {bytes_there:,} bytes"
        )
    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        given = {"local_files_only": True, "trust_remote_code": False, "use_safetensors": True}
        model = AutoModel.from_pretrained(folder, config=_config_of(config), **given).float()
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
    """The folder's config.json, and its pooling."""
    config = _json(folder / "config.json", f"{folder} holds no encoder: config.json is missing")
    if (folder / "2_Dense").exists():
        raise DataError(
            f"{folder} ends in a dense layer, which longtail does not read; use its transformer alone, and set "
            "dimension for a projection"
        )
    return config, pooling or _pooling(folder)


def _nameless(config: dict[str, Any]) -> dict[str, Any]:
    """The config without what leads elsewhere, at any depth: no code is taken from a name in it."""
    return {
        key: _nameless(value) if isinstance(value, dict) else value
        for key, value in config.items()
        if key not in NOT_OURS
    }


def _config_of(config: dict[str, Any]) -> Any:
    from transformers import AutoConfig

    rest = {key: value for key, value in _nameless(config).items() if key != "model_type"}
    return AutoConfig.for_model(config["model_type"], **rest)


def _check_settings(settings: dict[str, Any], folder: Path) -> None:
    try:
        check_encoder_settings(settings)
    except Misfit as error:
        raise DataError(f"the config.json of {folder} cannot be right: {error}") from None


def check_size(config: dict[str, Any], weights: dict[str, Tensor]) -> None:
    """Compare the shapes of a network of the transformers package with weights, before it takes any memory.

    Args:
        config: of the network.
        weights: of its encoder, by name.

    Raises:
        ModelError: it cannot be built, or has other weights.
    """
    with torch.device("meta"):
        body = Foreign(config, "mean")
    wanted = {f"body.{name}": tuple(tensor.shape) for name, tensor in body.state_dict().items()}
    given = {name: tuple(tensor.shape) for name, tensor in weights.items() if name.startswith("body.")}
    if wanted != given:
        other = next(name for name in {**wanted, **given} if wanted.get(name) != given.get(name))
        raise ModelError(f"the weights do not fit the encoder's config: {other} differs")


def _shape(config: dict[str, Any], pooling: str, dropout: float | None) -> Shape | None:
    """The shape of an encoder that our own `Transformer` can compute, else None."""
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
    except (TypeError, ValueError, ZeroDivisionError) as error:
        raise DataError(f"the config.json of a {family} cannot be right: {error}") from None


def _skipped(config: dict[str, Any]) -> int:
    """Rows at the start of RoBERTa's position table that no token uses."""
    return int(config.get("pad_token_id", 1)) + 1 if "roberta" in config["model_type"] else 0


def _ours(weights: dict[str, Tensor], shape: Shape, config: dict[str, Any]) -> dict[str, Tensor]:
    """Rename the weights of a folder to ours."""
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
    """Read all tensors of the folder's files, in float32. No code in them is executed."""
    weights: dict[str, Tensor] = {}
    for file in _check_weights_files(folder):
        try:
            weights |= load_file(file)
        except Exception as error:  # each format raises its own
            raise DataError(f"cannot read the weights: {(str(error).splitlines() or ['?'])[0]}", file) from None
    renamed = {"gamma": "weight", "beta": "bias"}  # in very old files
    return {
        re.sub(r"(?<=LayerNorm\.)(gamma|beta)$", lambda found: renamed[found[0]], name): tensor.float()
        for name, tensor in weights.items()
    }


def _check_weights_files(folder: Path) -> list[Path]:
    """The files of the weights: safetensors, which hold nothing but arrays."""
    files = sorted(folder.glob("model*.safetensors"))
    if not files:
        pickled = any(folder.glob("pytorch_model*.bin"))
        advice = (
            "; its pytorch_model.bin is a pickle, which can hold code: convert it once where you trust it, by "
            f"transformers.AutoModel.from_pretrained({str(folder)!r}).save_pretrained({str(folder)!r})"
        )
        raise DataError(f"{folder} holds no weights: model.safetensors is not there{advice if pickled else ''}")
    for file in files:
        if not file.is_file():
            raise DataError("is no regular file, and is not read", file)
    return files


def _pooling(folder: Path) -> str:
    """The pooling in a sentence-transformers folder; mean in other folders."""
    path = folder / "1_Pooling" / "config.json"
    if not path.is_file():
        return "mean"
    facts = _json(path, "")
    known = {"pooling_mode_cls_token": "cls", "pooling_mode_mean_tokens": "mean", "pooling_mode_max_tokens": "max"}
    asked = [key for key, value in facts.items() if key.startswith("pooling_mode_") and value is True]
    if isinstance(facts.get("pooling_mode"), str):  # written by newer releases
        asked = [f"pooling_mode_{facts['pooling_mode']}{'_token' if facts['pooling_mode'] == 'cls' else '_tokens'}"]
    if len(asked) != 1 or asked[0] not in known:
        raise DataError(
            f"pooling by {', '.join(asked) or 'nothing'} is not known; set pooling to mean, cls or max", path
        )
    return known[asked[0]]


def _json(path: Path, missing: str) -> dict[str, Any]:
    try:
        found = path.stat()
        if not stat.S_ISREG(found.st_mode) or found.st_size > MAX_JSON:
            raise DataError(f"is no regular file of at most {MAX_JSON:,} bytes, and is not read", path)
        facts = json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        raise DataError(missing) from None
    except (OSError, ValueError, RecursionError) as error:
        raise DataError(f"cannot be read as JSON: {error}", path) from None
    if not isinstance(facts, dict):
        raise DataError("is not a JSON object", path)
    return facts


@contextmanager
def _quiet_hub() -> Iterator[None]:
    """Hide the hub's progress bars: our own stage shows the progress."""
    from huggingface_hub import utils

    shown = not utils.are_progress_bars_disabled()
    utils.disable_progress_bars()
    try:
        yield
    finally:
        if shown:
            utils.enable_progress_bars()
