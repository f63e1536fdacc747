"""Names of labels in texts: matches, learned names and facts against plain loops; the learner; saved models."""

from __future__ import annotations

import itertools
import time
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

from longtail import load_model
from longtail.data.corpus import Corpus, make_corpus
from longtail.data.dataset import Dataset
from longtail.data.labels import LabelSet
from longtail.errors import RecipeError
from longtail.learners.lexical import Lexical
from longtail.linear.features.word_counts import WordCounts
from longtail.linear.lexical.learned_names import learn_names
from longtail.linear.lexical.match_facts import FACTS, NameFacts, pair_facts
from longtail.linear.lexical.names import MAIN, OTHER, Names, without_qualifiers
from longtail.recipe import Recipe

PLAIN = WordCounts(words="plain")
WORDS = ["red", "green", "blue", "sea", "sky", "sun", "moon", "old", "new", "big"]


def random_data(rng: np.random.Generator, rows: int = 40, labels: int = 15) -> tuple[list[str], LabelSet]:
    def words(low: int, high: int) -> str:
        return " ".join(rng.choice(WORDS, size=rng.integers(low, high)))

    names = LabelSet(
        ids=tuple(map(str, range(labels))),
        texts=tuple(words(1, 4) for _ in range(labels)),
        names=tuple(tuple(words(1, 3) for _ in range(rng.integers(0, 3))) for _ in range(labels)),
    )
    return [words(0, 14) for _ in range(rows)], names


@pytest.mark.parametrize("seed", range(5))
def test_matches_are_those_of_a_plain_search(seed: int) -> None:
    texts, labels = random_data(np.random.default_rng(seed))
    names = Names.of_labels(labels, PLAIN)
    found = names.find(texts)
    spelled = [
        [names.terms[token] for token in names.tokens[names.bounds[name] : names.bounds[name + 1]]]
        for name in range(len(names.labels))
    ]
    expected = sorted(
        (row, place, name)
        for row, text in enumerate(texts)
        for name, words in enumerate(spelled)
        for place in range(len(text.split()))
        if text.split()[place : place + len(words)] == words
    )
    got = sorted(zip(found.rows.tolist(), found.places.tolist(), found.names.tolist(), strict=True))
    assert got == expected and len(expected) > 20
    longest: dict[tuple[int, int], int] = defaultdict(int)
    for row, place, name in expected:
        longest[row, place] = max(longest[row, place], len(spelled[name]))
    for row, place, furthest in zip(found.rows.tolist(), found.places.tolist(), found.longest.tolist(), strict=True):
        assert furthest == longest[row, place]


def test_a_qualifier_may_be_left_out() -> None:
    labels = LabelSet(ids=("a", "b"), texts=("Mars (Planet)", "Planet"), names=(("Red Planet",), ()))
    names = Names.of_labels(labels, PLAIN)
    spelled = {
        (
            " ".join(names.terms[token] for token in names.tokens[names.bounds[name] : names.bounds[name + 1]]),
            int(names.labels[name]),
            int(names.kinds[name]),
        )
        for name in range(len(names.labels))
    }
    assert spelled == {("mars planet", 0, MAIN), ("mars", 0, MAIN), ("red planet", 0, OTHER), ("planet", 1, MAIN)}


@pytest.mark.parametrize("seed", range(3))
def test_learned_names_are_those_of_plain_counts(seed: int) -> None:
    rng = np.random.default_rng(seed)
    texts, labels = random_data(rng, rows=60, labels=4)
    targets = sparse.csr_array((rng.random((60, 4)) < 0.3).astype(np.float32))
    names = Names.of_labels(labels, PLAIN).with_terms_of(texts)
    stream, bounds = names.stream(texts)
    found = learn_names(stream, bounds, len(names.terms), targets, most=6, least_share=0.2, least_texts=2)
    got: dict[int, list[tuple[str, float]]] = defaultdict(list)
    for name, label in enumerate(found.labels.tolist()):
        tokens = found.tokens[found.bounds[name] : found.bounds[name + 1]]
        got[label].append((" ".join(names.terms[token] for token in tokens), float(found.weights[name])))
    for label in range(4):
        having, both = defaultdict(set), defaultdict(set)
        for row, text in enumerate(texts):
            words = text.split()
            for term in {*words, *(f"{one} {two}" for one, two in itertools.pairwise(words))}:
                having[term].add(row)
                if targets[row, label]:
                    both[term].add(row)
        shares = {term: len(rows) / (len(having[term]) + 1) for term, rows in both.items() if len(rows) >= 2}
        best = sorted((share for share in shares.values() if share >= 0.2), reverse=True)[:6]
        assert [share for _, share in got[label]] == pytest.approx(best)
        for term, share in got[label]:
            assert shares[term] == pytest.approx(share)


@pytest.mark.parametrize("seed", range(3))
def test_facts_are_those_of_plain_loops(seed: int) -> None:
    rng = np.random.default_rng(seed)
    texts, labels = random_data(rng)
    number = len(labels)
    targets = sparse.csr_array((rng.random((len(texts), number)) < 0.2).astype(np.float32))
    broader = sparse.csr_array((rng.random((number, number)) < 0.2).astype(np.float32))
    related = sparse.csr_array((rng.random((number, number)) < 0.2).astype(np.float32))
    names = Names.of_labels(labels, PLAIN)
    matches = names.find(texts)
    facts = NameFacts.learn(names, matches, targets, (broader, related))
    pairs = pair_facts(names, matches, facts)
    sizes = np.diff(names.bounds)
    spelled = [tuple(names.tokens[names.bounds[n] : names.bounds[n + 1]].tolist()) for n in range(len(sizes))]
    rows_with = [
        len({int(r) for r, n in zip(matches.rows, matches.names, strict=True) if n == name})
        for name in range(len(sizes))
    ]
    of_pair = defaultdict(list)
    for row, name, place, longest in zip(matches.rows, matches.names, matches.places, matches.longest, strict=True):
        of_pair[int(row), int(names.labels[name])].append((int(name), int(place), int(longest)))
    found_labels = defaultdict(set)
    for row, label in of_pair:
        found_labels[row].add(label)
    assert list(zip(pairs.rows.tolist(), pairs.labels.tolist(), strict=True)) == sorted(of_pair)
    found = [sum((row, label) in of_pair for row in range(len(texts))) for label in range(number)]
    right = [
        sum((row, label) in of_pair and bool(targets[row, label]) for row in range(len(texts)))
        for label in range(number)
    ]
    for numbers, (row, label) in zip(pairs.numbers, sorted(of_pair), strict=True):
        hits, length = of_pair[row, label], len(texts[row].split())
        places = [place for _, place, _ in hits]
        expected = {
            "log of occurrences": np.log1p(len(hits)),
            "log of the first place": np.log1p(min(places)),
            "first place as a share of the text": min(places) / length,
            "distance of first and last place as a share of the text": (max(places) - min(places)) / length,
            "terms of the longest name": max(sizes[name] for name, _, _ in hits),
            "found by its own name": any(names.kinds[name] == MAIN for name, _, _ in hits),
            "found by another name": any(names.kinds[name] == OTHER for name, _, _ in hits),
            "labels that share the name": min(np.log1p(spelled.count(spelled[name])) for name, _, _ in hits),
            "idf of the rarest name": max(np.log((len(texts) + 1) / (rows_with[name] + 1)) for name, _, _ in hits),
            "inside a longer name everywhere": all(sizes[name] < longest for name, _, longest in hits),
            "log of the text's terms": np.log1p(length),
            "log of the labels found in the text": np.log1p(len(found_labels[row])),
            "log of how often it is right where it is found": np.log((right[label] + 0.5) / (found[label] + 1)),
            "log of how often it is found": np.log1p(found[label]),
            "broader labels found too": sum(bool(broader[label, other]) for other in found_labels[row]),
            "narrower labels found too": sum(bool(broader[other, label]) for other in found_labels[row]),
            "related labels found too": sum(bool(related[label, other]) for other in found_labels[row]),
        }
        for name, value in expected.items():
            assert numbers[FACTS.index(name)] == pytest.approx(float(value), abs=1e-5), name


def vocabulary_corpus() -> Corpus:
    """Texts that name their labels, sometimes by another name, among words that mean nothing."""
    rng = np.random.default_rng(0)
    texts_of = [f"topic{label} thing" for label in range(30)]
    labels = LabelSet(
        ids=tuple(f"http://example.org/{label}" for label in range(30)),
        texts=tuple(texts_of),
        names=tuple((f"alias{label}",) for label in range(30)),
    )
    noise = [f"noise{word}" for word in range(50)]
    texts, rows, columns = [], [], []
    for row in range(600):
        label = int(rng.integers(0, 28))  # two labels have no example
        named = texts_of[label] if rng.random() < 0.5 else f"alias{label}"
        texts.append(" ".join([*rng.choice(noise, 5), named, *rng.choice(noise, 5)]))
        rows.append(row)
        columns.append(label)
    targets = sparse.csr_array((np.ones(600, np.float32), (rows, columns)), shape=(600, 30))
    data = Dataset(ids=tuple(map(str, range(600))), texts=tuple(texts), targets=targets, labels=labels)
    return make_corpus(name="named", valid=None, train=data.take(np.arange(500)), test=data.take(np.arange(500, 600)))


@pytest.fixture(scope="module")
def named() -> Corpus:
    return vocabulary_corpus()


def test_it_finds_labels_by_every_name_and_those_without_examples(named: Corpus, tmp_path: Path) -> None:
    model = Recipe.parse('lexical(words="plain", trees=20)').fit(named.train, named.valid)
    found = model.predict(named.test.rows, 1)
    assert found.hits(named.test.targets).mean() > 0.98
    unseen = model.predict(["noise3 alias29 noise4", "noise1 topic28 thing", "nothing of it"], 2)
    assert unseen.indices[:, 0].tolist() == [29, 28, -1]
    again = load_model(model.save(tmp_path / "model"))
    other = again.predict(named.test.rows, 5)
    first = model.predict(named.test.rows, 5)
    assert np.array_equal(first.indices, other.indices) and np.array_equal(first.scores, other.scores)
    grown = model.with_labels(["brand new"])
    assert grown.predict(["a brand new noise7"], 1).indices[0, 0] == 30
    assert np.array_equal(grown.predict(named.test.rows, 1).indices, found.indices)


def test_learned_names_find_what_no_name_says() -> None:
    texts = tuple(f"word{row % 5} common filler" for row in range(200))
    targets = sparse.csr_array(np.eye(5, dtype=np.float32)[np.arange(200) % 5])
    labels = LabelSet(ids=tuple("abcde"), texts=("eins", "zwei", "drei", "vier", "fünf"))
    data = Dataset(ids=tuple(map(str, range(200))), texts=texts, targets=targets, labels=labels)
    corpus = make_corpus(
        name="translated", valid=None, train=data.take(np.arange(150)), test=data.take(np.arange(150, 200))
    )
    with_names = Recipe.parse('lexical(words="plain", trees=10)').fit(corpus.train, corpus.valid)
    without = Recipe.parse('lexical(words="plain", trees=10, learned_names=0)').fit(corpus.train, corpus.valid)
    assert with_names.predict(corpus.test.rows, 1).hits(corpus.test.targets).all()
    assert (without.predict(corpus.test.rows, 1).indices == -1).all()


@pytest.mark.parametrize(
    "settings", [{"words": "chars"}, {"learned_names": -1}, {"min_share": 0.0}, {"trees": 0}, {"leaves": 1}]
)
def test_wrong_settings(settings: dict[str, object]) -> None:
    with pytest.raises(RecipeError):
        Lexical(**settings)  # type: ignore[arg-type]


def test_names_without_what_stands_in_brackets() -> None:
    for name, short in (
        ("Adaption (Literatur)", "Adaption"), ("a [b] c <d>", "a c"), ("(a)(b) c", " c"), ("a  ( b", "a  ( b"),
        ("a (b (c) d", "a d"), ("a) b", "a) b"), ("(", "("), ("", ""), ("a\t (b]", "a"), (") (", ") ("),
    ):  # fmt: skip
        assert without_qualifiers(name) == short


@pytest.mark.parametrize("letters", ["(", "<", "[ ", " ", "\n", "( "])
def test_brackets_that_never_close_are_read_once(letters: str) -> None:
    begin, name = time.process_time(), letters * 200_000
    assert without_qualifiers(name) == name
    assert without_qualifiers(name + "x)").removesuffix("x)") in ("", name)
    assert time.process_time() - begin < 2
