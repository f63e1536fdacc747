"""Many texts as one array of token ids, without padding, 16 or 32 bits for a token; cached on disk."""

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
from longtail.errors import DataError, LongtailError
from longtail.nn.encoders.layouts import Packed
from longtail.nn.encoders.token_cache import shared_chunks
from longtail.nn.encoders.tokenizers import TextTokenizer
from longtail.progress import stage
from longtail.read_back import reading_back

CHUNK = 8_192  # texts tokenised at once
FORMAT = 1  # of the cache; a new number invalidates old caches
MAX_HEADER = 1 << 10  # bytes of the header of an array in the cache
CHECKED = 1 << 20  # token ids of the cache looked at together


@dataclass(frozen=True, eq=False)
class Tokens:
    """The tokens of many texts. A text has at least one token."""

    ids: AnyArray  # (tokens,) uint16 or uint32, may be a memory map
    offsets: Longs  # (texts + 1,) where each text begins, and the number of tokens
    pad: int = 0  # id of the padding token
    closed: bool = False  # every text ends with a special token, which truncation keeps

    def __post_init__(self) -> None:
        if len(self.offsets) == 0 or self.offsets[0] != 0 or self.offsets[-1] != len(self.ids):
            raise DataError("the offsets of tokens must begin with 0 and end with the number of tokens")
        if np.any(np.diff(self.offsets) < 1):
            raise DataError("every text needs at least one token")

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @cached_property
    def lengths(self) -> Longs:
        """Tokens of each text: (texts,)."""
        return np.diff(self.offsets)

    def span(self, first: int, last: int) -> Tokens:
        """The tokens of neighbouring texts.

        Args:
            first: text.
            last: one past the last text.

        Returns:
            A view.
        """
        offsets = self.offsets[first : last + 1]
        return Tokens(self.ids[offsets[0] : offsets[-1]], offsets - offsets[0], self.pad, self.closed)

    def batch(self, rows: Longs, max_tokens: int, multiple: int = 8) -> tuple[torch.Tensor, torch.Tensor]:
        """Make a padded batch.

        Args:
            rows: (rows,) the texts.
            max_tokens: Longer texts are truncated.
            multiple: Places are padded to a multiple of this; hardware is fast at multiples of 8.

        Returns:
            Token ids (rows, places) int64, and which places hold a token (rows, places) bool.
        """
        rows = np.asarray(rows, dtype=np.int64)
        begins = self.offsets[rows]
        lengths = self.offsets[rows + 1] - begins
        kept = np.minimum(lengths, max_tokens)
        places = -(-int(kept.max(initial=1)) // multiple) * multiple
        mask = np.arange(places) < kept[:, None]
        where = np.where(mask, begins[:, None] + np.arange(places), 0)
        ids = np.where(mask, np.asarray(self.ids[where], dtype=np.int64), self.pad)
        cut = np.flatnonzero(lengths > max_tokens)
        if self.closed and len(cut):
            ids[cut, max_tokens - 1] = self.ids[begins[cut] + lengths[cut] - 1]
        return torch.from_numpy(ids), torch.from_numpy(mask)

    def packed(self, rows: Longs, max_tokens: int) -> tuple[torch.Tensor, Packed]:
        """Join texts without padding.

        Args:
            rows: (rows,) the texts.
            max_tokens: Longer texts are truncated.

        Returns:
            Token ids (tokens,) int64, and where each text lies.
        """
        rows = np.asarray(rows, dtype=np.int64)
        begins = self.offsets[rows]
        lengths = self.offsets[rows + 1] - begins
        kept = np.minimum(lengths, max_tokens)
        ends = np.cumsum(kept)
        where = np.arange(int(kept.sum())) + np.repeat(begins - ends + kept, kept)
        ids = np.asarray(self.ids[where], dtype=np.int64)
        cut = np.flatnonzero(lengths > max_tokens)
        if self.closed and len(cut):
            ids[ends[cut] - 1] = self.ids[begins[cut] + lengths[cut] - 1]
        bound = -(-int(kept.max(initial=1)) // 8) * 8  # few different bounds, so that torch compiles for few
        return torch.from_numpy(ids), Packed.of(torch.from_numpy(kept), len(ids), bound)


def tokenise(
    texts: Sequence[str], tokenizer: TextTokenizer, max_tokens: int, cache: Path | None = None, what: str = "texts"
) -> Tokens:
    """Tokenise texts, or read their tokens from a cache.

    Args:
        texts: The texts.
        tokenizer: The tokenizer.
        max_tokens: Longer texts are truncated.
        cache: A folder; what is cached there is named by a hash of the texts, the tokenizer and max_tokens.
        what: What the texts are, for the progress line.

    Returns:
        The tokens of all texts.

    Raises:
        DataError: max_tokens leaves no place for a word, or the cache cannot be written.
    """
    tokenizer.check_limit(max_tokens)
    if cache is None:
        ids, lengths = [np.zeros(0, _dtype(tokenizer))], [np.zeros(0, np.int64)]
        for chunk, sizes in _chunks(texts, tokenizer, max_tokens, what):
            ids.append(chunk)
            lengths.append(sizes)
        return Tokens(np.concatenate(ids), _offsets(np.concatenate(lengths)), tokenizer.pad, tokenizer.closed)
    folder = cache / _key(texts, tokenizer, max_tokens)
    found = _read(folder, tokenizer)
    if found is None:
        _write(folder, texts, tokenizer, max_tokens, what)
        found = _read(folder, tokenizer)
    if found is None:
        raise DataError(
            f"tokens were written and cannot be read back; check whether the disk is full or {cache} is being cleared",
            folder,
        )
    return found


def _chunks(
    texts: Sequence[str], tokenizer: TextTokenizer, max_tokens: int, what: str
) -> Iterator[tuple[AnyArray, Longs]]:
    """Yield the token ids and lengths of one chunk of texts after another; the tokenizer uses threads."""
    shared = shared_chunks()
    with stage(f"tokenising {what}", total=len(texts)) as advance:
        for begin in range(0, len(texts), CHUNK):
            chunk = texts[begin : begin + CHUNK]
            key = tokenizer.hash, max_tokens, tuple(chunk)
            found = None if shared is None else shared.get(key)
            if found is None:
                ids = tokenizer.encode(chunk, max_tokens)
                lengths = np.fromiter(map(len, ids), np.int64, len(ids))
                found = np.fromiter(chain.from_iterable(ids), _dtype(tokenizer), int(lengths.sum())), lengths
            if shared is not None:
                shared[key] = found
            yield found
            advance(len(chunk))


def _write(folder: Path, texts: Sequence[str], tokenizer: TextTokenizer, max_tokens: int, what: str) -> None:
    lengths = [np.zeros(0, np.int64)]
    with new_folder(folder) as writing:
        with (writing / "ids.bin").open("wb") as file:
            for chunk, sizes in _chunks(texts, tokenizer, max_tokens, what):
                chunk.tofile(file)
                lengths.append(sizes)
            file.flush()
            os.fsync(file.fileno())
        np.save(writing / "offsets.npy", _offsets(np.concatenate(lengths)))
        (writing / "tokens.json").write_text(json.dumps({"format": FORMAT, "texts": len(texts)}) + "\n", "utf-8")


def _read(folder: Path, tokenizer: TextTokenizer) -> Tokens | None:
    """Read the tokens in the folder; None where it is missing, damaged or of another format."""
    parts, dtype = {name: folder / name for name in ("tokens.json", "offsets.npy", "ids.bin")}, _dtype(tokenizer)
    try:
        for path in parts.values():
            if not path.is_file():  # a pipe would never end
                return None
        with reading_back(parts["offsets.npy"], ""):
            facts = json.loads(parts["tokens.json"].read_text("utf-8"))
            size = 8 * (facts["texts"] + 1)
            if facts["format"] != FORMAT or not size <= parts["offsets.npy"].stat().st_size <= size + MAX_HEADER:
                return None  # before the header of the array is believed
            offsets = np.load(parts["offsets.npy"], allow_pickle=False)
            if offsets.dtype != np.int64 or offsets.shape != (facts["texts"] + 1,):
                return None
            if parts["ids.bin"].stat().st_size != offsets[-1] * dtype.itemsize:
                return None
            ids = np.memmap(parts["ids.bin"], dtype, "r") if offsets[-1] else np.zeros(0, dtype)
            if any(int(ids[at : at + CHECKED].max()) >= tokenizer.size for at in range(0, len(ids), CHECKED)):
                return None
            return Tokens(ids, offsets, tokenizer.pad, tokenizer.closed)
    except LongtailError:
        return None


def _dtype(tokenizer: TextTokenizer) -> np.dtype[Any]:
    return np.dtype(np.uint16 if tokenizer.size <= 2**16 else np.uint32)


def _offsets(lengths: Longs) -> Longs:
    offsets = np.zeros(len(lengths) + 1, dtype=np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return offsets


def _key(texts: Sequence[str], tokenizer: TextTokenizer, max_tokens: int) -> str:
    digest = hashlib.blake2b(f"{FORMAT} {tokenizer.hash} {max_tokens} {len(texts)}\n".encode(), digest_size=16)
    for begin in range(0, len(texts), CHUNK):
        encoded = [text.encode("utf-8", "surrogatepass") for text in texts[begin : begin + CHUNK]]
        digest.update(np.fromiter(map(len, encoded), np.int64, len(encoded)).tobytes())
        digest.update(b"".join(encoded))
    return digest.hexdigest()
