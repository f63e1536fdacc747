"""Every learner and tail method by name, those of other packages too. Nothing is imported until it is asked for."""

from __future__ import annotations

import dataclasses
import math
import pkgutil
import types
import typing
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any

from longtail.errors import RecipeError, did_you_mean
from longtail.grammar import Member, Part, Setting, literal

_TYPES: dict[type[Any], Mapping[str, Any]] = {}  # of settings, by class
LARGEST = 2**32  # of a setting that is a whole number: beyond, kernels and generators overflow


class Parts(Mapping[str, str]):
    """Names of learners or of tail methods, and where each lives. Nothing is imported to list them.

    A part of this package is a file of its room: `learners/parabel.py` is `parabel`, and an underscore is written as
    a hyphen. A part of another package is an entry point of that package, in the group `longtail.<room>`.
    """

    def __init__(self, room: str, group: str) -> None:
        self.room = room  # the package that holds our own parts
        self.group = group  # of the entry points that other packages declare

    @cached_property
    def _own(self) -> dict[str, str]:
        folder = str(Path(__file__).parent / self.room)
        names = (module.name for module in pkgutil.iter_modules([folder]) if not module.name.startswith("_"))
        return {name.replace("_", "-"): f"longtail.{self.room}.{name}" for name in names}

    @cached_property
    def plugins(self) -> dict[str, EntryPoint]:
        """What other packages add, by name. A name of our own stays ours."""
        found = sorted(entry_points(group=self.group), key=lambda entry: entry.name)
        return {entry.name: entry for entry in found if entry.name not in self._own}

    def __getitem__(self, name: str) -> str:
        return self._own[name] if name in self._own else self.plugins[name].value

    def __iter__(self) -> Iterator[str]:
        return iter((*self._own, *self.plugins))

    def __len__(self) -> int:
        return len(self._own) + len(self.plugins)

    def load(self, name: str) -> type[Any]:
        """Import a part.

        Args:
            name: A name that is listed.

        Returns:
            The class of the learner or tail method.

        Raises:
            RecipeError: The package of a plug-in cannot be imported, or holds no such part.
        """
        if name in self._own:
            return _part_of(import_module(self._own[name]))
        try:
            kind = self.plugins[name].load()
        except Exception as error:
            raise RecipeError(
                f"'{name}' comes from the package {package_of(self.plugins[name])}, which cannot be imported "
                f"({type(error).__name__}: {error}); update it, or uninstall it"
            ) from error
        missing = [wanted for wanted in _DECLARED[self.room] if not hasattr(kind, wanted)]
        if not dataclasses.is_dataclass(kind) or missing:
            lacks = ", ".join(missing) or "@dataclass(frozen=True)"
            raise RecipeError(
                f"'{name}' of the package {package_of(self.plugins[name])} is no part of a recipe: it lacks {lacks}"
            )
        return kind  # type: ignore[return-value]


# What the class of a part declares; see `longtail.seams`.
_DECLARED = {
    "learners": ("summary", "offers", "data_needs", "scorer", "fit", "plan"),
    "tail": ("summary", "needs", "data_needs"),
}
LEARNERS = Parts("learners", "longtail.learners")
TAIL_METHODS = Parts("tail", "longtail.tail_methods")


def package_of(entry: EntryPoint) -> str:
    """The package that declares an entry point.

    Args:
        entry: An entry point of an installed package.

    Returns:
        Its name, as `pip install` takes it.
    """
    return entry.dist.name if entry.dist is not None else entry.value.partition(".")[0]


def plugin_packages(names: Iterable[str]) -> dict[str, str]:
    """The packages that parts of other people come from.

    Args:
        names: Names of parts, as a recipe writes them.

    Returns:
        The package of each part that is not this package's own.
    """
    return {
        name: package_of(parts.plugins[name])
        for name in names
        for parts in (LEARNERS, TAIL_METHODS)
        if name in parts and name in parts.plugins
    }


def learner_class(name: str) -> type[Any]:
    """The class of a learner.

    Args:
        name: Its name in a recipe.

    Returns:
        The class, imported now if it was not before.

    Raises:
        RecipeError: No learner has this name, or its package cannot be imported.
    """
    if name not in LEARNERS:
        hint = did_you_mean(name, LEARNERS)
        if name in TAIL_METHODS:
            hint = f"; it is a tail method and goes after a learner: 'centroid + {name}'"
        raise RecipeError(f"unknown learner '{name}'{hint} (learners: {', '.join(LEARNERS)})")
    return LEARNERS.load(name)


def tail_class(name: str) -> type[Any]:
    """The class of a tail method.

    Args:
        name: Its name in a recipe.

    Returns:
        The class, imported now if it was not before.

    Raises:
        RecipeError: No tail method has this name, or its package cannot be imported.
    """
    if name not in TAIL_METHODS:
        hint = did_you_mean(name, TAIL_METHODS)
        if name in LEARNERS:
            hint = "; it is a learner, and a recipe has one learner, which stands first"
        raise RecipeError(f"unknown tail method '{name}'{hint} (tail methods: {', '.join(TAIL_METHODS)})")
    return TAIL_METHODS.load(name)


def name_of(part: object) -> str:
    """The name of a part in a recipe.

    Args:
        part: A learner or a tail method.

    Returns:
        The name under which the catalogue lists its class.

    Raises:
        RecipeError: The catalogue does not list its class.
    """
    kind = type(part)
    for parts in (LEARNERS, TAIL_METHODS):
        for name in parts:
            module = parts[name].partition(":")[0]  # a plug-in may name its class in a module that imports it
            if (module == kind.__module__ or name in parts.plugins) and parts.load(name) is kind:
                return name
    raise RecipeError(f"{kind.__qualname__} is not in the catalogue")


def build(part: Part, kind: type[Any]) -> Any:
    """A learner or tail method with its settings, checked against the fields of its dataclass.

    Args:
        part: The part as a recipe writes it.
        kind: Its class.

    Returns:
        An instance of the class.

    Raises:
        RecipeError: A setting is unknown, of another type, or out of range.
    """
    fields = {field.name: field for field in dataclasses.fields(kind)}
    hints = types_of_settings(kind)
    values: dict[str, Any] = {}
    takes_members = fields.pop("members", None) is not None
    if part.members:
        if not takes_members:
            able = " and ".join(name for name in LEARNERS if hasattr(learner_class(name), "members"))
            raise RecipeError(
                f"{part.name} takes no members, and {part.members[0]} stands without a name: write setting=value "
                f"(members are for {able})"
            )
        values["members"] = tuple(member.text for member in part.members)
    given = {setting.name: setting for setting in part.settings}
    preset = {name: Setting(name, value) for name, value in preset_of(part, kind).items()}
    for setting in (preset | given).values():
        if setting.name not in fields:
            if setting.name == "members" and takes_members:
                raise RecipeError(f'the members of {part.name} have no name: write {part.name}("knn", "parabel")')
            here = getattr(kind, "symbols", {}).get(setting.name)
            if here is not None:
                raise RecipeError(
                    f"the paper's {setting.name} is the setting '{here}' of {part.name}: write {here}=..."
                )
            valid = ", ".join(fields) or "it has none"
            raise RecipeError(
                f"unknown setting '{setting.name}' of {part.name}{did_you_mean(setting.name, fields)} "
                f"(settings: {valid})"
            )
        values[setting.name] = _fitting(part.name, setting, hints[setting.name])
    if values.get("seed", 0) < 0:  # no generator takes it
        raise RecipeError(f"setting 'seed' of {part.name} is at least 0, got {values['seed']}")
    return kind(**values)


def types_of_settings(kind: type[Any]) -> Mapping[str, Any]:
    """Read the types of a part's settings: once, since Python compiles every one from its text.

    Args:
        kind: The class of the part.

    Returns:
        Types by the names of the fields.
    """
    if kind not in _TYPES:
        _TYPES[kind] = types.MappingProxyType(typing.get_type_hints(kind))
    return _TYPES[kind]


def preset_of(part: Part, kind: type[Any]) -> dict[str, Any]:
    """What the preset of a part sets.

    Args:
        part: The part as a recipe writes it.
        kind: Its class.

    Returns:
        Values by the names of the settings; none where the part names no preset.

    Raises:
        RecipeError: The part has no preset of this name.
    """
    if part.preset is None:
        return {}
    presets = getattr(kind, "presets", {})
    if part.preset in presets:
        return dict(presets[part.preset].settings)
    if not presets:
        raise RecipeError(f"{part.name} has no presets, so '{part.title}' names none; write {part.name} alone")
    named = part.preset.lower()
    near = [name for name in presets if name.lower() == named or (len(named) > 2 and named in name.lower())]
    hint = f"; did you mean '{near[0]}'?" if near else did_you_mean(part.preset, presets)
    raise RecipeError(f"unknown preset '{part.preset}' of {part.name}{hint} (presets: {', '.join(presets)})")


def written(part: Part, kind: type[Any]) -> dict[str, Any]:
    """Every setting as a recipe writes it, as its preset sets it, or its default. Nothing is checked: a file that a
    setting names may be missing by now, or lie on another machine.

    Args:
        part: The part as a recipe writes it.
        kind: Its class.

    Returns:
        Values by the names of the settings.
    """
    defaults = {field.name: field.default for field in dataclasses.fields(kind)}
    members = {"members": tuple(member.text for member in part.members)} if part.members else {}
    return defaults | preset_of(part, kind) | members | {setting.name: setting.value for setting in part.settings}


def spelled_out(part: Part) -> Part:
    """A learner with its members by name, where its class asks for that: which they are decides what it costs.

    Args:
        part: The part as a recipe writes it.

    Returns:
        The part, with the members that it has by default where none were given.
    """
    kind = learner_class(part.name)
    if part.members or not getattr(kind, "spells_out_members", False):
        return part
    return dataclasses.replace(part, members=tuple(map(Member, kind.members)))


def describe(part: object) -> Part:
    """A part as a recipe writes it: its name, and the settings that differ from their defaults.

    Args:
        part: A learner or a tail method.

    Returns:
        What `build` makes an equal part from.

    Raises:
        RecipeError: The catalogue does not list its class.
    """
    settings: list[Setting] = []
    members: tuple[Member, ...] = ()
    for field in dataclasses.fields(part):  # type: ignore[arg-type]
        value = getattr(part, field.name)
        if field.default is not dataclasses.MISSING and value == field.default:
            continue
        if field.name == "members":
            members = tuple(map(Member, value))
        else:
            settings.append(Setting(field.name, value))
    return Part(name_of(part), tuple(settings), members)


def _part_of(module: types.ModuleType) -> type[Any]:
    """The one class of a file that is a part: a dataclass of the file's own whose fields are settings with defaults."""
    room = module.__name__.split(".")[-2]
    found = [
        kind
        for kind in vars(module).values()
        if isinstance(kind, type)
        and kind.__module__ == module.__name__
        and dataclasses.is_dataclass(kind)
        and all(hasattr(kind, wanted) for wanted in _DECLARED[room])
        and all(field.default is not dataclasses.MISSING for field in dataclasses.fields(kind))
    ]
    if len(found) != 1:
        raise RecipeError(
            f"{module.__name__} must hold one frozen dataclass with {', '.join(_DECLARED[room])}, whose settings all "
            f"have defaults; it holds {len(found)}"
        )
    return found[0]


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
