"""Texts cut into numbered tokens, by the definition that came with an encoder or by words learned from texts."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, trainers

from longtail.errors import DataError, ModelError
from longtail.memory import threads_that_allocate
from longtail.threads import in_threads, thread_count

# The library's own threads know nothing of LONGTAIL_THREADS and do not outlive a fork, so ours do the work.
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

PIECE = 256  # texts that a thread cuts at once
PAD_NAMES = ("[PAD]", "<pad>", "<|padding|>", "<|endoftext|>")
UNKNOWN_NAMES = ("[UNK]", "<unk>")


@dataclass(frozen=True)
class TextTokenizer:
    """A tokenizer as plain data: the text of a tokenizer.json."""

    definition: str = field(repr=False)

    @classmethod
    def from_folder(cls, folder: Path) -> TextTokenizer:
        path = folder / "tokenizer.json"
        if not path.is_file():
            raise DataError(
                f"no tokenizer.json in {folder}, so its encoder cannot read texts; write one with "
                f"transformers.AutoTokenizer.from_pretrained(...).save_pretrained({str(folder)!r})"
            )
        try:
            return cls.from_bytes(path.read_bytes())
        except ModelError as error:
            raise DataError(str(error), path) from None

    @classmethod
    def from_bytes(cls, definition: bytes) -> TextTokenizer:
        """What `to_bytes` gave."""
        try:
            text = definition.decode("utf-8")
            Tokenizer.from_str(text)
        except Exception as error:  # the library raises bare Exception
            raise ModelError(f"not a tokenizer definition: {error}") from None
        return cls(text)

    def to_bytes(self) -> bytes:
        return self.definition.encode("utf-8")

    @property
    def words(self) -> dict[str, int]:
        """The number of every token."""
        return self._vocabulary

    @cached_property
    def hash(self) -> str:
        return hashlib.blake2b(self.to_bytes(), digest_size=16).hexdigest()

    @cached_property
    def size(self) -> int:
        """One more than the largest token."""
        return max(self._vocabulary.values(), default=-1) + 1

    @cached_property
    def pad(self) -> int:
        """The token that fills up a batch; encoders mask it."""
        declared = self._facts.get("padding") or {}
        return int(declared.get("pad_id", self._first(PAD_NAMES, 0)))

    @cached_property
    def unknown(self) -> int:
        """Stands for a text without any token."""
        named = (self._facts.get("model") or {}).get("unk_token")
        return self._first(((named,) if isinstance(named, str) else ()) + UNKNOWN_NAMES, self.pad)

    @cached_property
    def closed(self) -> bool:
        """Whether every text ends in a special token such as [SEP], which cutting must keep."""
        ids = self._ready.encode("").ids
        return len(ids) > 0 and self._ready.encode("a").ids[-1] == ids[-1]

    def encode(self, texts: Sequence[str], longest: int) -> list[list[int]]:
        """The tokens of each text, at most `longest`. A text without any becomes the unknown token.

        Halves of surrogate pairs, which no UTF-8 can hold, are read as U+FFFD.
        """
        tokenizer = self._cut_at(longest)
        if len(texts) <= PIECE:
            return self._encode(texts, longest, tokenizer)
        begins = range(0, len(texts), PIECE)
        found: list[list[list[int]]] = [[]] * len(begins)

        def work(piece: int) -> None:
            found[piece] = self._encode(texts[begins[piece] : begins[piece] + PIECE], longest, tokenizer)

        in_threads(work, range(len(begins)), threads_that_allocate(thread_count()))
        return [ids for piece in found for ids in piece]

    def _encode(self, texts: Sequence[str], longest: int, tokenizer: Tokenizer) -> list[list[int]]:
        # A tokenizer reads all of a text before it cuts. The words before a blank do not depend on those behind it, so
        # reading the first part is enough where that alone reaches the limit.
        parts = [text[:end] if (end := text.find(" ", 16 * longest)) > 0 else text for text in texts]
        try:
            found = [encoding.ids for encoding in tokenizer.encode_batch_fast(parts)]
        except TypeError:
            parts, texts = [_sound(text) for text in parts], [_sound(text) for text in texts]
            found = [encoding.ids for encoding in tokenizer.encode_batch_fast(parts)]
        for row, ids in enumerate(found):
            if len(ids) < longest and len(parts[row]) < len(texts[row]):
                found[row] = ids = tokenizer.encode(texts[row]).ids
            if not ids:
                found[row] = [self.unknown]
        return found

    def check_limit(self, longest: int) -> None:
        """Refuse a limit that leaves no room for a word."""
        taken = self._ready.num_special_tokens_to_add(False)
        if longest <= taken:
            raise DataError(f"texts cannot be cut at {longest} tokens, special tokens take {taken}; use a larger limit")

    @cached_property
    def _ready(self) -> Tokenizer:
        tokenizer = Tokenizer.from_str(self.definition)
        tokenizer.no_padding()
        tokenizer.no_truncation()
        return tokenizer

    @cached_property
    def _cuts(self) -> dict[int, Tokenizer]:
        return {}

    def _cut_at(self, longest: int) -> Tokenizer:
        """A tokenizer of its own for each limit: the limit is a state of the library's object."""
        if longest not in self._cuts:
            self.check_limit(longest)
            tokenizer = Tokenizer.from_str(self.definition)
            tokenizer.no_padding()
            tokenizer.enable_truncation(longest)
            self._cuts[longest] = tokenizer
        return self._cuts[longest]

    @cached_property
    def _facts(self) -> dict[str, Any]:
        facts: dict[str, Any] = json.loads(self.definition)
        return facts

    @cached_property
    def _vocabulary(self) -> dict[str, int]:
        return dict(self._ready.get_vocab(with_added_tokens=True))

    def _first(self, names: Sequence[str], otherwise: int) -> int:
        return next((self._vocabulary[name] for name in names if name in self._vocabulary), otherwise)


def learn_words(texts: Sequence[str], most: int = 100_000) -> TextTokenizer:
    """Whole words, lower case, the `most` frequent of these texts; [PAD] is 0 and [UNK] is 1."""
    tokenizer = Tokenizer(models.WordLevel({"[PAD]": 0, "[UNK]": 1}, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Lowercase()])
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(r"\w+"), "removed", invert=True)
    trainer = trainers.WordLevelTrainer(vocab_size=most + 2, special_tokens=["[PAD]", "[UNK]"], show_progress=False)

    def sound_chunks() -> Iterator[list[str]]:
        for begin in range(0, len(texts), 10_000):
            yield [_sound(text) for text in texts[begin : begin + 10_000]]

    tokenizer.train_from_iterator(sound_chunks(), trainer)
    return TextTokenizer(tokenizer.to_str())


def _sound(text: str) -> str:
    """The text, with U+FFFD for each half of a surrogate pair that stands alone."""
    if text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
