"""The folder that a builder writes: our layout, in parts that several processes make, joined at the end.

A gzip file may have several members, one after the other: each part is one, and joining is copying.
"""

from __future__ import annotations

import gzip
import json
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from longtail.atomic import new_folder
from longtail.data.builders.requirements import Licence
from longtail.data.builders.work import flush
from longtail.data.corpus_facts import keep_private
from longtail.data.labels import Propensity
from longtail.data.write import check_place
from longtail.errors import DataError, WriteError
from longtail.progress import stage

LEVEL = 4  # of gzip: half the time of 6, a twentieth more bytes


@dataclass(frozen=True)
class BuildFacts:
    """What `corpus.json` says about a set that was built."""

    name: str
    propensity: Propensity
    licence: Licence
    source: str  # names of the files it was built from
    command: str  # that builds it again


@dataclass(frozen=True)
class Built:
    """A data set that was built, with its counts and those of the published set it follows."""

    out: Path
    counts: dict[str, float]  # train, test, labels, labels a row, rows a label, ...
    published: str | None  # name of the published set
    notes: tuple[str, ...]


def packed(lines: Iterable[str]) -> bytes:
    """Lines as one gzip member; the same lines give the same bytes.

    Args:
        lines: without line ends.

    Returns:
        The member; nothing where there is no line.
    """
    text = "".join([line + "\n" for line in lines])
    return gzip.compress(text.encode("utf-8", "replace"), LEVEL, mtime=0) if text else b""


def as_line(value: dict[str, Any]) -> str:
    """An object as a line of JSON.

    Args:
        value: plain data.

    Returns:
        The line, with letters as they are.
    """
    return json.dumps(value, ensure_ascii=False)


def row_line(name: str, text: str, labels: Sequence[str], weights: Sequence[float] | None = None) -> str:
    """A document as a line of `train.jsonl`.

    Args:
        name: its id.
        text: its text.
        labels: ids.
        weights: of the labels in (0, 1]; None: all are 1.

    Returns:
        The line.
    """
    soft = weights is not None and min(weights, default=1.0) < 1
    given: Any = dict(zip(labels, map(float, weights or ()), strict=True)) if soft else list(labels)
    return as_line({"id": name, "text": text, "labels": given})


def check_out(out: Path, overwrite: bool) -> None:
    """Checks that a data set may be written, before the work.

    Args:
        out: the folder.
        overwrite: a data set that longtail wrote there may be replaced.

    Raises:
        DataError: it may not.
    """
    if not out.name:
        raise DataError("give a name for the folder to build, such as --out aol")
    check_place(out, overwrite=overwrite)


def assemble(
    out: Path, parts: dict[str, Sequence[Path]], facts: BuildFacts, more: dict[str, Any] | None = None
) -> None:
    """Joins parts into the files of a data set; the folder appears once it is complete.

    Args:
        out: the folder to write; what is there is replaced.
        parts: gzip members of each file, in order; a file without any byte is not written.
        facts: for `corpus.json`.
        more: other facts for it.

    Raises:
        WriteError: the folder cannot be written.
    """
    size = sum(part.stat().st_size for members in parts.values() for part in members)
    try:
        with new_folder(out) as folder, stage("joining", total=size) as advance:
            for name, members in parts.items():
                if not any(part.stat().st_size for part in members):
                    continue
                with (folder / f"{name}.jsonl.gz").open("wb") as joined:
                    for part in members:
                        with part.open("rb") as member:
                            shutil.copyfileobj(member, joined, 1 << 20)
                        advance(part.stat().st_size)
                flush(folder / f"{name}.jsonl.gz")
            known = {
                "name": facts.name,
                "propensity": {"a": facts.propensity.a, "b": facts.propensity.b},
                "text": "text",
                "licence": facts.licence.name,
                "source": facts.source,
                "command": facts.command,
                **(more or {}),
            }
            (folder / "corpus.json").write_text(json.dumps(known, indent=2, ensure_ascii=False) + "\n", "utf-8")
            flush(folder / "corpus.json")
            if facts.licence.must_accept:
                keep_private(folder)
    except OSError as error:
        raise WriteError(out, error) from None


def sizes(train: int, test: int, labels: int, train_pairs: int, test_pairs: int) -> dict[str, float]:
    """The counts that papers print.

    Args:
        train: documents.
        test: documents.
        labels: in all.
        train_pairs: positives of train.
        test_pairs: positives of test.

    Returns:
        Counts by name.
    """
    return {
        "train": train,
        "test": test,
        "labels": labels,
        "labels an example": round(train_pairs / max(1, train), 2),
        "examples a label": round(train_pairs / max(1, labels), 2),
        "test positives": test_pairs,
    }
