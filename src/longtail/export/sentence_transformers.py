"""The encoder as a folder that `SentenceTransformer(path)` loads, with the same vectors, and the label vectors.

    from sentence_transformers import SentenceTransformer

    encoder = SentenceTransformer("path")
    scores = encoder.encode(["a text"]) @ numpy.load("path/labels/vectors.npy").T

The layout is plain files, so writing them does not need the sentence-transformers package.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file

from longtail.arrays import AnyArray
from longtail.errors import ModelError
from longtail.export import numpy as vectors
from longtail.export.parts import FACTS, ExportParts, writing
from longtail.model import Model
from longtail.nn.encoders.text_encoder import TextEncoder
from longtail.nn.pool.pool_scorer import ProjectedTextEncoder

ACTIVATIONS = {"none": "gelu", "tanh": "gelu_new", "relu": "relu"}
SPECIAL = {  # names of a tokenizer's special tokens, by role
    "pad_token": ("[PAD]", "<pad>", "<|padding|>", "<|endoftext|>"),
    "unk_token": ("[UNK]", "<unk>"),
    "cls_token": ("[CLS]", "<s>"),
    "sep_token": ("[SEP]", "</s>"),
    "mask_token": ("[MASK]", "<mask>"),
}


def export(model: Model, folder: str | Path, *, overwrite: bool = False) -> Path:
    """Writes the encoder, its pooling, its tokenizer, and the label vectors under labels/.

    Args:
        model: a model with an encoder and a vector for each label.
        folder: the folder to write.
        overwrite: replaces an export that is there.

    Returns:
        The folder.

    Raises:
        ModelError: the model has no vectors of labels, sentence-transformers has no form for its encoder, or the
            folder is taken.
    """
    parts = ExportParts.of(model)
    encoder, settings = parts.encoder, parts.encoder.settings
    if isinstance(encoder, ProjectedTextEncoder):
        raise ModelError(
            f"the encoder of {model.recipe} has heads side by side, which sentence-transformers has no form for; "
            "export it to onnx, or the label vectors to numpy"
        )
    if settings["kind"] == "transformer":
        config, weights = _as_bert(encoder)
    elif settings["kind"] == "foreign":
        config = settings["config"]
        weights = {
            name.removeprefix("body.model."): array
            for name, array in encoder.weights.items()
            if name.startswith("body.model.")
        }
    else:
        raise ModelError(
            f"the encoder of {model.recipe} is a {settings['kind']}, which sentence-transformers has no form for; "
            "export it to onnx, or the label vectors to numpy"
        )
    width = int(config.get("hidden_size") or config["dim"])
    with writing(folder, overwrite) as place:
        _json(place / "config.json", config)
        save_file({name: np.ascontiguousarray(array) for name, array in weights.items()}, place / "model.safetensors")
        _write_tokenizer(encoder, place)
        steps = [("0", "", "Transformer")]
        _write_pooling(place / "1_Pooling", width, settings["pooling"])
        steps.append(("1", "1_Pooling", "Pooling"))
        projection = _projection(encoder, width)
        if projection is not None:
            _write_dense(place / "2_Dense", projection)
            steps.append((str(len(steps)), "2_Dense", "Dense"))
        if parts.normalised:
            steps.append((str(len(steps)), f"{len(steps)}_Normalize", "Normalize"))
            (place / steps[-1][1]).mkdir()
        modules = [
            {"idx": int(name), "name": name, "path": path, "type": f"sentence_transformers.models.{kind}"}
            for name, path, kind in steps
        ]
        _json(place / "modules.json", modules)
        _json(place / "config_sentence_transformers.json", {"similarity_fn_name": "dot"})
        _json(place / "sentence_bert_config.json", {"max_seq_length": encoder.max_tokens, "do_lower_case": False})
        (place / "labels").mkdir()
        vectors.write(parts, place / "labels")
        _json(place / FACTS, parts.facts())
    return Path(folder)


def _as_bert(encoder: TextEncoder) -> tuple[dict[str, Any], dict[str, AnyArray]]:
    """Our transformer under BERT's names. The segment embeddings are 0: ours are part of the position embeddings."""
    from longtail.nn.encoders.pretrained import BERT_LAYER, OUR_LAYER
    from longtail.nn.encoders.transformer_layer import Shape

    given = {name: value for name, value in encoder.settings.items() if name not in ("kind", "dimension")}
    shape, ours = Shape(**given), encoder.weights
    config = {
        "architectures": ["BertModel"],
        "model_type": "bert",
        "vocab_size": shape.vocabulary,
        "hidden_size": shape.width,
        "num_hidden_layers": shape.layers,
        "num_attention_heads": shape.heads,
        "intermediate_size": shape.inner,
        "max_position_embeddings": shape.places,
        "hidden_dropout_prob": shape.dropout,
        "attention_probs_dropout_prob": shape.attention_dropout,
        "hidden_act": ACTIVATIONS[shape.form],
        "layer_norm_eps": shape.epsilon,
        "type_vocab_size": 2,
        "pad_token_id": 0,
        "dtype": "float32",
    }
    weights: dict[str, AnyArray] = {
        "embeddings.word_embeddings.weight": ours["body.words.weight"],
        "embeddings.position_embeddings.weight": ours["body.positions.weight"],
        "embeddings.token_type_embeddings.weight": np.zeros((2, shape.width), dtype=np.float32),
        # Nothing uses the pooler, but the loader of BERT warns where it is missing.
        "pooler.dense.weight": np.eye(shape.width, dtype=np.float32),
        "pooler.dense.bias": np.zeros(shape.width, dtype=np.float32),
    }
    heads, rest = BERT_LAYER
    for kind in ("weight", "bias"):
        weights[f"embeddings.LayerNorm.{kind}"] = ours[f"body.norm.{kind}"]
        for layer in range(shape.layers):
            stem, own = f"encoder.layer.{layer}", f"body.layers.{layer}"
            three = np.split(ours[f"{own}.attend.{kind}"], 3)
            weights |= {f"{stem}.{name}.{kind}": part for name, part in zip(heads, three, strict=True)}
            weights |= {
                f"{stem}.{name}.{kind}": ours[f"{own}.{our}.{kind}"] for our, name in zip(OUR_LAYER, rest, strict=True)
            }
    return config, weights


def _projection(encoder: TextEncoder, width: int) -> AnyArray | None:
    """(kept, width) the encoder's projection, only its first rows where vectors are cut; None where it has none."""
    found = encoder.weights.get("projection.weight")
    if found is None and encoder.cut is None:
        return None
    projection = np.eye(width, dtype=np.float32) if found is None else found
    return projection[: encoder.cut]


def _write_pooling(folder: Path, width: int, how: str) -> None:
    folder.mkdir()
    modes = {"cls": "cls_token", "mean": "mean_tokens", "max": "max_tokens"}
    marks = {f"pooling_mode_{name}": how == mode for mode, name in modes.items()}
    _json(folder / "config.json", {"word_embedding_dimension": width, **marks})


def _write_dense(folder: Path, weight: AnyArray) -> None:
    folder.mkdir()
    kept, width = weight.shape
    facts = {"in_features": width, "out_features": kept, "bias": False}
    _json(folder / "config.json", {**facts, "activation_function": "torch.nn.modules.linear.Identity"})
    save_file({"linear.weight": np.ascontiguousarray(weight)}, folder / "model.safetensors")


def _write_tokenizer(encoder: TextEncoder, folder: Path) -> None:
    definition = json.loads(encoder.definition.tobytes())
    definition["padding"] = definition["truncation"] = None  # the program that loads it sets them
    _json(folder / "tokenizer.json", definition)
    vocabulary = (definition.get("model") or {}).get("vocab") or {}
    words = set(vocabulary) if isinstance(vocabulary, dict) else {entry[0] for entry in vocabulary}
    words |= {token["content"] for token in definition.get("added_tokens") or ()}
    named = {role: next((name for name in names if name in words), None) for role, names in SPECIAL.items()}
    facts: dict[str, Any] = {role: name for role, name in named.items() if name is not None}
    facts |= {"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": encoder.max_tokens}
    # Our encoders read one segment, so there are no token_type_ids.
    facts["model_input_names"] = ["input_ids", "attention_mask"]
    _json(folder / "tokenizer_config.json", facts)


def _json(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value, indent=1) + "\n", encoding="utf-8")
