"""Texts as runs of token numbers: no padding, 16 or 32 bits a token, read from disk where they are cached."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import torch

from longtail.arrays import AnyArray, Longs
from longtail.atomic import new_folder
from longtail.errors import DataError
from longtail.nn.layouts import Packed
from longtail.nn.read_once import read_before
from longtail.nn.tokenizers import TextTokenizer
from longtail.progress import stage

CHUNK = 8_192  # texts tokenised at once
FORMAT = 1  # of the cache; another number makes old ones stale


@dataclass(frozen=True, eq=False)
class Tokens:
    """The tokens of many texts. A text has at least one."""

    ids: AnyArray  # (tokens,) uint16 or uint32, may be a memory map
    offsets: Longs  # (texts + 1,)
    pad: int = 0
    closed: bool = False  # every text ends in a special token that a cut keeps

    def __post_init__(self) -> None:
        if len(self.offsets) == 0 or self.offsets[0] != 0 or self.offsets[-1] != len(self.ids):
            raise DataError("the offsets of tokens begin with 0 and end with the number of tokens")
        if np.any(np.diff(self.offsets) < 1):
            raise DataError("every text needs at least one token")

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @cached_property
    def lengths(self) -> Longs:
        """Tokens of each text: (texts,)."""
        return np.diff(self.offsets)

    def batch(self, rows: Longs, longest: int, multiple: int = 8) -> tuple[torch.Tensor, torch.Tensor]:
        """Token ids (rows, places) int64 and which places hold one, (rows, places) bool.

        Padded to the longest of these rows, cut at `longest`, and up to a multiple of 8 places, which is the width
        that processors like.
        """
        rows = np.asarray(rows, dtype=np.int64)
        begins = self.offsets[rows]
        lengths = self.offsets[rows + 1] - begins
        kept = np.minimum(lengths, longest)
        places = -(-int(kept.max(initial=1)) // multiple) * multiple
        mask = np.arange(places) < kept[:, None]
        where = np.where(mask, begins[:, None] + np.arange(places), 0)
        ids = np.where(mask, np.asarray(self.ids[where], dtype=np.int64), self.pad)
        cut = np.flatnonzero(lengths > longest)
        if self.closed and len(cut):
            ids[cut, longest - 1] = self.ids[begins[cut] + lengths[cut] - 1]
        return torch.from_numpy(ids), torch.from_numpy(mask)

    def packed(self, rows: Longs, longest: int) -> tuple[torch.Tensor, Packed]:
        """Token ids (tokens,) int64 of these rows one after another, cut at `longest`, and how they lie."""
        rows = np.asarray(rows, dtype=np.int64)
        begins = self.offsets[rows]
        lengths = self.offsets[rows + 1] - begins
        kept = np.minimum(lengths, longest)
        ends = np.cumsum(kept)
        where = np.arange(int(kept.sum())) + np.repeat(begins - ends + kept, kept)
        ids = np.asarray(self.ids[where], dtype=np.int64)
        cut = np.flatnonzero(lengths > longest)
        if self.closed and len(cut):
            ids[ends[cut] - 1] = self.ids[begins[cut] + lengths[cut] - 1]
        bound = -(-int(kept.max(initial=1)) // 8) * 8  # few bounds, so that compiled code is made for few
        return torch.from_numpy(ids), Packed.of(torch.from_numpy(kept), len(ids), bound)


def tokenise(
    texts: Sequence[str], tokenizer: TextTokenizer, longest: int, cache: Path | None = None, what: str = "texts"
) -> Tokens:
    """The tokens of each text, at most `longest`; from the cache folder where the same texts were tokenised before.

    What is cached is named by the texts, the tokenizer and the limit together, so it can never be another's.
    """
    tokenizer.check_limit(longest)
    if cache is None:
        ids, lengths = [np.zeros(0, _dtype(tokenizer))], [np.zeros(0, np.int64)]
        for chunk, sizes in _chunks(texts, tokenizer, longest, what):
            ids.append(chunk)
            lengths.append(sizes)
        return Tokens(np.concatenate(ids), _offsets(np.concatenate(lengths)), tokenizer.pad, tokenizer.closed)
    folder = cache / _key(texts, tokenizer, longest)
    found = _read(folder, tokenizer)
    if found is None:
        _write(folder, texts, tokenizer, longest, what)
        found = _read(folder, tokenizer)
    if found is None:
        raise DataError(
            f"tokens were written and cannot be read back; is the disk full or {cache} being cleared?", folder
        )
    return found


def _chunks(
    texts: Sequence[str], tokenizer: TextTokenizer, longest: int, what: str
) -> Iterator[tuple[AnyArray, Longs]]:
    """Token ids and lengths, a chunk of texts at a time; the tokenizer itself uses all cores."""
    before = read_before()
    with stage(f"tokenising {what}", total=len(texts)) as advance:
        for begin in range(0, len(texts), CHUNK):
            some = texts[begin : begin + CHUNK]
            key = tokenizer.hash, longest, tuple(some)
            found = None if before is None else before.get(key)
            if found is None:
                runs = tokenizer.encode(some, longest)
                lengths = np.fromiter(map(len, runs), np.int64, len(runs))
                found = np.fromiter(chain.from_iterable(runs), _dtype(tokenizer), int(lengths.sum())), lengths
            if before is not None:
                before[key] = found
            yield found
            advance(len(some))


def _write(folder: Path, texts: Sequence[str], tokenizer: TextTokenizer, longest: int, what: str) -> None:
    lengths = [np.zeros(0, np.int64)]
    with new_folder(folder) as writing:
        with (writing / "ids.bin").open("wb") as file:
            for chunk, sizes in _chunks(texts, tokenizer, longest, what):
                chunk.tofile(file)
                lengths.append(sizes)
            file.flush()
            os.fsync(file.fileno())
        np.save(writing / "offsets.npy", _offsets(np.concatenate(lengths)))
        (writing / "tokens.json").write_text(json.dumps({"format": FORMAT, "texts": len(texts)}) + "\n", "utf-8")


def _read(folder: Path, tokenizer: TextTokenizer) -> Tokens | None:
    """What the folder holds, or None where it is missing, damaged or of another format."""
    try:
        facts = json.loads((folder / "tokens.json").read_text("utf-8"))
        offsets = np.load(folder / "offsets.npy", allow_pickle=False)
        if facts["format"] != FORMAT or offsets.dtype != np.int64 or offsets.shape != (facts["texts"] + 1,):
            return None
        if (folder / "ids.bin").stat().st_size != offsets[-1] * _dtype(tokenizer).itemsize:
            return None
        ids = np.memmap(folder / "ids.bin", _dtype(tokenizer), "r") if offsets[-1] else np.zeros(0, _dtype(tokenizer))
        return Tokens(ids, offsets, tokenizer.pad, tokenizer.closed)
    except (OSError, ValueError, KeyError, TypeError, DataError):
        return None


def _dtype(tokenizer: TextTokenizer) -> np.dtype[Any]:
    return np.dtype(np.uint16 if tokenizer.size <= 2**16 else np.uint32)


def _offsets(lengths: Longs) -> Longs:
    offsets = np.zeros(len(lengths) + 1, dtype=np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return offsets


def _key(texts: Sequence[str], tokenizer: TextTokenizer, longest: int) -> str:
    digest = hashlib.blake2b(f"{FORMAT} {tokenizer.hash} {longest} {len(texts)}\n".encode(), digest_size=16)
    for begin in range(0, len(texts), CHUNK):
        encoded = [text.encode("utf-8", "surrogatepass") for text in texts[begin : begin + CHUNK]]
        digest.update(np.fromiter(map(len, encoded), np.int64, len(encoded)).tobytes())
        digest.update(b"".join(encoded))
    return digest.hexdigest()
