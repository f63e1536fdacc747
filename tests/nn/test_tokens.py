"""Tokens: tokenizers, batches, the cache, and broken texts."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

from longtail.errors import DataError, ModelError
from longtail.nn.encoders import tokens as room
from longtail.nn.encoders.token_cache import sharing_tokens
from longtail.nn.encoders.tokenizers import PIECE, TextTokenizer, learn_words
from longtail.nn.encoders.tokens import Tokens, tokenise
from longtail.progress import listening


def wordpiece() -> TextTokenizer:
    """A tokenizer as BERT's: pieces of words between [CLS] and [SEP]."""
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "red", "ant", "##s", "h", "##ill", "big"]
    tokenizer = Tokenizer(
        models.WordPiece(
            {piece: row for row, piece in enumerate(pieces)}, unk_token="[UNK]", max_input_chars_per_word=100
        )
    )
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    return TextTokenizer(tokenizer.to_str())


def test_pieces_of_words() -> None:
    tokenizer = wordpiece()
    assert tokenizer.encode(["Red ants", "hill, big", ""], 16) == [[2, 4, 5, 6, 3], [2, 7, 8, 1, 9, 3], [2, 3]]
    assert (tokenizer.pad, tokenizer.unknown, tokenizer.size, tokenizer.closed) == (0, 1, 10, True)
    assert tokenizer.encode(["red ants hill"], 4) == [[2, 4, 5, 3]]  # truncation keeps [SEP]


def test_padding_and_truncation_of_the_definition_are_not_used() -> None:
    tokenizer = Tokenizer.from_str(wordpiece().definition)
    tokenizer.enable_padding(pad_id=7, length=20)
    tokenizer.enable_truncation(3)
    stored = TextTokenizer(tokenizer.to_str())
    assert stored.encode(["big red ants"], 16) == [[2, 9, 4, 5, 6, 3]]
    assert stored.pad == 7


def test_learned_words_are_in_order_of_frequency_then_letters() -> None:
    tokenizer = learn_words(["Ant hill, ant", "red hill", "Blue"], max_words=3)
    assert tokenizer.encode(["ANT hill blue red", "hill_ant"], 9) == [[2, 3, 4, 1], [1]]
    assert tokenizer.size == 5 and not tokenizer.closed
    assert learn_words(["Ant hill, ant", "red hill", "Blue"], max_words=3) == tokenizer
    assert tokenizer.encode(["", "...", "é"], 9) == [[1], [1], [1]]  # never without a token


def test_lone_surrogates_are_read_as_the_replacement_character() -> None:
    tokenizer = learn_words(["a b", "x \ud800 y", "\ud83d\ude00"])
    broken, sound = ["a\ud800 b", "fine b"], ["a\ufffd b", "fine b"]
    assert tokenizer.encode(broken, 9) == tokenizer.encode(sound, 9) == [[2, 3], [1, 3]]
    assert wordpiece().encode(["red\udfff", "ant"], 9)[1] == [2, 5, 3]


def test_a_very_long_text_is_cut_and_gives_what_reading_all_of_it_gives() -> None:
    tokenizer = wordpiece()
    for text in (
        "red ants " * 12_000,
        "x" * 100_000,
        " " * 50_000 + "red" + " " * 50_000 + "hill",
        "red" * 30_000 + " ant",
    ):
        whole = Tokenizer.from_str(tokenizer.definition)
        whole.enable_truncation(8)
        assert tokenizer.encode([text], 8) == [whole.encode(text).ids]


@given(st.lists(st.sampled_from(["red", "ants", "hill", "é", " ", "   " * 20, "x" * 130, "big,"]), max_size=60))
def test_reading_the_first_part_changes_nothing(words: list[str]) -> None:
    tokenizer, text = wordpiece(), " ".join(words)
    whole = Tokenizer.from_str(tokenizer.definition)
    whole.enable_truncation(4)
    assert tokenizer.encode([text], 4) == [whole.encode(text).ids]


@pytest.mark.parametrize("threads", ["1", "3"])
def test_many_texts_are_tokenised_by_threads_as_one_by_one(threads: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LONGTAIL_THREADS", threads)
    tokenizer = learn_words(["red apple", "green pear", "blue plum"])
    rng = np.random.default_rng(0)
    words = ["red", "apple", "green", "pear", "other", "\ud800"]
    texts = [" ".join(rng.choice(words, rng.integers(0, 9))) for _ in range(2 * PIECE + 37)]
    assert tokenizer.encode(texts, 5) == [tokenizer.encode([text], 5)[0] for text in texts]


def test_a_limit_without_a_place_for_a_word_is_refused() -> None:
    with pytest.raises(DataError, match="cut at max_tokens=2: special tokens alone take 2"):
        tokenise(["red"], wordpiece(), 2)
    with pytest.raises(DataError, match="cut at max_tokens=0"):
        tokenise(["red"], learn_words(["red"]), 0)


def test_a_folder_without_a_tokenizer_or_with_a_broken_one(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"no tokenizer\.json in .*save_pretrained"):
        TextTokenizer.from_folder(tmp_path)
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(DataError, match=r"tokenizer\.json: not a tokenizer definition"):
        TextTokenizer.from_folder(tmp_path)
    with pytest.raises(ModelError, match="not a tokenizer definition"):
        TextTokenizer.from_bytes(b"\xff\xfe")
    tokenizer = wordpiece()
    (tmp_path / "tokenizer.json").write_bytes(tokenizer.to_bytes())
    assert TextTokenizer.from_folder(tmp_path) == tokenizer
    assert TextTokenizer.from_folder(tmp_path).hash == tokenizer.hash != learn_words(["red"]).hash


def test_batches_are_padded_to_their_own_longest() -> None:
    tokens = tokenise(["red ants", "", "big red ants hill"], wordpiece(), 16)
    assert len(tokens) == 3 and tokens.lengths.tolist() == [5, 2, 8] and tokens.ids.dtype == np.uint16
    ids, mask = tokens.batch(np.array([1, 0]), 16)
    assert ids.tolist() == [[2, 3, 0, 0, 0, 0, 0, 0], [2, 4, 5, 6, 3, 0, 0, 0]]
    assert mask.tolist() == [[True] * 2 + [False] * 6, [True] * 5 + [False] * 3]
    assert tokens.batch(np.array([0]), 16, multiple=1)[0].tolist() == [[2, 4, 5, 6, 3]]
    assert tokens.batch(np.array([2, 0]), 4, multiple=1)[0].tolist() == [[2, 9, 4, 3], [2, 4, 5, 3]]
    assert tokens.batch(np.array([], dtype=np.int64), 4)[0].shape == (0, 8)


@pytest.mark.parametrize("max_tokens", [16, 4, 3])
def test_packed_rows_are_the_batch_without_its_padding(max_tokens: int) -> None:
    tokens, rows = tokenise(["red ants", "", "big red ants hill"], wordpiece(), 16), np.array([2, 1, 0, 2])
    padded, mask = tokens.batch(rows, max_tokens)
    ids, layout = tokens.packed(rows, max_tokens)
    assert ids.tolist() == padded[mask].tolist()
    assert layout.longest == mask.shape[1] and layout.lengths.tolist() == mask.sum(1).tolist()
    assert layout.text_of.tolist() == np.nonzero(mask.numpy())[0].tolist()
    assert layout.places.tolist() == np.nonzero(mask.numpy())[1].tolist()
    assert layout.pad(ids).tolist() == (padded * mask).tolist()
    assert layout.mask.tolist() == mask.tolist()
    assert len(tokens.packed(rows[:0], max_tokens)[0]) == 0


def test_a_large_vocabulary_takes_32_bits() -> None:
    tokens = tokenise(["w69999 w0"], learn_words([f"w{number}" for number in range(70_000)]), 4)
    assert tokens.ids.dtype == np.uint32 and int(tokens.ids.max()) >= 2**16


def test_no_texts() -> None:
    tokens = tokenise([], wordpiece(), 8)
    assert len(tokens) == 0 and tokens.lengths.tolist() == []


def test_tokens_refuse_offsets_that_do_not_fit() -> None:
    with pytest.raises(DataError, match="begin with 0"):
        Tokens(np.zeros(3, np.uint16), np.array([0, 2], np.int64))
    with pytest.raises(DataError, match="at least one token"):
        Tokens(np.zeros(2, np.uint16), np.array([0, 0, 2], np.int64))


class Stages:
    """Which stages began."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def start(self, name: str, total: int | None) -> int:
        self.names.append(name)
        return 0

    def advance(self, handle: int, amount: int) -> None: ...

    def finish(self, handle: int) -> None: ...


def test_the_cache_answers_only_the_same_question(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "CHUNK", 2)
    texts, tokenizer, stages = ["red ants", "", "big\ud800 hill", "ant"], wordpiece(), Stages()
    plain = tokenise(texts, tokenizer, 8)
    with listening(stages):
        for _ in range(2):
            cached = tokenise(texts, tokenizer, 8, tmp_path)
            assert isinstance(cached.ids, np.memmap)
            np.testing.assert_array_equal(cached.ids, plain.ids)
            np.testing.assert_array_equal(cached.offsets, plain.offsets)
            assert (cached.pad, cached.closed) == (plain.pad, plain.closed)
        assert len(stages.names) == 1
        tokenise(texts, tokenizer, 7, tmp_path)
        tokenise(texts, learn_words(["red"]), 8, tmp_path)
        tokenise(["red antsb", "", "ig\ud800 hill", "ant"], tokenizer, 8, tmp_path)
        assert len(stages.names) == 4
        assert len(tokenise([], tokenizer, 8, tmp_path)) == 0


@pytest.mark.parametrize("damage", ["ids.bin", "offsets.npy", "tokens.json"])
def test_a_damaged_cache_is_made_again(tmp_path: Path, damage: str) -> None:
    texts, tokenizer = ["red ants", "big hill"], wordpiece()
    plain = tokenise(texts, tokenizer, 8)
    tokenise(texts, tokenizer, 8, tmp_path)
    (folder,) = tmp_path.iterdir()
    (folder / damage).write_bytes((folder / damage).read_bytes()[:-3])
    np.testing.assert_array_equal(tokenise(texts, tokenizer, 8, tmp_path).ids, plain.ids)


def test_an_interrupted_run_leaves_no_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(self: TextTokenizer, texts: list[str], max_tokens: int) -> list[list[int]]:
        raise KeyboardInterrupt

    tokenizer = wordpiece()
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(TextTokenizer, "encode", stop)
        tokenise(["red"], tokenizer, 8, tmp_path)
    assert list(tmp_path.iterdir()) == []
    assert tokenise(["red"], tokenizer, 8, tmp_path).ids.tolist() == [2, 4, 3]


@given(st.lists(st.text(alphabet=st.characters(codec=None), max_size=30), max_size=20), st.integers(3, 12))
def test_every_text_gets_its_tokens(texts: list[str], max_tokens: int) -> None:
    tokenizer = wordpiece()
    tokens = tokenise(texts, tokenizer, max_tokens)
    assert len(tokens) == len(texts)
    for row, run in enumerate(tokenizer.encode(texts, max_tokens)):
        assert tokens.ids[tokens.offsets[row] : tokens.offsets[row + 1]].tolist() == run
    if texts:
        ids, mask = tokens.batch(np.arange(len(texts)), max_tokens)
        assert mask.sum(1).tolist() == tokens.lengths.tolist() and ids.shape[1] % 8 == 0


def test_texts_are_tokenised_once_in_a_block(monkeypatch: pytest.MonkeyPatch) -> None:
    tokenizer, read = wordpiece(), []
    plain = TextTokenizer.encode
    monkeypatch.setattr(room, "CHUNK", 2)
    monkeypatch.setattr(
        TextTokenizer, "encode", lambda self, texts, limit: read.append(len(texts)) or plain(self, texts, limit)
    )
    documents, more = ("red ants", "big hill", "ant", "hill"), ("red ants", "big hill", "ant", "hill", "big ants")
    alone = tokenise(more, tokenizer, 9)
    read.clear()
    with sharing_tokens():
        tokenise(documents, tokenizer, 9)
        again = tokenise(more, TextTokenizer(tokenizer.definition), 9)  # another object, the same tokenizer
        assert read == [2, 2, 1]  # only what is new
        with sharing_tokens():
            tokenise(more, tokenizer, 9)
        assert read == [2, 2, 1]  # a block inside another shares its tokens
        shorter = tokenise(documents, tokenizer, 3)
        tokenise(documents, learn_words(documents), 9)
        assert read == [2, 2, 1, 2, 2, 2, 2]  # another limit, another tokenizer
    assert np.array_equal(again.ids, alone.ids) and np.array_equal(again.offsets, alone.offsets)
    assert shorter.lengths.max() == 3
    read.clear()
    tokenise(documents, tokenizer, 9)
    assert read == [2, 2]  # nothing is kept after the block
