"""Tokenizers: the one of a pretrained encoder, or one of words learned from texts."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, trainers

from longtail.errors import DataError, LongtailError, ModelError
from longtail.memory import threads_that_allocate
from longtail.threads import in_threads, thread_count

# The library's own threads ignore LONGTAIL_THREADS and do not survive a fork, so we use our own.
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

PIECE = 256  # texts that a thread tokenises at once
MAX_DEFINITION = 1 << 28  # bytes of a tokenizer.json
MAX_GROWTH = 1000  # characters that replacements may write for one
PAD_NAMES = ("[PAD]", "<pad>", "<|padding|>", "<|endoftext|>")
UNKNOWN_NAMES = ("[UNK]", "<unk>")


@dataclass(frozen=True)
class TextTokenizer:
    """A tokenizer as plain data."""

    definition: str = field(repr=False)  # the content of a tokenizer.json

    @classmethod
    def from_folder(cls, folder: Path) -> TextTokenizer:
        """Read the tokenizer of a pretrained encoder.

        Args:
            folder: With tokenizer.json.

        Returns:
            The tokenizer.

        Raises:
            DataError: The file is missing, or not a tokenizer.
        """
        path = folder / "tokenizer.json"
        if not path.is_file():  # a pipe or a device is none
            raise DataError(
                f"no tokenizer.json in {folder}, so its encoder cannot read texts; write one with "
                f"transformers.AutoTokenizer.from_pretrained(...).save_pretrained({str(folder)!r})"
            )
        if path.stat().st_size > MAX_DEFINITION:
            raise DataError(f"is longer than the {MAX_DEFINITION:,} bytes that a tokenizer may have", path)
        try:
            return cls.from_bytes(path.read_bytes())
        except ModelError as error:
            raise DataError(str(error), path) from None

    @classmethod
    def from_bytes(cls, definition: bytes) -> TextTokenizer:
        """Read what `to_bytes` returned.

        Args:
            definition: The content of a tokenizer.json.

        Returns:
            The tokenizer.

        Raises:
            ModelError: It is not a tokenizer.
        """
        try:
            text = definition.decode("utf-8")
            with _no_panic("read its definition"):
                Tokenizer.from_str(text)
            _check_growth({**json.loads(text), "model": None})  # the model is long, and replaces nothing
        except Exception as error:  # the library raises bare Exception
            raise ModelError(f"not a tokenizer definition: {error}") from None
        return cls(text)

    def to_bytes(self) -> bytes:
        """The content of a tokenizer.json."""
        return self.definition.encode("utf-8")

    @property
    def words(self) -> dict[str, int]:
        """The id of every token."""
        return self._vocabulary

    @cached_property
    def hash(self) -> str:
        """Equal for equal definitions only."""
        return hashlib.blake2b(self.to_bytes(), digest_size=16).hexdigest()

    @cached_property
    def size(self) -> int:
        """One more than the largest token id."""
        return max(self._vocabulary.values(), default=-1) + 1

    @cached_property
    def pad(self) -> int:
        """The id of the padding token; encoders mask it."""
        declared = self._facts.get("padding") or {}
        return int(declared.get("pad_id", self._first(PAD_NAMES, 0)))

    @cached_property
    def unknown(self) -> int:
        """The id of the unknown token, which is also the only token of an empty text."""
        named = (self._facts.get("model") or {}).get("unk_token")
        return self._first(((named,) if isinstance(named, str) else ()) + UNKNOWN_NAMES, self.pad)

    @cached_property
    def closed(self) -> bool:
        """Whether every text ends with a special token such as [SEP], which truncation must keep."""
        with _no_panic("read a text"):
            ids = self._ready.encode("").ids
            return len(ids) > 0 and self._ready.encode("a").ids[-1:] == ids[-1:]

    def encode(self, texts: Sequence[str], max_tokens: int) -> list[list[int]]:
        """Tokenise texts, in threads.

        Lone surrogates, which UTF-8 cannot encode, are read as U+FFFD.

        Args:
            texts: The texts.
            max_tokens: At most so many tokens of a text, special tokens included.

        Returns:
            The token ids of each text; those of an empty text are the unknown token alone.

        Raises:
            DataError: max_tokens leaves no place for a word.
        """
        with _no_panic("cut texts"):
            tokenizer = self._truncating(max_tokens)
        if len(texts) <= PIECE:
            return self._encode(texts, max_tokens, tokenizer)
        begins = range(0, len(texts), PIECE)
        found: list[list[list[int]]] = [[]] * len(begins)

        def work(piece: int) -> None:
            found[piece] = self._encode(texts[begins[piece] : begins[piece] + PIECE], max_tokens, tokenizer)

        in_threads(work, range(len(begins)), threads_that_allocate(thread_count()))
        return [ids for piece in found for ids in piece]

    def _encode(self, texts: Sequence[str], max_tokens: int, tokenizer: Tokenizer) -> list[list[int]]:
        # A tokenizer reads the whole text before it truncates. Words before a blank do not depend on those after it, so
        # the first part of a text is enough where it alone reaches the limit.
        parts = [text[:end] if (end := text.find(" ", 16 * max_tokens)) > 0 else text for text in texts]
        with _no_panic("read a text"):
            try:
                found = [encoding.ids for encoding in tokenizer.encode_batch_fast(parts)]
            except TypeError:
                parts = [_without_surrogates(text) for text in parts]
                texts = [_without_surrogates(text) for text in texts]
                found = [encoding.ids for encoding in tokenizer.encode_batch_fast(parts)]
            for row, ids in enumerate(found):
                if len(ids) < max_tokens and len(parts[row]) < len(texts[row]):
                    found[row] = ids = tokenizer.encode(texts[row]).ids
                if not ids:
                    found[row] = [self.unknown]
        if max((max(ids) for ids in found), default=0) >= max(self.size, 1):  # templates add ids of their own
            raise ModelError("the tokenizer gives ids that are not in its vocabulary; its definition is damaged")
        return found

    def check_limit(self, max_tokens: int) -> None:
        """Check that max_tokens leaves a place for a word.

        Args:
            max_tokens: At most so many tokens of a text.

        Raises:
            DataError: Special tokens take all of them.
        """
        with _no_panic("count special tokens"):
            taken = self._ready.num_special_tokens_to_add(False)
        if max_tokens <= taken:
            raise DataError(
                f"texts cannot be cut at max_tokens={max_tokens}: special tokens alone take {taken}; use a larger "
                "max_tokens"
            )

    @cached_property
    def _ready(self) -> Tokenizer:
        tokenizer = Tokenizer.from_str(self.definition)
        tokenizer.no_padding()
        tokenizer.no_truncation()
        return tokenizer

    @cached_property
    def _by_limit(self) -> dict[int, Tokenizer]:
        return {}

    def _truncating(self, max_tokens: int) -> Tokenizer:
        """One tokenizer for each limit: in the library the limit is a state of the tokenizer."""
        if max_tokens not in self._by_limit:
            self.check_limit(max_tokens)
            tokenizer = Tokenizer.from_str(self.definition)
            tokenizer.no_padding()
            tokenizer.enable_truncation(max_tokens)
            self._by_limit[max_tokens] = tokenizer
        return self._by_limit[max_tokens]

    @cached_property
    def _facts(self) -> dict[str, Any]:
        facts: dict[str, Any] = json.loads(self.definition)
        return facts

    @cached_property
    def _vocabulary(self) -> dict[str, int]:
        return dict(self._ready.get_vocab(with_added_tokens=True))

    def _first(self, names: Sequence[str], otherwise: int) -> int:
        return next((self._vocabulary[name] for name in names if name in self._vocabulary), otherwise)


def learn_words(texts: Sequence[str], max_words: int = 100_000) -> TextTokenizer:
    """Make a tokenizer of whole words, in lower case, from texts.

    Args:
        texts: The texts.
        max_words: How many of their most frequent words it knows.

    Returns:
        The tokenizer; [PAD] is 0 and [UNK] is 1.
    """
    tokenizer = Tokenizer(models.WordLevel({"[PAD]": 0, "[UNK]": 1}, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Lowercase()])
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(r"\w+"), "removed", invert=True)
    trainer = trainers.WordLevelTrainer(
        vocab_size=max_words + 2, special_tokens=["[PAD]", "[UNK]"], show_progress=False
    )

    def chunks() -> Iterator[list[str]]:
        for begin in range(0, len(texts), 10_000):
            yield [_without_surrogates(text) for text in texts[begin : begin + 10_000]]

    tokenizer.train_from_iterator(chunks(), trainer)
    return TextTokenizer(tokenizer.to_str())


@contextmanager
def _no_panic(doing: str) -> Iterator[None]:
    """Turn what the library raises, a panic of its Rust code too (a BaseException), into an error of ours."""
    try:
        yield
    except (LongtailError, KeyboardInterrupt, SystemExit, GeneratorExit, MemoryError):
        raise
    except BaseException as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise ModelError(f"the tokenizer could not {doing}: {reason[:200]}") from None


def _check_growth(facts: Any) -> None:
    """Raise a ModelError where replacements could make a text many times as long: each replaces what the last wrote."""
    growth, waiting = 1, [facts]
    while waiting:
        one = waiting.pop()
        waiting += one.values() if isinstance(one, dict) else one if isinstance(one, list) else ()
        if isinstance(one, dict) and one.get("type") in ("Replace", "Prepend"):
            growth *= max(len(str(one.get("content", one.get("prepend", "")))), 1)
    if growth > MAX_GROWTH:
        raise ModelError(f"a tokenizer that may write {growth} characters for one, more than {MAX_GROWTH}")


def _without_surrogates(text: str) -> str:
    """Replace each lone surrogate by U+FFFD."""
    if text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
