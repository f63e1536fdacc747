from __future__ import annotations

import math
import re
import sys
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy import sparse

from longtail.data import Corpus, Dataset, LabelSet, Rows
from longtail.errors import DataError, LongtailError, RecipeError
from longtail.linear.features import word_counts as words_module
from longtail.linear.features.sparse_features import (
    FEATURES,
    Features,
    Vocabulary,
    joined,
    matrix_from,
    matrix_state,
    unit_rows,
)
from longtail.linear.features.text_terms import word_characters
from longtail.linear.features.word_counts import WordCounts
from longtail.linear.features.word_table import PairTable, WordTable
from longtail.linear.solvers.candidate_probability import CandidateProbability
from longtail.seams import Misfit, csr
from longtail.seams.conforms import conforms

# Texts that are hard to cut: case that changes length or looks around itself, marks, digits and letters of many
# scripts, halves of surrogate pairs, and ends of the code range.
ODD = "aZ09_ -.'éÉßẞİıΣσςǅΩ\0\n\u0301\u0345\u200d\u00a0٣五Ⅷ²½ªـ\u0bbeक्ष\ud800\udfff😀\U0001d400\U00010400\U0010ffff"
odd_texts = st.lists(st.one_of(st.text(alphabet=ODD, max_size=30), st.text(max_size=20)), max_size=12)


def plain_words(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower())


def plain_terms(text: str, pairs: bool) -> list[str]:
    words = plain_words(text)
    return words + [f"{first} {second}" for first, second in pairwise(words)] * pairs


def plain_columns(texts: list[str], chosen: WordCounts) -> list[str]:
    """Names of the columns: words in order of first appearance, then pairs, without those that are dropped."""
    found: dict[str, int] = {}
    for kind in (0, 1):
        for text in texts:
            terms = [term for term in plain_terms(text, chosen.bigrams) if (" " in term) == bool(kind)]
            for term in dict.fromkeys(terms):
                found[term] = found.get(term, 0) + 1
    kept = [term for term in found if found[term] >= chosen.min_df]
    if chosen.max_features:
        most = sorted(kept, key=lambda term: -found[term])[: chosen.max_features]
        kept = [term for term in kept if term in most]
    return kept


def plain_counts(texts: list[str], names: list[str], pairs: bool) -> list[dict[str, int]]:
    known = set(names)
    return [dict(Counter(term for term in plain_terms(text, pairs) if term in known)) for text in texts]


def names_of(vocabulary: Vocabulary) -> list[str]:
    words = vocabulary.words
    behind = [f"{words[key >> 32]} {words[key & 0xFFFFFFFF]}" for key in vocabulary.pairs.tolist()]
    return [*words, *behind]


def as_dicts(matrix: sparse.csr_array, names: list[str]) -> list[dict[str, int]]:
    assert matrix.indices.dtype == np.int32
    assert matrix.data.dtype == np.float32
    rows = []
    for begin, end in pairwise(matrix.indptr.tolist()):
        columns = matrix.indices[begin:end].tolist()
        assert columns == sorted(set(columns))  # ascending, none twice
        rows.append({names[column]: int(count) for column, count in zip(columns, matrix.data[begin:end], strict=True)})
    return rows


def dataset(texts: list[str]) -> Dataset:
    targets = sparse.csr_array(np.ones((len(texts), 1), dtype=np.float32))
    ids = tuple(map(str, range(len(texts))))
    return Dataset(labels=LabelSet(ids=("l",)), targets=targets, ids=ids, texts=tuple(texts))


def test_words_are_counted() -> None:
    vocabulary, counts = Vocabulary.learn(["The cat, the CAT; a dog", "", "dog-cat 42"])
    assert vocabulary.words == ("the", "cat", "a", "dog", "42")
    assert counts.toarray().tolist() == [[2, 2, 1, 1, 0], [0, 0, 0, 0, 0], [0, 1, 0, 1, 1]]
    other = vocabulary.count(["unknown words", "a a a bird", "Écho the"])
    assert other.toarray().tolist() == [[0, 0, 0, 0, 0], [0, 0, 3, 0, 0], [1, 0, 0, 0, 0]]


def test_pairs_come_behind_words() -> None:
    vocabulary, counts = Vocabulary.learn(["a b a b", "", "b", "b a c"], WordCounts(bigrams=True))
    assert names_of(vocabulary) == ["a", "b", "c", "a b", "b a", "a c"]
    expected = [[2, 2, 0, 2, 1, 0], [0, 0, 0, 0, 0, 0], [0, 1, 0, 0, 0, 0], [1, 1, 1, 0, 1, 1]]
    assert counts.toarray().tolist() == expected
    assert vocabulary.count(["c a c x a b", "x"]).toarray().tolist() == [[2, 1, 2, 1, 0, 1], [0] * 6]


def test_rare_words_and_words_beyond_the_maximum_are_dropped() -> None:
    texts = ["a b c", "a b", "a d a", "b e"]
    vocabulary, counts = Vocabulary.learn(texts, WordCounts(min_df=2))
    assert vocabulary.words == ("a", "b")
    assert counts.toarray().tolist() == [[1, 1], [1, 1], [2, 0], [0, 1]]
    vocabulary, counts = Vocabulary.learn(texts, WordCounts(max_features=3))
    assert vocabulary.words == ("a", "b", "c")  # c, d and e are in one row each; c came first
    vocabulary, counts = Vocabulary.learn(texts, WordCounts(bigrams=True, min_df=2))
    assert names_of(vocabulary) == ["a", "b", "a b"]
    assert vocabulary.count(["e a b"]).toarray().tolist() == [[1, 1, 1]]


@pytest.mark.parametrize("threads", ["1", "3"])
@settings(max_examples=150, deadline=None)
@given(
    texts=odd_texts,
    others=odd_texts,
    chosen=st.builds(
        WordCounts, bigrams=st.booleans(), min_df=st.sampled_from([1, 1, 2]), max_features=st.integers(0, 6)
    ),
)
@example(texts=["ΑΣ", "ΑΣ Σ", "ΑΣ\u0301.", "İI", "Ǆ²"], others=["ας", "i̇i"], chosen=WordCounts(bigrams=True))
def test_equal_to_plain_python(threads: str, texts: list[str], others: list[str], chosen: WordCounts) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LONGTAIL_THREADS", threads)
        patch.setattr(words_module, "BLOCK_TEXTS", 2)  # so that a few texts make several blocks
        vocabulary, counts = Vocabulary.learn(texts, chosen)
        other_counts = vocabulary.count(others)
    names = plain_columns(texts, chosen)
    assert names_of(vocabulary) == names
    assert as_dicts(counts, names) == plain_counts(texts, names, chosen.bigrams)
    assert as_dicts(other_counts, names) == plain_counts(others, names, chosen.bigrams)


def test_every_character_is_cut_as_python_cuts_it() -> None:
    """All code points but the whole of two planes without characters, each between two letters."""
    texts = ["".join(f"x{chr(code)}y " for code in range(start, start + 4096)) for start in range(0, 0x30000, 4096)]
    vocabulary, counts = Vocabulary.learn(texts)
    assert vocabulary.words == tuple(dict.fromkeys(word for text in texts for word in plain_words(text)))
    assert counts.sum() == sum(len(plain_words(text)) for text in texts)
    matches = word_characters(False)
    assert all(bool(re.match(r"\w", chr(code))) == matches[code] for code in range(0, sys.maxunicode + 1, 7))


def test_long_words_and_many_words() -> None:
    """WordCounts of 100 kB that differ in the last character, and enough words for tables to grow many times."""
    long = "ab" * 50_000
    texts = [f"{long}c {long}d", f"{long}d {long}", *(f"w{row} w{row // 2} é{row}" for row in range(30_000))]
    vocabulary, counts = Vocabulary.learn(texts, WordCounts(bigrams=True))
    names = plain_columns(texts, WordCounts(bigrams=True))
    assert names_of(vocabulary) == names
    assert as_dicts(counts, names) == plain_counts(texts, names, True)
    assert (vocabulary.count(texts) != counts).nnz == 0


def test_blocks_and_threads_make_no_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    texts = [" ".join(f"w{int(word)}" for word in rng.zipf(1.3, 40) if word < 5000) for _ in range(300)]
    answers = []
    for threads, characters in (("1", 1 << 20), ("1", 1000), ("4", 1000), ("4", 77)):
        monkeypatch.setenv("LONGTAIL_THREADS", threads)
        monkeypatch.setattr(words_module, "BLOCK_CHARACTERS", characters)
        vocabulary, counts = Vocabulary.learn(iter(texts), WordCounts(bigrams=True))
        answers.append((names_of(vocabulary), counts.indptr.tolist(), counts.indices.tolist(), counts.data.tolist()))
    assert all(answer == answers[0] for answer in answers)


def test_words_with_one_hash_stay_apart() -> None:
    """Forged hashes: all words fall into one slot, and only their bytes tell them apart."""
    names = [f"word{number % 90}" for number in range(200)]
    packed = np.frombuffer("".join(names).encode(), dtype=np.uint8).copy()
    offsets = np.cumsum([0, *map(len, names)])
    forged = np.full(len(names), 7, dtype=np.uint64)
    table = WordTable()
    assert table.add(packed, offsets[:-1], np.diff(offsets), forged).tolist() == [n % 90 for n in range(200)]
    assert table.size == 90
    assert table.find(packed, offsets[:-1], np.diff(offsets), forged).tolist() == [n % 90 for n in range(200)]
    assert table.find(packed, offsets[:1], np.array([4]), forged[:1]).tolist() == [-1]  # "word"


def test_pairs_are_numbered_in_order_of_arrival() -> None:
    rng = np.random.default_rng(0)
    keys = rng.integers(0, 2**40, 5000)[rng.integers(0, 5000, 20_000)]
    expected: dict[int, int] = {}
    for key in keys.tolist():
        expected.setdefault(key, len(expected))
    table = PairTable()
    halves = np.concatenate([table.add(keys[:9000]), table.add(keys[9000:])])
    assert halves.tolist() == [expected[key] for key in keys.tolist()]
    assert table.all().tolist() == list(expected)
    assert table.find(np.array([keys[5], -1])).tolist() == [expected[int(keys[5])], -1]


def test_hashed_words_need_no_vocabulary() -> None:
    texts = ["a b a b", "b a", "", "c"]
    vocabulary, counts = Vocabulary.learn(texts, WordCounts(bigrams=True, hash_bits=20))
    assert vocabulary.words == ()
    assert counts.shape == (4, 2**20)
    seen = counts.toarray()[:, counts.sum(axis=0) > 0]
    expected = Vocabulary.learn(texts, WordCounts(bigrams=True))[1].toarray()
    assert sorted(seen.T.tolist()) == sorted(expected.T.tolist())  # 20 bits are enough to keep these apart
    assert (Vocabulary((), WordCounts(bigrams=True, hash_bits=20)).count(texts) != counts).nnz == 0


def test_words_in_one_hashed_column_are_added_up() -> None:
    texts = [" ".join(f"w{number}" for number in range(row, row + 40)) for row in range(5)] + [""]
    _, counts = Vocabulary.learn(texts, WordCounts(bigrams=True, hash_bits=3))
    assert counts.sum(axis=1).tolist() == [79, 79, 79, 79, 79, 0]  # 40 words and 39 pairs
    assert as_dicts(counts, list("01234567"))
    _, fine = Vocabulary.learn(texts, WordCounts(bigrams=True, hash_bits=12))
    folded = fine.toarray().reshape(len(texts), 8, -1).sum(axis=2)
    assert counts.toarray().tolist() == folded.tolist()


def test_hashes_stay_the_same() -> None:
    """Saved models depend on these columns: FNV-1a, then the finish of MurmurHash3; the top bits choose."""
    low = 2**64 - 1

    def mixed(value: int, *factors: int) -> int:
        for factor in factors:
            value = (value ^ value >> 33) * factor & low
        return value ^ value >> 33

    def hashed(word: str) -> int:
        value = 0xCBF29CE484222325
        for byte in word.encode():
            value = (value ^ byte) * 0x100000001B3 & low
        return mixed(value, 0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53)

    first, second = hashed("cat"), hashed("straße")
    both = mixed((first ^ second >> 29) * 0xFF51AFD7ED558CCD + second * 0xC4CEB9FE1A85EC53 & low, 0xC4CEB9FE1A85EC53)
    _, counts = Vocabulary.learn(["cat", "straße", "cat straße"], WordCounts(bigrams=True, hash_bits=16))
    expected = [[first >> 48], [second >> 48], sorted([first >> 48, second >> 48, both >> 48])]
    rows = [counts.indices[begin:end].tolist() for begin, end in pairwise(counts.indptr)]
    assert rows == expected


def test_settings_that_cannot_be_are_refused() -> None:
    for wrong in ({"hash_bits": 40}, {"min_df": 0}, {"max_features": -1}, {"hash_bits": 4, "min_df": 2}):
        with pytest.raises(RecipeError):
            WordCounts(**wrong)


def test_a_word_twice_in_a_vocabulary_is_refused() -> None:
    with pytest.raises(DataError, match="twice"):
        Vocabulary(("a", "b", "a")).count(["a"])


def test_tf_idf_by_hand() -> None:
    """Two rows; "cat" is in both, "dog" twice in the second."""
    data = dataset(["cat", "cat dog dog"])
    features, vectors = Features.learn(data)
    cat = math.log(3 / 3) + 1
    dog = (1 + math.log(2)) * (math.log(3 / 2) + 1)
    norm = math.hypot(cat, dog)
    assert vectors.toarray() == pytest.approx(np.array([[1, 0], [cat / norm, dog / norm]]), abs=1e-6)
    assert features.of(data.rows).toarray() == pytest.approx(vectors.toarray())
    _, plain = Features.learn(data, WordCounts(sublinear_tf=False))
    dog = 2 * (math.log(3 / 2) + 1)
    assert plain.toarray()[1] == pytest.approx(np.array([cat, dog]) / math.hypot(cat, dog))


@pytest.mark.parametrize(
    "chosen",
    [WordCounts(), WordCounts(bigrams=True, sublinear_tf=False, min_df=2), WordCounts(bigrams=True, hash_bits=10)],
)
def test_features_from_texts_come_back_from_their_state(chosen: WordCounts) -> None:
    data = dataset(["a b c ä", "b c", "", "ä b c a"])
    features, vectors = Features.learn(data, chosen)
    state = features.state()
    for tensor in state.tensors.values():
        tensor.setflags(write=False)  # as a loaded one may be
    again = Features.restore(state)
    assert again.columns == features.columns == vectors.shape[1]
    assert (again.of(data.rows) != vectors).nnz == 0


def test_features_saved_without_word_settings_are_read() -> None:
    data = dataset(["a b", "b c"])
    features, vectors = Features.learn(data)
    state = features.state()
    del state.settings["words"]
    assert (Features.restore(state).of(data.rows) != vectors).nnz == 0


def test_a_state_whose_parts_do_not_fit_is_refused() -> None:
    state = Features.learn(dataset(["a b", "b c"]))[0].state()
    state.tensors["idf"] = state.tensors["idf"][:-1]
    with pytest.raises(Misfit, match="array 'idf' has 2 weights for 3 words"):
        conforms(FEATURES, state.settings, state.tensors, {}, 10)


def test_unit_rows_with_empty_rows() -> None:
    matrix = sparse.csr_array(np.array([[0, 0, 0], [3, 0, 4], [0, 0, 0], [0, 5, 0], [0, 0, 0]], dtype=np.float32))
    expected = [[0, 0, 0], [0.6, 0, 0.8], [0, 0, 0], [0, 1, 0], [0, 0, 0]]
    assert unit_rows(matrix).toarray() == pytest.approx(np.array(expected))
    assert unit_rows(sparse.csr_array((3, 2), dtype=np.float32)).nnz == 0
    last = sparse.csr_array(np.array([[0, 0], [3, 4], [0, 0], [0, 0]], dtype=np.float32))
    assert unit_rows(last).toarray()[1] == pytest.approx([0.6, 0.8])


def test_features_in_any_order_come_out_in_order(numbers: Corpus) -> None:
    features, _ = Features.learn(numbers.train)
    mixed = sparse.csr_array((np.array([4, 1, 2], np.float32), np.array([7, 2, 2], np.int32), [0, 3]), shape=(1, 15))
    vectors = features.of(Rows(features=mixed))
    assert vectors.indices.tolist() == [2, 7]
    assert vectors.data == pytest.approx([0.6, 0.8])
    assert mixed.indices.tolist() == [7, 2, 2]  # the caller's own stay as they were


def test_features_of_another_width_are_refused(numbers: Corpus, tiny: Corpus) -> None:
    features, _ = Features.learn(numbers.train)
    with pytest.raises(DataError, match="the examples have 3 features, the model was trained on 15"):
        features.of(Rows(features=sparse.csr_array((2, 3), dtype=np.float32)))
    words, _ = Features.learn(tiny.train)
    with pytest.raises(DataError, match="trained on texts"):
        words.of(numbers.test.rows)


def test_joined_vectors_share_the_norm_as_weighted() -> None:
    left = np.array([[3, 0, 4], [0, 0, 0], [0, 2, 0], [0, 0, 0]], dtype=np.float32)
    right = np.array([[0, 5], [1, 1], [0, 0], [0, 0]], dtype=np.float64)
    both = joined(sparse.csr_array(left), right, 0.36)
    half = math.sqrt(0.5)
    expected = [[0.48, 0, 0.64, 0, 0.6], [0, 0, 0, half, half], [0, 1, 0, 0, 0], [0, 0, 0, 0, 0]]
    assert both.toarray() == pytest.approx(np.array(expected), abs=1e-6)
    assert both.indices.dtype == np.int32
    assert both.data.dtype == np.float32
    assert joined(sparse.csr_array(left), right, 0).toarray()[0] == pytest.approx([0.6, 0, 0.8, 0, 0])


@settings(max_examples=50, deadline=None)
@given(weight=st.floats(0, 1), seed=st.integers(0, 1000))
def test_joined_cosines_are_the_weighted_cosines(weight: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    left = sparse.random_array((6, 20), density=0.4, rng=rng, format="coo").tocsr() + sparse.csr_array(np.eye(6, 20))
    right = rng.normal(size=(6, 5))
    both = joined(left, right, weight)
    cosine_left = unit_rows(left) @ unit_rows(left).T
    unit = right / np.linalg.norm(right, axis=1, keepdims=True)
    expected = (1 - weight) * cosine_left.toarray() + weight * (unit @ unit.T)
    assert (both @ both.T).toarray() == pytest.approx(expected, abs=1e-5)
    assert both.has_sorted_indices


def test_vectors_that_cannot_be_joined_are_refused() -> None:
    left = sparse.csr_array(np.eye(2, dtype=np.float32))
    wrong: list[tuple[np.ndarray, float, str]] = [
        (np.ones((3, 2)), 0.5, "cannot be joined to the words of 2 examples"),
        (np.ones(2), 0.5, "cannot be joined"),
        (np.array([[1.0], [np.nan]]), 0.5, "example 1 has a value that is not a finite number"),
        (np.ones((2, 2)), 1.5, "between 0 and 1, got 1.5"),
        (np.ones((2, 2)), math.nan, "between 0 and 1"),
    ]
    for dense, weight, message in wrong:
        with pytest.raises(LongtailError, match=message):
            joined(left, dense, weight)


def test_a_matrix_comes_back_from_its_tensors() -> None:
    matrix = sparse.csr_array(np.array([[0, 2, 0], [1, 0, 3]], dtype=np.float32))
    tensors = matrix_state("m", matrix)
    found = matrix_from("m", tensors)
    assert (found != matrix).nnz == 0
    assert found.indices.dtype == np.int32  # what the kernels read: no prediction copies the matrix
    tensors["m.indices"] = np.array([1, 0, 9], dtype=np.int32)
    with pytest.raises(Misfit, match=r"array 'm.indices' has the number 9, outside 0 to 2"):
        conforms(csr("m", "rows", "columns"), {}, tensors, {}, 10)


def test_probabilities_are_calibrated_and_follow_a_known_truth() -> None:
    """Candidates whose probability is known: the fit must find it from cosine and frequency."""
    rng = np.random.default_rng(1)
    counts = np.array([1, 3, 10, 100, 1000])
    indices = rng.integers(0, 5, (20000, 6)).astype(np.int32)
    scores = rng.random((20000, 6)).astype(np.float32)
    truth = 1 / (1 + np.exp(-(4 * scores + 0.5 * np.log1p(counts)[indices] - 5)))
    hits = rng.random(truth.shape) < truth
    fitted = CandidateProbability.fit(indices, scores, hits, indices >= 0, counts)
    assert fitted is not None
    assert np.abs(fitted.of(indices, scores) - truth).mean() < 0.01
    # At the optimum the gradient of the penalised loss is zero: a reference in plain float64.
    near = scores.astype(np.float64)
    log_counts = np.log1p(counts).astype(np.float32).astype(np.float64)[indices]
    inputs = [near, near / near.max(axis=1, keepdims=True), log_counts, near * log_counts, np.ones_like(near)]
    design = np.stack(inputs, axis=-1).reshape(-1, 5)
    guess = 1 / (1 + np.exp(-design @ fitted.weights))
    gradient = design.T @ (guess - hits.ravel()) + fitted.weights
    assert np.abs(gradient).max() < 1e-4


def test_probabilities_need_hits_to_learn_from() -> None:
    indices = np.zeros((10, 2), np.int32)
    scores = np.ones((10, 2), np.float32)
    assert CandidateProbability.fit(indices, scores, np.zeros((10, 2), bool), indices >= 0, np.array([5])) is None
    assert CandidateProbability.fit(indices, scores, np.ones((10, 2), bool), indices >= 0, np.array([5])) is None
