"""Words counted in jobs: one for each shard of the rows, which writes what it counted as one file.

The driver copies the texts into shards, without reading them, joins the vocabularies of the shards in the order of the
rows, and weighs the words. Columns are in order of first appearance, so the features are those of one machine, to the
bit; the driver counts no word again. Where the vocabulary is known beforehand (hashed words, parts of compounds,
pieces, titles apart), a job counts the words that it knows.

    FOLDER/texts-CHECKSUM.safetensors           the texts of a shard, and their languages where a column told them
    FOLDER/words-CHECKSUM/jobs.json             see `longtail.jobs`
    FOLDER/words-CHECKSUM/vocabulary.safetensors
    FOLDER/words-CHECKSUM/17.safetensors
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from longtail.arrays import AnyArray, Longs, pack_strings, unpack_strings
from longtail.atomic import new_path
from longtail.data.mapped_texts import MappedTexts, packed
from longtail.data.subsample import evenly_spaced
from longtail.errors import JobError
from longtail.jobs import JobFolder, JobRunner, current_job_runner
from longtail.linear.features.spoken_texts import SpokenTexts, spoken
from longtail.linear.features.text_terms import CountEntries, Counts
from longtail.linear.features.word_counts import (
    TextBlock,
    Vocabulary,
    WordCounts,
    blocks_here,
)
from longtail.linear.features.word_table import LOW, PairTable, WordTable, pair_keys
from longtail.read_back import reading_back

LEAST_BYTES = 1 << 23  # of texts that are worth a round of jobs: three seconds of counting
SHARD_BYTES = 1 << 20  # of the texts of a shard, at least: starting a job is not most of its work
MOST_JOBS = 128
SAMPLED = 1000  # texts whose length says how long all are
ADVICE = "remove it and run the command again"
TEXTS = {"packed": "uint8", "offsets": "int64"}
TABLE = {"words": "uint8", "word_offsets": "int64", "hashes": "uint64", "pairs": "int64"}
BLOCK = {**TABLE, "terms": "int32", "counts": "float32", "bounds": "int64"}
COLUMNS = {"columns": "int32", "counts": "float32", "lengths": "int64"}


def counter_of(texts: Sequence[str]) -> CountInJobs | None:
    """Choose where the words of training texts are counted.

    Args:
        texts: the texts.

    Returns:
        In jobs inside `longtail.jobs.using_jobs`, where the texts are long enough together; None: here.
    """
    runner = current_job_runner()
    return None if runner is None or _bytes_of(texts) < LEAST_BYTES else CountInJobs(runner)


class CountInJobs:
    """Counts shards of texts in jobs."""

    def __init__(self, runner: JobRunner) -> None:
        self.runner = runner

    def blocks(self, texts: Iterable[str], settings: WordCounts) -> Iterable[TextBlock]:
        """See `Counter.blocks`."""
        return (_block_of(*one) for one in self._counted(texts, settings, None))

    def columns(self, texts: Iterable[str], vocabulary: Vocabulary) -> Iterable[Counts]:
        """See `Counter.columns`."""
        found = self._counted(texts, vocabulary.settings, vocabulary)
        return (_columns_of(*one, vocabulary.columns) for one in found)

    def _counted(
        self, texts: Iterable[str], settings: WordCounts, vocabulary: Vocabulary | None
    ) -> Iterator[tuple[Path, int]]:
        """The files of the shards, and how many texts each has."""
        given = texts if isinstance(texts, Sequence) else list(texts)
        number = max(min(_bytes_of(given) // SHARD_BYTES, MOST_JOBS, len(given)), 1)
        bounds = [len(given) * place // number for place in range(number + 1)]
        spoken_by_row = isinstance(given, SpokenTexts)
        names = [_write_texts(self.runner.folder, given[low:high]) for low, high in pairwise(bounds)]
        known = None if vocabulary is None else _arrays_of(vocabulary)
        digest = hashlib.blake2b(json.dumps([names, asdict(settings)], sort_keys=True).encode(), digest_size=8)
        for name, array in (known or {}).items():
            digest.update(f"{name} {array.shape}".encode() + array.tobytes())
        folder = self.runner.folder / f"words-{digest.hexdigest()}"
        if known is not None and not (folder / "vocabulary.safetensors").exists():
            _save(folder / "vocabulary.safetensors", known)
        outputs = [folder / f"{place}.safetensors" for place in range(number)]
        what = {"words": asdict(settings), "known": known is not None, "folder": str(folder), "spoken": spoken_by_row}
        self.runner.run(JobFolder.write(folder, "words", what, names, outputs), "counting words of shards")
        return zip(outputs, np.diff(bounds).tolist(), strict=True)


def count_shard(settings: Mapping[str, Any], source: str, output: Path) -> int:
    """The job: count the words of a shard.

    Args:
        settings: how texts become columns, and whether the vocabulary is known.
        source: the name of the file of texts.
        output: the file of counts.

    Returns:
        The number of texts.

    Raises:
        JobError: what the job reads is damaged or not there.
    """
    folder, how = Path(settings["folder"]), WordCounts(**settings["words"])
    path = folder.parent / source
    kinds = ("", "language_") if settings["spoken"] else ("",)
    types = {f"{kind}{name}": value for kind in kinds for name, value in TEXTS.items()}
    found = _load(path, types, "remove its folder and run the command again")
    if not all(_ascends(found[f"{kind}offsets"], len(found[f"{kind}packed"])) for kind in kinds):
        raise JobError(f"{path}: is damaged; remove its folder and run the command again")
    strings = [MappedTexts(found[f"{kind}packed"], found[f"{kind}offsets"]) for kind in kinds]
    if len(strings[0]) != len(strings[-1]):
        raise JobError(f"{path}: is damaged; remove its folder and run the command again")
    texts = spoken(strings[0], strings[1] if settings["spoken"] else None)
    if settings["known"]:
        vocabulary = _vocabulary(str(folder / "vocabulary.safetensors"), how)
        parts = list(vocabulary.columns_here(texts))
        arrays = dict(zip(COLUMNS, map(np.concatenate, zip(*parts, strict=True)), strict=True))
    else:
        arrays = _joined(blocks_here(texts, how))
    _save(output, arrays)
    return len(texts)


def _joined(blocks: Iterable[TextBlock]) -> dict[str, AnyArray]:
    """Blocks as one: words and pairs in order of first appearance, and their counts in the texts of all."""
    words, pairs = WordTable(), PairTable()
    parts = []
    for block in blocks:
        numbers = words.add(*block.words.all())
        parts.append((block.entries, numbers, pairs.add(pair_keys(block.pairs, numbers))))
    words.trimmed()
    terms = [np.concatenate([own, words.size + others])[entries.terms] for entries, own, others in parts]
    lengths = [np.diff(entries.bounds) for entries, _, _ in parts]
    arrays = (
        words.packed,
        words.offsets,
        words.hashes,
        pairs.all(),
        np.concatenate(terms).astype(np.int32),
        np.concatenate([entries.counts for entries, _, _ in parts]),
        np.concatenate([[0], np.cumsum(np.concatenate(lengths))]),
    )
    return dict(zip(BLOCK, arrays, strict=True))


def _block_of(path: Path, texts: int) -> TextBlock:
    """The words that a job counted. Kernels check nothing, so all is checked here."""
    found = _load(path, BLOCK, ADVICE)
    words, offsets, pairs, terms = found["words"], found["word_offsets"], found["pairs"], found["terms"]
    size, bounds = len(offsets) - 1, found["bounds"]
    right = (
        _ascends(offsets, len(words))
        and _ascends(bounds, len(terms))
        and (len(found["hashes"]), len(bounds), len(found["counts"])) == (size, texts + 1, len(terms))
        and _below(terms, size + len(pairs))
        and _below(pairs >> 32, size)
        and _below(pairs & LOW, size)
    )
    if not right:
        raise JobError(f"{path}: its counts are not those of {texts:,} texts; {ADVICE}")
    table = WordTable()
    table.size, table.packed, table.offsets, table.hashes = size, words, offsets, found["hashes"]
    return TextBlock(table, pairs, CountEntries(terms, found["counts"], bounds))


def _columns_of(path: Path, texts: int, columns: int) -> Counts:
    found = _load(path, COLUMNS, ADVICE)
    own, counts, lengths = (found[name] for name in COLUMNS)
    right = len(own) == len(counts) == lengths.sum() and len(lengths) == texts and lengths.min(initial=0) >= 0
    if not (right and _below(own, columns)):
        raise JobError(f"{path}: its counts are not those of {texts:,} texts; {ADVICE}")
    return own, counts, lengths


def _bytes_of(texts: Sequence[str]) -> int:
    """How long texts are together, by the length of some of them."""
    sample = evenly_spaced(len(texts), SAMPLED).tolist() if len(texts) else []
    return len(texts) * sum(len(texts[row].encode("utf-8", "surrogatepass")) for row in sample) // max(len(sample), 1)


def _write_texts(folder: Path, texts: Sequence[str]) -> str:
    """Write the texts of a shard, unless they are there, and name the file by its content."""
    parts = {"": texts.texts, "language_": texts.languages} if isinstance(texts, SpokenTexts) else {"": texts}
    arrays: dict[str, AnyArray] = {}
    digest = hashlib.blake2b(digest_size=8)
    for kind, strings in parts.items():
        raw, offsets = packed(strings)
        digest.update(raw.tobytes())
        digest.update(offsets.tobytes())
        arrays |= {f"{kind}packed": raw, f"{kind}offsets": offsets}
    name = f"texts-{digest.hexdigest()}.safetensors"
    if not (folder / name).exists():
        _save(folder / name, arrays)
    return name


def _arrays_of(vocabulary: Vocabulary) -> dict[str, AnyArray]:
    raw, offsets = pack_strings(vocabulary.words)
    return {"words": raw, "word_offsets": offsets, "pairs": vocabulary.pairs}


@lru_cache(maxsize=1)
def _vocabulary(path: str, settings: WordCounts) -> Vocabulary:
    """Read once a process."""
    with reading_back(Path(path), "remove its folder and run the command again", JobError):
        found = _load(Path(path), {"words": "uint8", "word_offsets": "int64", "pairs": "int64"}, ADVICE)
        return Vocabulary(tuple(unpack_strings(found["words"], found["word_offsets"])), settings, found["pairs"])


def _ascends(offsets: Longs, end: int) -> bool:
    return len(offsets) > 0 and offsets[0] == 0 and offsets[-1] == end and bool((np.diff(offsets) >= 0).all())


def _below(numbers: AnyArray, end: int) -> bool:
    return len(numbers) == 0 or bool(numbers.min() >= 0 and numbers.max() < end)


def _save(path: Path, arrays: Mapping[str, AnyArray]) -> None:
    from safetensors.numpy import save_file

    with new_path(path) as temporary:
        save_file({name: np.ascontiguousarray(array) for name, array in arrays.items()}, temporary)


def _load(path: Path, types: Mapping[str, str], advice: str) -> dict[str, AnyArray]:
    from safetensors.numpy import load_file

    with reading_back(path, advice, JobError):
        found = load_file(path)
        if {name: array.dtype.name for name, array in found.items()} != types:
            raise ValueError("it holds other arrays")
        if any(array.ndim != 1 for array in found.values()):
            raise ValueError("its arrays have another shape")
        return found
