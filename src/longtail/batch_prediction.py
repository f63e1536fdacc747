"""Prediction of many files: one job a shard, one file of answers for each.

Readers of folders (Spark, Arrow, Dask) pass over names that begin with `_`, so the jobs are in `OUT/_jobs`.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import NoneType
from typing import Any

from longtail.answers import CHUNK, answer_lines, in_chunks, lines_of
from longtail.atomic import new_file, new_path
from longtail.data.columns import ENDINGS, table_kind
from longtail.errors import DataError, JobError, MissingExtra, ModelError
from longtail.frame_predictor import loaded_model
from longtail.jobs import JobFolder
from longtail.model_bytes import read_regular
from longtail.model_files import MANIFEST, MAX_MANIFEST

JOBS = "_jobs"
# What the file of jobs says, which was written by hand or damaged, perhaps.
SETTINGS = {"model": str, "checksum": str, "k": int, "threshold": (int, float, NoneType), "dial": (int, float)}
SOURCE = {"path": str, "bytes": int, "modified_ns": int}
SHARDS = (*ENDINGS, ".jsonl", ".json", ".ndjson", ".txt")


def prediction_jobs(model: Path, source: Path, out: Path, *, k: int, threshold: float | None, dial: float) -> JobFolder:
    """Write the jobs that predict every file of a folder, or take up those that are there.

    Args:
        model: the model folder.
        source: folder of shards: Parquet, CSV, TSV, JSON lines or texts, packed (.gz, .xz) or not. Names that begin
            with `_` or `.` are passed over. A single file is one shard.
        out: folder for the answers: `NAME.parquet` for Parquet, else `NAME.jsonl`.
        k: most labels of a document.
        threshold: labels that score less are left out.
        dial: see `Model.predict`.

    Returns:
        The jobs.

    Raises:
        DataError: there are no shards, or two would be answered in the same file.
        JobError: `out` has answers of another model, of other settings, or of a shard that has changed since.
    """
    shards = [source] if source.is_file() else sorted(_shards(source))
    if not shards:
        raise DataError(f"has no files that end in {', '.join(SHARDS)} (or such packed by .gz or .xz)", source)
    outputs = [out / _answered(shard) for shard in shards]
    for first, second in zip(sorted(outputs), sorted(outputs)[1:], strict=False):
        if first == second:
            raise DataError(f"two shards would both be answered in {first.name}; give them different names", source)
    facts = [shard.stat() for shard in shards]
    sources = [
        {"path": str(shard.resolve()), "bytes": fact.st_size, "modified_ns": fact.st_mtime_ns}
        for shard, fact in zip(shards, facts, strict=True)
    ]
    settings = {
        "model": str(model.resolve()),
        "checksum": _checksum(model),
        "k": k,
        "threshold": threshold,
        "dial": dial,
    }
    if not (out / JOBS).exists() and (stray := next((one for one in outputs if one.exists()), None)) is not None:
        raise JobError(f"{stray}: is there, and nothing says which model wrote it; give another folder to --out")
    return JobFolder.write(out / JOBS, "predict", settings, sources, outputs)


def predict_shard(settings: Mapping[str, Any], source: Mapping[str, Any], output: Path) -> int:
    """The job: predict one shard.

    Args:
        settings: see `prediction_jobs`.
        source: the shard.
        output: the file of answers.

    Returns:
        The number of documents.

    Raises:
        DataError: the shard is broken; the line is named.
        JobError: the shard or the model has changed since the jobs were written.
    """
    expected: list[tuple[Any, dict[str, Any]]] = [(settings, SETTINGS), (source, SOURCE)]
    for given, wanted in expected:
        for name, types in wanted.items():
            if not isinstance(given, Mapping) or not isinstance(given.get(name), types):
                raise JobError(f"the job has no {name}, or one of another type; write the jobs again")
    folder, shard = Path(settings["model"]), Path(source["path"])
    if _checksum(folder) != settings["checksum"]:
        raise JobError(f"{folder}: the model has changed since the jobs were written; give another folder to --out")
    try:
        facts = shard.stat()
    except OSError as error:
        raise DataError(f"cannot be read ({error.strerror or error})", shard) from None
    if (facts.st_size, facts.st_mtime_ns) != (source["bytes"], source["modified_ns"]):
        raise JobError(f"{shard}: has changed since the jobs were written; run the prediction again")
    model = loaded_model(str(folder), settings["checksum"])
    rows = 0

    def answers() -> Iterator[list[dict[str, Any]]]:
        nonlocal rows
        for chunk in in_chunks(lines_of(shard, model), CHUNK):
            rows += len(chunk)
            k, threshold, dial = settings["k"], settings["threshold"], settings["dial"]
            yield list(answer_lines(model, chunk, k, threshold, dial, str(shard)))

    (_write_parquet if output.suffix == ".parquet" else _write_lines)(answers(), output)
    return rows


def _write_lines(answers: Iterator[list[dict[str, Any]]], output: Path) -> None:
    with new_file(output) as file:
        for chunk in answers:
            file.writelines(json.dumps(one, ensure_ascii=False, allow_nan=False) + "\n" for one in chunk)


def _write_parquet(answers: Iterator[list[dict[str, Any]]], output: Path) -> None:
    """Columns "id" and "labels": a list of ids, texts and scores, best first."""
    try:
        import pyarrow
        from pyarrow.parquet import ParquetWriter
    except ImportError:
        raise MissingExtra("pyarrow", "data", "writing Parquet files") from None
    label = pyarrow.struct({"id": pyarrow.string(), "text": pyarrow.string(), "score": pyarrow.float32()})
    schema = pyarrow.schema({"id": pyarrow.string(), "labels": pyarrow.list_(label)})
    with new_path(output) as temporary, ParquetWriter(temporary, schema) as writer:
        for chunk in answers:
            writer.write_table(pyarrow.Table.from_pylist(chunk, schema))


def _shards(folder: Path) -> Iterator[Path]:
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                bare = entry.name.lower().removesuffix(".gz").removesuffix(".xz")
                if bare.endswith(SHARDS) and entry.name[0] not in "._" and entry.is_file():
                    yield Path(entry.path)
    except OSError as error:
        raise DataError(f"cannot be read ({error.strerror or error}); give a folder of shards", folder) from None


def _answered(shard: Path) -> str:
    """The name of the answers: part-1.jsonl.gz is answered in part-1.jsonl."""
    name = shard.name
    for ending in (".gz", ".xz"):
        name = name.removesuffix(ending)
    stem = name.rpartition(".")[0]
    return f"{stem}.parquet" if table_kind(shard) == ".parquet" else f"{stem}.jsonl"


def _checksum(model: Path) -> str:
    """Of the manifest, which holds a checksum of every file of the model."""
    try:
        return hashlib.sha256(read_regular(model / MANIFEST, MAX_MANIFEST).data).hexdigest()
    except ModelError as error:
        raise JobError(f"{model}: is not a model folder ({error})") from None
