"""What is saved of an encoder, declared: the settings of each kind, and the arrays that follow from them.

An encoder is built from its settings, so they are compared with the arrays of the file before anything is built: what
the settings ask for is then no larger than what the file holds. Imports no torch.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from longtail.nn.encoders.encoder_names import ACTIVATIONS, MIN_CONVOLUTION_DIMENSION, POOLINGS
from longtail.seams import (
    AnyFields,
    Array,
    Declaration,
    Fields,
    Flag,
    Many,
    Misfit,
    Nothing,
    Number,
    Several,
    Whole,
    Words,
)
from longtail.seams.declared import LARGEST, Declared

MAX_LAYERS = 1000
SIZE, SHARE = Whole(1, LARGEST), Number(0, 1)
DIMENSION = {"dimension": Nothing(SIZE, optional=True)}
KINDS: dict[str, dict[str, Declared]] = {
    "transformer": {
        **dict.fromkeys(("vocabulary", "width", "heads", "inner", "places"), SIZE),
        "layers": Whole(1, MAX_LAYERS),
        **dict.fromkeys(("dropout", "attention_dropout"), SHARE),
        "activation": Words(tuple(ACTIVATIONS)),
        "epsilon": Number(0, 1),
        "pooling": Words(POOLINGS),
        "taps": Many(Whole(1, MAX_LAYERS), most=MAX_LAYERS, optional=True),
    },
    "bag": {"vocabulary": SIZE, "width": SIZE, "residual": Flag(), "dropout": SHARE},
    "gru": {"vocabulary": SIZE, "width": SIZE, "dropout": SHARE},
    "weighted bag": {
        "vocabulary": SIZE,
        "width": SIZE,
        "block": Words(("none", "added", "gated", "scaled")),
        "dropout": SHARE,
    },
    "inception": {
        **dict.fromkeys(("vocabulary", "vectors", "places", "channels"), SIZE),
        **dict.fromkeys(("dropout", "last"), SHARE),
    },
    "foreign": {"config": AnyFields(), "pooling": Words(POOLINGS), "places": Nothing(Whole(1, LARGEST), optional=True)},
}
COUNTS = ("layer", "block", "expert", "head", "stage", "depth", "repeat", "num_")  # in the names of a foreign config
MAX_COUNT = 4096

ENCODER = Declaration(  # of what every scorer with a `TextEncoder` stores of it
    arrays={"tokenizer": Array("uint8", "bytes of the tokenizer")},
    settings={
        "encoder": AnyFields(),
        "max_tokens": Whole(1, LARGEST),
        "calibration": Several((Number(above=0), Number())),
    },
    then=(lambda settings: _declared(settings["encoder"]),),
)


def dimension_of(settings: Mapping[str, Any]) -> str:
    """The numbers of an encoder's vectors, for the shape of an `Array`.

    Args:
        settings: of a scorer with an encoder, as they are stored.

    Returns:
        The number, or the name "dimension" where only the network itself knows.

    Raises:
        Misfit: the settings of the encoder are wrong.
    """
    given = settings["encoder"]
    check_encoder_settings(given)
    width = _width(given)
    asked = given.get("dimension")
    return "dimension" if asked is None and width is None else str(asked or width)


def _declared(given: dict[str, Any]) -> Declaration:
    check_encoder_settings(given)
    if given["kind"] == "foreign":
        return Declaration(loose=("encoder.",))
    arrays = {f"encoder.body.{name}": Array(*form) for name, form in _body(given)}
    width, asked = _width(given), given.get("dimension")
    if asked not in (None, width):
        arrays["encoder.projection.weight"] = Array("float32", f"{asked}, {width}")
    return Declaration(arrays)


def check_body(settings: Mapping[str, Any], shapes: Mapping[str, tuple[int, ...]]) -> None:
    """Compare the shapes of a network's weights with its settings.

    Args:
        settings: of the encoder; of our own kinds.
        shapes: by name.

    Raises:
        Misfit: a weight is missing, is one too many, or has another shape.
    """
    wanted = {name: shape for name, (_, shape) in _body(settings)}
    for name in {**wanted, **shapes}:
        if name not in wanted or name not in shapes:
            raise Misfit(name, "is missing" if name in wanted else "is not one of this kind")
        if wanted[name] != ", ".join(map(str, shapes[name])):
            raise Misfit(name, f"has the shape {shapes[name]}, not ({wanted[name]})")


def check_encoder_settings(given: dict[str, Any]) -> None:
    """Check the settings of an encoder by type and range.

    Args:
        given: with its kind.

    Raises:
        Misfit: a setting is missing, unknown, of another type or out of range.
    """
    kind = given.get("kind")
    Words(tuple(KINDS)).check("encoder.kind", kind, {})
    Fields({"kind": Words(), **KINDS[str(kind)], **DIMENSION}).check("encoder", given, {})
    if kind == "transformer" and given["width"] % given["heads"]:
        raise Misfit("encoder.width", f"is no multiple of {given['heads']} heads", "setting")
    taps = given.get("taps", ())
    if len(set(taps)) < len(taps) or any(layer > given["layers"] for layer in taps):
        raise Misfit("encoder.taps", f"names a layer twice, or one beyond the {given['layers']} there are", "setting")
    if kind == "gru" and given["width"] % 2:
        raise Misfit("encoder.width", "is odd, and a gru reads in two directions", "setting")
    if kind == "inception" and (given["vectors"] < MIN_CONVOLUTION_DIMENSION or given["vectors"] % 4):
        raise Misfit("encoder.vectors", f"is below {MIN_CONVOLUTION_DIMENSION}, or no multiple of 4", "setting")
    if kind == "foreign":
        _check_config(given["config"], "encoder.config")


def _check_config(config: Any, name: str) -> None:
    """Sizes and counts that a network of the transformers package could have."""
    if isinstance(config, dict):
        for key, value in config.items():
            _check_config(value, f"{name}.{key}")
    elif isinstance(config, list):
        for value in config:
            _check_config(value, name)
    elif isinstance(config, int):
        most = MAX_COUNT if any(word in name.rpartition(".")[2] for word in COUNTS) else LARGEST
        Whole(-1, most).check(name, int(config), {})


def _width(given: Mapping[str, Any]) -> int | None:
    """Of the network itself, before a projection."""
    if given["kind"] == "inception":
        return int(given["channels"] * ((given["vectors"] // 4 - 16) // 4 + 1))
    found = given["config"].get("hidden_size") if given["kind"] == "foreign" else given["width"]
    return int(found) * max(len(given.get("taps", ())), 1) if isinstance(found, int) else None


def _body(given: Mapping[str, Any]) -> Iterator[tuple[str, tuple[str, str]]]:
    """Name, and type and shape, of each array of a network. A single number is saved as an array of one."""
    kind, words = given["kind"], given["vocabulary"]
    width = given["vectors" if kind == "inception" else "width"]
    yield "words.weight", ("float32", f"{words}, {width}")
    if kind in ("bag", "weighted bag", "inception"):
        yield "idf", ("float32", f"{words}")
    if kind == "transformer":
        yield "positions.weight", ("float32", f"{given['places']}, {width}")
        yield from _linear("norm", f"{width}", width)
        for layer in range(given["layers"]):
            yield from _layer(f"layers.{layer}.", width, given["inner"])
    elif kind == "bag" and given["residual"]:
        yield from _linear("residual", f"{width}, {width}", width)
    elif kind == "gru":
        half = width // 2
        shapes = {"weight_ih": f"{3 * half}, {width}", "weight_hh": f"{3 * half}, {half}"}
        shapes |= {"bias_ih": f"{3 * half}", "bias_hh": f"{3 * half}"}
        for end in ("_l0", "_l0_reverse"):
            yield from ((f"network.{name}{end}", ("float32", shape)) for name, shape in shapes.items())
    elif kind == "weighted bag" and given["block"] != "none":
        stem = "block.layer.parametrizations.weight."  # of torch's spectral norm
        yield "block.layer.bias", ("float32", f"{width}")
        yield f"{stem}original", ("float32", f"{width}, {width}")
        yield from ((f"{stem}0.{name}", ("float32", f"{width}")) for name in ("_u", "_v"))
        more = {"gated": {"moved": f"{width}", "kept": f"{width}"}, "scaled": {"share": "1"}}.get(given["block"], {})
        yield from ((f"block.{name}", ("float32", shape)) for name, shape in more.items())
    elif kind == "inception":
        yield from _convolutions(given["places"], width, given["channels"])


def _linear(name: str, weight: str, out: int) -> Iterator[tuple[str, tuple[str, str]]]:
    yield f"{name}.weight", ("float32", weight)
    yield f"{name}.bias", ("float32", f"{out}")


def _layer(stem: str, width: int, inner: int) -> Iterator[tuple[str, tuple[str, str]]]:
    yield from _linear(f"{stem}attend", f"{3 * width}, {width}", 3 * width)
    yield from _linear(f"{stem}attended", f"{width}, {width}", width)
    yield from _linear(f"{stem}widen", f"{inner}, {width}", inner)
    yield from _linear(f"{stem}narrow", f"{width}, {inner}", width)
    for name in ("attended_norm", "narrow_norm"):
        yield from _linear(f"{stem}{name}", f"{width}", width)


def _convolutions(places: int, width: int, channels: int) -> Iterator[tuple[str, tuple[str, str]]]:
    for name, size in (("over_places", places), ("over_width", width)):
        inner = max(size // 8, 1)
        yield f"network.{name}.share", ("float32", "1")
        for part, out in (("asks", inner), ("answers", inner), ("says", size)):
            yield from _linear(f"network.{name}.{part}", f"{out}, {size}, 1", out)
    yield from _linear("network.mixed", f"{channels}, {places}, 1", channels)
    for number, window in enumerate((4, 8, 16)):
        yield from _linear(f"network.wide.{number}", f"{channels}, {channels}, {window}", channels)
    yield from _linear("network.norm", f"{3 * channels}", 3 * channels)
    for name in ("running_mean", "running_var"):
        yield f"network.norm.{name}", ("float32", f"{3 * channels}")
    yield "network.norm.num_batches_tracked", ("int64", "1")
    yield from _linear("network.last", f"{channels}, {3 * channels}, 16", channels)
    features = channels * ((width // 4 - 16) // 4 + 1)
    yield from _linear("network.layer", f"{features}, {features}", features)
