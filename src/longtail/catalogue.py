"""Every learner and tail method by name, and where it lives. Nothing is imported until it is asked for."""

from __future__ import annotations

import dataclasses
import math
import types
import typing
from importlib import import_module
from typing import Any

from longtail.errors import RecipeError, did_you_mean
from longtail.grammar import Part, Setting, literal

LARGEST = 2**32  # of a setting that is a whole number: beyond, kernels and generators overflow
LEARNERS = {
    "ance": "longtail.learners.ance:Ance",
    "astec": "longtail.learners.astec:Astec",
    "bm25": "longtail.learners.bm25:Bm25",
    "bonsai": "longtail.learners.bonsai:Bonsai",
    "centroid": "longtail.learners.centroid:Centroid",
    "decaf": "longtail.learners.decaf:Decaf",
    "depsl": "longtail.learners.depsl:Depsl",
    "dexml": "longtail.learners.dexml:Dexml",
    "dismec": "longtail.learners.dismec:Dismec",
    "dpr": "longtail.learners.dpr:Dpr",
    "eclare": "longtail.learners.eclare:Eclare",
    "fastxml": "longtail.learners.fastxml:FastXml",
    "inceptionxml": "longtail.learners.inceptionxml:InceptionXml",
    "inceptionxml-lf": "longtail.learners.inceptionxml_lf:InceptionXmlLf",
    "knn": "longtail.learners.knn:Knn",
    "ngame": "longtail.learners.ngame:Ngame",
    "parabel": "longtail.learners.parabel:Parabel",
    "pfastrexml": "longtail.learners.pfastrexml:PfastreXml",
    "proxml": "longtail.learners.proxml:Proxml",
    "renee": "longtail.learners.renee:Renee",
    "siamesexml": "longtail.learners.siamesexml:SiameseXml",
    "unidec": "longtail.learners.unidec:Unidec",
    "xreg": "longtail.learners.xreg:Xreg",
}
TAIL_METHODS = {
    "bow": "longtail.tail.bow:Bow",
    "calibrate": "longtail.tail.calibrate:Calibrate",
    "centroid": "longtail.tail.centroid:CentroidTail",
    "dexa": "longtail.tail.dexa:Dexa",
    "ensemble": "longtail.tail.ensemble:Ensemble",
    "gandalf": "longtail.tail.gandalf:Gandalf",
    "glas": "longtail.tail.glas:Glas",
    "l2tie": "longtail.tail.l2tie:L2tie",
    "labelmixup": "longtail.tail.labelmixup:LabelMixup",
    "lever": "longtail.tail.lever:Lever",
    "mixup": "longtail.tail.mixup:Mixup",
    "ranknet": "longtail.tail.ranknet:RankNet",
    "rerank": "longtail.tail.rerank:Rerank",
    "rows": "longtail.tail.rows:LabelRows",
    "synonyms": "longtail.tail.synonyms:SynonymRows",
    "taug": "longtail.tail.taug:Taug",
}


def learner_class(name: str) -> type[Any]:
    if name not in LEARNERS:
        hint = did_you_mean(name, LEARNERS)
        if name in TAIL_METHODS:
            hint = f"; it is a tail method and goes after a learner: 'centroid + {name}'"
        raise RecipeError(f"unknown learner '{name}'{hint} (learners: {', '.join(LEARNERS)})")
    return _load(LEARNERS[name])


def tail_class(name: str) -> type[Any]:
    if name not in TAIL_METHODS:
        hint = did_you_mean(name, TAIL_METHODS)
        if name in LEARNERS:
            hint = "; it is a learner, and a recipe has one learner, which stands first"
        raise RecipeError(f"unknown tail method '{name}'{hint} (tail methods: {', '.join(TAIL_METHODS)})")
    return _load(TAIL_METHODS[name])


def name_of(part: object) -> str:
    """The catalogue's name of a learner or tail method."""
    path = f"{type(part).__module__}:{type(part).__qualname__}"
    for name, known in (*LEARNERS.items(), *TAIL_METHODS.items()):  # a learner and a tail method may share a name
        if known == path:
            return name
    raise RecipeError(f"{type(part).__qualname__} is not in the catalogue")


def build(part: Part, kind: type[Any]) -> Any:
    """A learner or tail method with its settings, checked against the fields of its dataclass."""
    fields = {field.name: field for field in dataclasses.fields(kind)}
    hints = typing.get_type_hints(kind)
    values: dict[str, Any] = {}
    for setting in part.settings:
        if setting.name not in fields:
            valid = ", ".join(fields) or "it has none"
            raise RecipeError(
                f"unknown setting '{setting.name}' of {part.name}{did_you_mean(setting.name, fields)} "
                f"(settings: {valid})"
            )
        values[setting.name] = _fitting(part.name, setting, hints[setting.name])
    if values.get("seed", 0) < 0:  # no generator takes it
        raise RecipeError(f"setting 'seed' of {part.name} is at least 0, got {values['seed']}")
    return kind(**values)


def written(part: Part, kind: type[Any]) -> dict[str, Any]:
    """Every setting by its name as a recipe writes it, or its default. Nothing is checked: a file that a setting names
    may be gone by now, or lie on another machine."""
    defaults = {field.name: field.default for field in dataclasses.fields(kind)}
    return defaults | {setting.name: setting.value for setting in part.settings}


def describe(part: object) -> Part:
    """The settings of a part that differ from their defaults, as a recipe would write them."""
    settings = []
    for field in dataclasses.fields(part):  # type: ignore[arg-type]
        value = getattr(part, field.name)
        if field.default is dataclasses.MISSING or value != field.default:
            settings.append(Setting(field.name, value))
    return Part(name_of(part), tuple(settings))


def _load(path: str) -> type[Any]:
    module, _, name = path.partition(":")
    return getattr(import_module(module), name)  # type: ignore[no-any-return]


def _fitting(part: str, setting: Setting, hint: Any) -> Any:
    """The value as the field wants it: an int serves for a float, nothing else is converted."""
    choices = typing.get_args(hint) if _is_union(hint) else (hint,)
    value = setting.value
    for choice in choices:
        plain = typing.get_origin(choice) or choice
        if plain is typing.Literal:
            if value in typing.get_args(choice):
                return value
        elif choice is type(None):
            if value is None:
                return None
        elif plain is float:
            if isinstance(value, int | float) and not isinstance(value, bool):
                if not math.isfinite(value):
                    break
                return float(value)
        elif plain is int:
            if isinstance(value, int) and not isinstance(value, bool):
                if abs(value) > LARGEST:
                    raise RecipeError(
                        f"setting '{setting.name}' of {part} is at most {LARGEST:,}, got {literal(value)}"
                    )
                return value
        elif isinstance(value, plain):
            return value
    wanted = " or ".join(_spoken(choice) for choice in choices)
    raise RecipeError(f"setting '{setting.name}' of {part} takes {wanted}, got {literal(value)}")


def _is_union(hint: Any) -> bool:
    return typing.get_origin(hint) in (typing.Union, types.UnionType)


def _spoken(choice: Any) -> str:
    if typing.get_origin(choice) is typing.Literal:
        return " or ".join(literal(value) for value in typing.get_args(choice))
    names = {
        int: "a whole number",
        float: "a number",
        bool: "true or false",
        str: "a string",
        type(None): "none",
    }
    return names.get(choice, "a list")
