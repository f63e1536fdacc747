"""A comparison as plain data that describes itself: what was compared on what, how, and how it came out."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from longtail.atomic import new_file
from longtail.data.corpus import Corpus
from longtail.data.fingerprint import fingerprint
from longtail.data.opening import file_size
from longtail.errors import DataError
from longtail.inspection import concerns
from longtail.report.result import Result

FORMAT = "longtail.comparison.v1"
FILE = "comparison.json"  # in a checkpoint directory


@dataclass(frozen=True)
class Comparison:
    """What `longtail compare --json` prints. `read_comparison` reads it back."""

    data: dict[str, Any]  # name, hash, sizes, propensity constants
    split: str  # that was measured on: test or valid
    seeds: tuple[int, ...]
    results: tuple[dict[str, Any], ...]  # see `Result.as_json`
    settings: dict[str, Any] = field(default_factory=dict)  # k of the measures, recipes as given
    versions: dict[str, str] = field(default_factory=dict)
    command: str = ""
    notes: tuple[str, ...] = ()  # from reading the data
    warnings: tuple[str, ...] = ()  # about the data

    @property
    def recipes(self) -> tuple[str, ...]:
        """The recipes, in their order."""
        return tuple(str(result["recipe"]) for result in self.results)

    def as_json(self) -> dict[str, Any]:
        """Plain data for a JSON file.

        Returns:
            All fields, and the format's name.
        """
        return {
            "format": FORMAT,
            "data": self.data,
            "split": self.split,
            "seeds": list(self.seeds),
            "settings": self.settings,
            "versions": self.versions,
            "command": self.command,
            "notes": list(self.notes),
            "warnings": list(self.warnings),
            "results": list(self.results),
        }

    def save(self, path: str | Path) -> None:
        """Write a JSON file, all of it or nothing.

        Args:
            path: the file.
        """
        with new_file(Path(path)) as file:
            json.dump(self.as_json(), file, ensure_ascii=False, indent=2, allow_nan=False)

    def to_pandas(self) -> Any:
        """Make a frame with one row a recipe and seed.

        Returns:
            A `pandas.DataFrame` with the columns data, split, recipe, seed, the measures and the costs.

        Raises:
            DataError: pandas is not installed.
        """
        try:
            import pandas  # type: ignore[import-untyped]
        except ImportError:
            raise DataError("to_pandas needs pandas: pip install pandas; without it, `results` has the same") from None
        return pandas.DataFrame(
            [
                {"data": self.data["name"], "split": self.split, "recipe": result["recipe"], **one}
                for result in self.results
                for one in result["runs"]
            ]
        )


def summarise(
    results: Sequence[Result],
    corpus: Corpus,
    *,
    split: str = "test",
    seeds: Sequence[int] = (0,),
    settings: dict[str, Any] | None = None,
    versions: dict[str, str] | None = None,
    command: str = "",
) -> Comparison:
    """Describe a comparison.

    Args:
        results: one a recipe, from `compare`.
        corpus: the data that they were measured on.
        split: the name of the split that stands as test.
        seeds: of the comparison.
        settings: whatever else decided the figures.
        versions: of longtail and libraries.
        command: the command line.

    Returns:
        The comparison as plain data.
    """
    labels = corpus.labels
    return Comparison(
        data={
            "name": corpus.name,
            "hash": {name: fingerprint(one) for name, one in _splits(corpus).items()},
            **{f"{name}_rows": len(one) for name, one in _splits(corpus).items()},
            "labels": len(labels),
            "text_field": corpus.text_field,
            "propensity": {"a": labels.propensity.a, "b": labels.propensity.b},
        },
        split=split,
        seeds=tuple(seeds),
        results=tuple(result.as_json() for result in results),
        settings=dict(settings or {}),
        versions=dict(versions or {}),
        command=command,
        notes=corpus.notes,
        warnings=tuple(concern.message.replace("test examples", f"{split} examples") for concern in concerns(corpus)),
    )


def read_comparison(path: str | Path) -> Comparison:
    """Read what `longtail compare --json` printed, or the `comparison.json` of a checkpoint directory.

    Args:
        path: the file, or the checkpoint directory.

    Returns:
        The comparison.

    Raises:
        DataError: it cannot be read, or is something else.
    """
    file = Path(path) / FILE if Path(path).is_dir() else Path(path)
    try:
        if file.exists():
            file_size(file)  # a pipe would never end
        read = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise DataError(f"the comparison cannot be read ({error.strerror or error}); check the path", file) from None
    except (ValueError, RecursionError) as error:
        raise DataError(f"the comparison is not JSON ({error}); give what compare --json printed", file) from None
    if not isinstance(read, dict) or read.get("format") != FORMAT:
        raise DataError(f"is no comparison of the format {FORMAT}; give what compare --json printed", file)
    try:
        return Comparison(
            data=dict(read["data"]),
            split=str(read["split"]),
            seeds=tuple(read["seeds"]),
            results=tuple(read["results"]),
            settings=dict(read["settings"]),
            versions=dict(read["versions"]),
            command=str(read["command"]),
            notes=tuple(read["notes"]),
            warnings=tuple(read["warnings"]),
        )
    except (KeyError, TypeError) as error:
        raise DataError(f"lacks {error}; give what compare --json printed", file) from None


def _splits(corpus: Corpus) -> dict[str, Any]:
    return {"train": corpus.train, "valid": corpus.valid, "test": corpus.test}
