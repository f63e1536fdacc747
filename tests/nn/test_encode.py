"""Encoding many texts: the same vectors as one by one, in order, whatever the batches."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers
from hypothesis import given
from hypothesis import strategies as st

from longtail.errors import DataError
from longtail.nn.encoders.build import Encoder, load_encoder
from longtail.nn.encoders.device_tokens import DeviceTokens
from longtail.nn.encoders.encode import (
    BATCH_TOKENS,
    GROUP_COST,
    batches,
    encode,
    encode_to_device,
    for_inference,
    similar_lengths,
)
from longtail.nn.encoders.tokenizers import learn_words
from longtail.nn.encoders.tokens import Tokens, tokenise
from longtail.nn.encoders.transformer import Transformer
from longtail.progress import listening

WORDS = ["red", "ants", "build", "a", "hill", "of", "big", "leaves", "by", "the", "long", "way"]
TEXTS = [" ".join(WORDS[(row + place) % len(WORDS)] for place in range(row * 7 % 23)) for row in range(60)]


def ready(name: str) -> tuple[Encoder, Tokens]:
    encoder, tokenizer = load_encoder(name, texts=TEXTS, seed=1)
    return encoder.eval(), tokenise(TEXTS, tokenizer, 20)


def one_by_one(encoder: Encoder, tokens: Tokens, max_tokens: int = 20) -> np.ndarray:
    with torch.no_grad():
        return np.concatenate(
            [encoder(*tokens.batch(np.array([row]), max_tokens)).numpy() for row in range(len(tokens))]
        )


@pytest.mark.parametrize("name", ["bag", "gru", "tiny"])
@pytest.mark.parametrize("batch_tokens", [1, 50, 10_000])
def test_in_order_and_as_one_by_one(name: str, batch_tokens: int) -> None:
    encoder, tokens = ready(name)
    vectors = encode(encoder, tokens, batch_tokens=batch_tokens, precision="fp32")
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(vectors, one_by_one(encoder, tokens), atol=1e-5)


@pytest.mark.parametrize("name", ["bag", "gru", "tiny"])
def test_vectors_that_stay_on_the_device(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    encoder, tokens = ready(name)
    monkeypatch.setitem(BATCH_TOKENS, "cpu", 50)
    vectors = encode_to_device(encoder, tokens)
    assert vectors.dtype == torch.float32
    np.testing.assert_array_equal(vectors.numpy(), encode(encoder, tokens))


@pytest.mark.parametrize("name", ["bag", "tiny"])
def test_tokens_that_are_on_the_device(name: str) -> None:
    encoder, tokens = ready(name)
    held = DeviceTokens(tokens, torch.device("cpu"), 5)
    np.testing.assert_array_equal(encode_to_device(encoder, held).numpy(), encode(encoder, tokens, longest=5))


def test_bf16_is_near_and_the_encoder_is_left_as_it_was() -> None:
    encoder, tokens = ready("scratch-mini")
    encoder.train()
    before = {name: weight.clone() for name, weight in encoder.state_dict().items()}
    rough = encode(encoder, tokens, precision="bf16")
    assert encoder.training
    assert all(torch.equal(weight, before[name]) for name, weight in encoder.state_dict().items())
    exact = encode(encoder, tokens, precision="fp32")
    np.testing.assert_allclose(exact, one_by_one(encoder.eval(), tokens), atol=1e-5)  # dropout was off
    cosine = (rough * exact).sum(1) / np.linalg.norm(rough, axis=1) / np.linalg.norm(exact, axis=1)
    assert cosine.min() > 0.999 and not np.array_equal(rough, exact)


def test_texts_are_cut_at_what_the_caller_and_the_encoder_can_read() -> None:
    encoder, tokens = ready("tiny")
    np.testing.assert_allclose(
        encode(encoder, tokens, longest=5, precision="fp32"), one_by_one(encoder, tokens, 5), atol=1e-5
    )
    long = Tokens(np.full(1000, 3, np.uint16), np.array([0, 1000]))
    assert encoder.max_tokens == 512
    np.testing.assert_allclose(encode(encoder, long, precision="fp32"), one_by_one(encoder, long, 512), atol=1e-5)


def test_an_encoder_of_another_family_reads_no_more_than_it_has_places_for(tmp_path: Path) -> None:
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    config = transformers.MPNetConfig(vocab_size=40, max_position_embeddings=22, **sizes)
    transformers.AutoModel.from_config(config).save_pretrained(tmp_path)
    (tmp_path / "tokenizer.json").write_bytes(learn_words(WORDS).to_bytes())
    encoder, tokenizer = load_encoder(str(tmp_path))
    assert encoder.max_tokens == 20
    tokens = tokenise([" ".join(WORDS * 10), "red ants"], tokenizer, 100)
    for precision in ("fp32", "bf16"):
        assert np.isfinite(encode(encoder, tokens, precision=precision)).all()


def test_no_texts_and_no_such_precision() -> None:
    encoder, tokens = ready("tiny")
    nothing = Tokens(np.zeros(0, np.uint16), np.zeros(1, np.int64))
    assert encode(encoder, nothing).shape == (0, encoder.dimension)
    with pytest.raises(DataError, match="precision must be one of auto, fp32, bf16, got 'int4'"):
        encode(encoder, tokens, precision="int4")


def test_progress_counts_every_text() -> None:
    encoder, tokens = ready("bag")
    events: list[object] = []

    class Listener:
        def start(self, name: str, total: int | None) -> int:
            events.append((name, total))
            return 0

        def advance(self, handle: int, amount: int) -> None:
            events.append(amount)

        def finish(self, handle: int) -> None: ...

    with listening(Listener()):
        encode(encoder, tokens, batch_tokens=100, what="labels")
    assert events[0] == ("encoding labels", len(TEXTS))
    assert sum(events[1:]) == len(TEXTS) and len(events) > 3  # type: ignore[arg-type]


@given(st.lists(st.integers(1, 40), max_size=80), st.integers(1, 200), st.sampled_from([1, 8]))
def test_batches_hold_every_row_once_and_stay_small(lengths: list[int], batch_tokens: int, multiple: int) -> None:
    sizes = np.array(lengths, dtype=np.int64)
    cut = list(batches(sizes, batch_tokens, multiple))
    assert sorted(row for rows in cut for row in rows.tolist()) == list(range(len(lengths)))
    for rows in cut:
        places = -(-sizes[rows].max() // multiple) * multiple
        assert len(rows) == 1 or len(rows) * places <= batch_tokens
        assert sizes[rows[0]] == sizes[rows].max()


def test_an_encoder_prepared_once_gives_the_same_vectors() -> None:
    texts = ["a castle", "a much longer text about a castle by the harbour", "x"] * 60
    encoder, tokenizer = load_encoder("tiny", texts=texts)
    tokens = tokenise(texts, tokenizer, 32)
    ready = for_inference(encoder)
    np.testing.assert_allclose(
        encode(ready, tokens, prepared=True), encode(encoder, tokens, precision="fp32"), atol=0.05
    )
    np.testing.assert_array_equal(encode(ready, tokens, prepared=True), encode(encoder, tokens))  # many tokens: as auto
    assert not ready.training and encoder.training
    assert all(one.dtype == torch.float32 for one in encoder.parameters())  # the encoder itself stays as it was


@given(st.lists(st.integers(1, 64), min_size=1, max_size=80))
def test_groups_hold_every_row_once_and_need_little_padding(lengths: list[int]) -> None:
    sizes = np.sort(np.array(lengths, dtype=np.int64))[::-1]
    groups = similar_lengths(sizes)
    assert [row for group in groups for row in range(len(sizes))[group]] == list(range(len(sizes)))
    for group in groups:
        assert (sizes[group][0] - sizes[group]).sum() <= GROUP_COST
    for before, after in itertools.pairwise(groups):  # texts of one length are in one group
        assert sizes[before][-1] > sizes[after][0]


@pytest.mark.parametrize("pooling", ["mean", "cls", "max"])
def test_groups_of_similar_length_give_the_vectors_of_each_text_alone(pooling: str) -> None:
    encoder, tokenizer = load_encoder("tiny", texts=TEXTS, seed=1)
    assert isinstance(encoder.body, Transformer)
    encoder.body.shape = replace(encoder.body.shape, pooling=pooling)
    tokens = tokenise(TEXTS, tokenizer, 20)
    assert len(similar_lengths(np.sort(tokens.lengths)[::-1])) > 3
    vectors = encode(encoder.eval(), tokens, precision="fp32")
    np.testing.assert_allclose(vectors, one_by_one(encoder, tokens), atol=1e-5)
