"""Reading a model folder, whoever made it. What the folder holds, file by file, is in `longtail.model_files`.

Checksums find damage, not malice: whoever can write the folder can write matching checksums. So nothing in it is
believed. Files are looked at before they are read, and read no further than they reach (`model_bytes`). The manifest
may only name kinds of the catalogue. All that a part stores is compared with what its class declares, in one place,
before `restore` sees it (`seams/declared.py`): kernels trust indices. One form of error says which file, which array or
setting, and what is wrong with it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from longtail.arrays import Bytes
from longtail.catalogue import LEARNERS, TAIL_METHODS, learner_class, tail_class
from longtail.cutoff import Cutoff
from longtail.data.labels import LabelSet, Propensity
from longtail.data.table_facts import TableFacts
from longtail.errors import LongtailError, ModelError
from longtail.grammar import parse
from longtail.memory import available_bytes
from longtail.model_bytes import arrays_from, read_regular, size_of
from longtail.model_files import (
    FORMAT,
    LABELS,
    MANIFEST,
    MAX_LABEL,
    MAX_LABELS,
    MAX_MANIFEST,
    VERSION,
    checksum,
    described,
    facts_of_labels,
    manifest_to_bytes,
)
from longtail.seams import AnyFields, Fields, Misfit, Number, Reranker, Scorer, State, Whole, Words
from longtail.seams.conforms import conforms
from longtail.seams.declared import LARGEST, Declared, check_settings, shown

if TYPE_CHECKING:
    from longtail.doubts import Doubts

AGAIN = "the model was changed or is damaged: copy it again, or train it again"
MAX_ERROR = 1000  # characters
MAX_RERANKERS, MAX_INSIDE = 100, 10  # re-rankers of a model, and parts inside parts
MAX_ASKED = 1000  # parts that answer one text, those that several share counted each time
PART: Mapping[str, Declared] = {"kind": Words(), "settings": AnyFields(), "parts": AnyFields()}
PART = {**PART, "same_as": Words(optional=True)}  # a part that stands before, and that several others share
MANIFEST_FIELDS: Mapping[str, Declared] = {
    "recipe": Words(),
    "text_field": Words(),
    "id_field": Words(optional=True),
    "language_field": Words(optional=True),
    "table": AnyFields(optional=True),
    "cutoff": AnyFields(optional=True),
    "labels": Fields(
        {
            "number": Whole(0, LARGEST),
            "train_rows": Whole(0, 2**62),
            "propensity": Fields({"a": Number(), "b": Number()}),
        }
    ),
    "scorer": Fields(PART),
    "doubts": Fields(PART, optional=True),
    "packages": AnyFields(optional=True),
    "files": AnyFields(),
}
LABEL: Mapping[str, Declared] = {"id": Words(), "text": Words(), "count": Whole(0, 2**62)}
FILE_FACTS = Fields({"bytes": Whole(0, 2**62), "sha256": Words()})


@dataclass(frozen=True, eq=False)
class ModelParts:
    """What `read_model` finds in a folder: the fields of a `Model`."""

    recipe: str
    labels: LabelSet
    scorer: Scorer
    rerankers: tuple[Reranker, ...]
    text_field: str
    id_field: str
    doubts: Doubts | None = None
    table: TableFacts | None = None
    cutoff: Cutoff | None = None
    language_field: str | None = None


def read_model(path: str | Path, mapped: bool = False, known: LabelSet | None = None) -> ModelParts:
    """Read a model folder.

    Args:
        path: the folder.
        mapped: map its files (`model_bytes.read_regular`). They must not be edited in place as long as the model lives:
            `save` does not, it puts a new folder in the place of the old one.
        known: labels that the folder may have; if it has exactly these, they are not read again.

    Returns:
        The parts of the model.

    Raises:
        ModelError: the folder is not exactly what was written, or another release wrote it.
    """
    try:
        return _read_model(Path(path), mapped, known)
    except ModelError as error:  # names, kinds and versions in it may be as long as a file
        if len(str(error)) <= MAX_ERROR:
            raise
        raise ModelError(_short(error, MAX_ERROR)) from None


def _read_model(path: Path, mapped: bool, known: LabelSet | None) -> ModelParts:
    if not path.is_dir():
        place = "MODEL" if path.exists() else path  # never suggest to write over somebody's file
        raise ModelError(f"{path} is not a model folder; train one with: longtail train DATA RECIPE --out {place}")
    manifest = _read_manifest(path)
    try:
        entries = {"scorer": manifest["scorer"]}
        entries |= {f"reranker-{number}": entry for number, entry in enumerate(_rerankers(manifest))}
        _check_packages(path, manifest.get("packages", {}))
        classes = _classes(manifest["recipe"])
        if "doubts" in manifest:
            from longtail.doubts import Doubts  # compiles, so only where it is needed

            entries["doubts"] = manifest["doubts"]
            classes[Doubts.kind] = Doubts
        parts = [name for key, entry in entries.items() for name in _check_part(path, key, entry, classes)]
        _check_asked(entries)
        built: dict[str, tuple[Any, int]] = {}
        wanted = [LABELS, *(f"{name}.safetensors" for name in parts)]
        files = _read_files(path, manifest["files"], wanted, mapped)
        labels, raw, written = known, files.pop(LABELS), (manifest["labels"], manifest["files"][LABELS])
        if labels is None or written != (described(labels), facts_of_labels(labels)):
            labels = _labels_from_bytes(path / LABELS, raw, manifest["labels"])
        fitted = {key: _unpack(path, key, entry, files, classes, len(labels), built) for key, entry in entries.items()}
        doubts, scorer = fitted.pop("doubts", None), fitted.pop("scorer")
        text_field, id_field = manifest["text_field"], manifest.get("id_field", "id")
        table = TableFacts.of_json(manifest["table"], path / MANIFEST) if "table" in manifest else None
        cutoff = Cutoff.of_json(manifest["cutoff"]) if "cutoff" in manifest else None
        return ModelParts(
            manifest["recipe"], labels, scorer, tuple(fitted.values()), text_field, id_field, doubts, table, cutoff,
            manifest.get("language_field"),
        )  # fmt: skip
    except ModelError:
        raise
    except Misfit as error:
        raise ModelError(f"{path / MANIFEST}: {error}; {AGAIN}") from None
    except (ValueError, TypeError, LongtailError, RecursionError) as error:
        raise ModelError(
            f"{path} holds a part this release cannot read ({_short(error)}); train the model again"
        ) from None


def _short(error: Exception, most: int = 500) -> str:
    """What was raised, on one line and not as long as what a folder may hold: a recipe, or a setting."""
    return " ".join(str(error)[:most].split()) or type(error).__name__


def _read_manifest(path: Path) -> dict[str, Any]:
    place = path / MANIFEST
    raw = read_regular(place, MAX_MANIFEST, f"is {path} a model folder?").tobytes()
    try:
        manifest = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise ModelError(f"{place}: not valid JSON ({error}); the model is not whole, copy it again") from None
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise ModelError(f"{place}: not the manifest of a longtail model")
    if manifest.get("version") != VERSION:
        raise ModelError(
            f"{place}: the model has format version {manifest.get('version')!r}, this release reads {VERSION}; "
            "use the release that wrote it, or train the model again"
        )
    try:
        same = manifest_to_bytes(manifest) == raw
    except ValueError:  # such as lone surrogates: `write_model` never writes them
        same = False
    if not same:
        raise ModelError(f"{place}: the manifest was changed after it was written; the model cannot be trusted")
    try:
        check_settings(MANIFEST_FIELDS, manifest, {})
    except Misfit as error:
        raise ModelError(f"{place}: {error}; {AGAIN}") from None
    return manifest


def _rerankers(manifest: dict[str, Any]) -> list[dict[str, Any]]:
    found = manifest.get("rerankers")
    if not isinstance(found, list) or len(found) > MAX_RERANKERS:
        raise Misfit("rerankers", f"is a list of at most {MAX_RERANKERS}, not {shown(found)}", "setting")
    for number, entry in enumerate(found):
        Fields(PART).check(f"rerankers[{number}]", entry, {})
    return found


def _read_files(path: Path, facts: dict[str, Any], wanted: list[str], mapped: bool) -> dict[str, Bytes]:
    """The bytes of the files that the parts need; there must be no others. Sizes are compared before any is read."""
    for name in {**dict.fromkeys(wanted), **facts}:
        if name not in facts or name not in wanted:
            raise Misfit(name, "is missing" if name in wanted else "belongs to no part", "the file")
        FILE_FACTS.check(f"files.{name}", facts[name], {})
        size = size_of(path / name)
        if size != facts[name]["bytes"]:
            raise ModelError(f"{path / name}: {size} bytes are {_not_written(facts[name])}")
    needed, free = sum(facts[name]["bytes"] for name in wanted), available_bytes()
    if needed > free:
        raise ModelError(f"{path} has {needed / 1e9:,.1f} GB and this machine has {free / 1e9:,.1f} GB of memory left")
    return {name: _read(path / name, facts[name], mapped) for name in wanted}


def _read(path: Path, facts: dict[str, Any], mapped: bool) -> Bytes:
    raw = read_regular(path, facts["bytes"], mapped=mapped)
    if len(raw) != facts["bytes"] or checksum(raw) != facts["sha256"]:
        raise ModelError(f"{path}: the content is {_not_written(facts)}")
    return raw


def _not_written(facts: dict[str, Any]) -> str:
    written = f"not the {facts['bytes']} bytes that were written"
    return f"{written}; the file is damaged or was changed, copy the model again"


def _labels_from_bytes(path: Path, raw: Bytes, facts: dict[str, Any]) -> LabelSet:
    ids, texts, counts = [], [], []
    ends = np.concatenate([[-1], np.flatnonzero(raw == ord("\n")), [len(raw)]])
    if len(raw) > MAX_LABELS or np.diff(ends).max() > MAX_LABEL:
        raise ModelError(f"{path}: has more than {MAX_LABELS:,} bytes, or a line of more than {MAX_LABEL:,}")
    for number, (begin, end) in enumerate(pairwise(ends)):
        if end - begin < 2:
            continue
        try:
            row = json.loads(raw[begin + 1 : end].tobytes().decode("utf-8", "surrogatepass"))
            Fields(LABEL).check("label", row, {})
        except (ValueError, RecursionError) as error:
            raise ModelError(f"{path}:{number + 1}: is not a label ({error}); {AGAIN}") from None
        ids.append(row["id"])
        texts.append(row["text"])
        counts.append(row["count"])
    if len(ids) != facts["number"]:
        raise ModelError(f"{path}: has {len(ids)} labels, and the manifest says {facts['number']}; {AGAIN}")
    propensity = Propensity(**facts["propensity"])
    counted = np.array(counts, dtype=np.int64)
    return LabelSet(
        ids=tuple(ids), texts=tuple(texts), counts=counted, train_rows=facts["train_rows"], propensity=propensity
    )


def _unpack(
    path: Path,
    name: str,
    entry: dict[str, Any],
    files: dict[str, Bytes],
    classes: dict[str, Any],
    labels: int,
    built: dict[str, tuple[Any, int]],
) -> Any:
    """The part that `_pack` packed: checked against what its class declares, then restored."""
    if "same_as" in entry:
        part, its_labels = built.get(entry["same_as"], (None, 0))  # packed before, and so unpacked before
        if part is None or part.kind != entry["kind"] or its_labels != labels or entry["settings"] or entry["parts"]:
            raise Misfit(name, f"is the same as {shown(entry['same_as'])}, which is no such part before it", "part")
        return part
    classes = _classes_inside(entry, classes)
    place, kind = path / f"{name}.safetensors", classes[entry["kind"]]
    tensors = arrays_from(place, files.pop(place.name))
    try:
        inside = conforms(getattr(kind, "declared", None), entry["settings"], tensors, entry["parts"], labels)
    except Misfit as error:
        where = place if error.of_array else path / MANIFEST
        raise ModelError(f"{where}: {error} (part {name}, {entry['kind']}); {AGAIN}") from None
    inner = {
        key: _unpack(path, f"{name}.{key}", value, files, classes, inside[key], built)
        for key, value in entry["parts"].items()
    }
    try:
        built[name] = kind.restore(State(entry["settings"], tensors, inner)), labels
    except Exception as error:  # a part of another package may raise anything
        raise ModelError(f"{place}: cannot be read as {entry['kind']} ({_short(error)}); {AGAIN}") from None
    return built[name][0]


def _check_packages(path: Path, packages: dict[str, str]) -> None:
    """Raise a ModelError where a part comes from a package that is not installed."""
    missing = {name: package for name, package in packages.items() if name not in {*LEARNERS, *TAIL_METHODS}}
    if missing:
        parts = ", ".join(f"'{name}' of {package}" for name, package in missing.items())
        raise ModelError(
            f"{path} needs parts of other packages: {parts}; pip install {' '.join(sorted(set(missing.values())))}"
        )


def _check_part(path: Path, name: str, entry: dict[str, Any], classes: dict[str, Any], depth: int = 0) -> list[str]:
    """The names of a part and of those inside it. Raises a ModelError for a kind that this release does not read."""
    classes, kind = _classes_inside(entry, classes), entry["kind"]
    if kind not in classes:
        same = [known for known in classes if known.rpartition(".v")[0] == str(kind).rpartition(".v")[0]]
        raise ModelError(
            f"{path} holds a part of kind {shown(kind)}, which this release cannot read: for this recipe it reads "
            f"{', '.join(same or sorted(classes))}; train the model again with this release"
        )
    names = [] if "same_as" in entry else [name]
    for key, inner in entry["parts"].items():
        if depth == MAX_INSIDE or not re.fullmatch(r"[\w-]+", key):
            raise Misfit(key, f"is no name of a part, or is inside more than {MAX_INSIDE} others", "part")
        Fields(PART).check(f"{name}.{key}", inner, {})
        names += _check_part(path, f"{name}.{key}", inner, classes, depth + 1)
    return names


def _check_asked(entries: dict[str, Any]) -> None:
    """A part that is shared is asked once for each that shares it: parts inside shared parts would never end."""
    asked: dict[str, int] = {}

    def count(name: str, entry: dict[str, Any]) -> int:
        inside = sum(count(f"{name}.{key}", inner) for key, inner in entry["parts"].items())
        asked[name] = asked.get(entry["same_as"], 1) if "same_as" in entry else 1 + inside
        return asked[name]

    if (total := sum(count(name, entry) for name, entry in entries.items())) > MAX_ASKED:
        raise Misfit("same_as", f"shares parts so often that {total:,} would be asked, above {MAX_ASKED}", "setting")


def _classes_inside(entry: dict[str, Any], classes: dict[str, Any]) -> dict[str, Any]:
    """The classes by kind of a part and the parts inside it: some parts name the recipe of what is inside them."""
    named = entry["settings"].get("recipe")
    return classes | _classes(named) if isinstance(named, str) else classes


def _classes(recipe: str) -> dict[str, Any]:
    """The classes of the fitted parts of this recipe, by kind. Names lead to them: a manifest holds no code."""
    learner, *tail = parse(recipe)
    parts = [learner_class(learner.name), *(tail_class(part.name) for part in tail)]
    fitted = [getattr(part, role) for part in parts for role in ("scorer", "reranker", "member") if hasattr(part, role)]
    return {found.kind: found for found in fitted}
