"""A trained encoder as plain data."""

from __future__ import annotations

import numpy as np
import pytest

from longtail.errors import ModelError
from longtail.nn.encoders.build import load_encoder
from longtail.nn.encoders.encode import encode
from longtail.nn.encoders.text_encoder import BLOCK, TextEncoder, normalised
from longtail.nn.encoders.tokens import tokenise

TEXTS = ["red ants build a hill", "a hill", "", "big red ants and a very long way"]


def test_vectors_are_those_of_the_network() -> None:
    encoder, tokenizer = load_encoder("tiny", texts=TEXTS, seed=1)
    expected = encode(encoder, tokenise(TEXTS, tokenizer, 6))
    plain = TextEncoder.of(encoder, tokenizer, 6, cut=10)
    np.testing.assert_allclose(plain.unnormalised(TEXTS), expected, atol=0.05)  # bf16 where that is faster
    cut = plain.unnormalised(TEXTS)[:, :10]
    np.testing.assert_allclose(plain.vectors(TEXTS), cut / np.linalg.norm(cut, axis=1)[:, None], rtol=1e-5)
    np.testing.assert_allclose(plain.encode_to_device(TEXTS).cpu().numpy(), plain.vectors(TEXTS), atol=1e-6)


def test_it_is_restored_from_settings_and_tensors() -> None:
    encoder, tokenizer = load_encoder("bag", 8, texts=TEXTS, seed=1)
    plain = TextEncoder.of(encoder, tokenizer, 6)
    again = TextEncoder.restore(plain.settings, 6, None, {**plain.tensors(), "labels": np.zeros(3)})
    np.testing.assert_array_equal(again.vectors(TEXTS), plain.vectors(TEXTS))
    narrow = {**plain.weights, "body.words.weight": plain.weights["body.words.weight"][:, :4]}
    with pytest.raises(ModelError, match="the weights do not fit the encoder's settings"):
        TextEncoder(plain.settings, narrow, plain.definition, 6).fresh()


def test_a_fresh_network_can_have_another_dropout() -> None:
    encoder, tokenizer = load_encoder("bag", 8, texts=TEXTS, seed=1)
    plain = TextEncoder.of(encoder, tokenizer, 6)
    assert plain.fresh()[0].settings["dropout"] == 0.0
    assert plain.fresh(dropout=0.3)[0].settings["dropout"] == 0.3


def test_normalised_vectors_have_unit_norm() -> None:
    vectors = np.random.default_rng(0).normal(size=(2 * BLOCK + 3, 5)).astype(np.float32)
    vectors[1] = 0
    found = normalised(vectors)
    assert found.dtype == np.float32 and not found[1].any()
    expected = vectors / np.maximum(np.linalg.norm(vectors.astype(np.float64), axis=1), 1e-12)[:, None]
    np.testing.assert_allclose(found, expected, atol=1e-7)
