"""Forms of words: stems, lemmas, n-grams, compounds, and the language of a text."""

from __future__ import annotations

import random
import re
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest

from longtail.data.corpus import Corpus
from longtail.errors import RecipeError
from longtail.learners.bm25 import Bm25, Bm25Scorer
from longtail.learners.parabel import Parabel
from longtail.linear.features import word_forms
from longtail.linear.features.languages import FUNCTION_WORDS, STEMMERS, detect, folded, lowered, main_language
from longtail.linear.features.sparse_features import Features
from longtail.linear.features.word_counts import Vocabulary, WordCounts
from longtail.linear.features.word_forms import CompoundCutter, grams, read_forms
from longtail.linear.features.word_pieces import learn_pieces

TEXTS = [
    "Die Häuser der Wirtschaftswissenschaften im Wandel",
    "Wirtschaft und Wissenschaft in der Stadt",
    "The mushrooms of the houses, and a mushroom",
    "図書館学 and libraries",
    "",
    "Haus am See",
]


def counted_slowly(text: str, language: str, words: str) -> Counter[str]:
    """The terms of a text, one word after the other, with the stemmer called directly."""
    import snowballstemmer

    stemmer = snowballstemmer.stemmer(STEMMERS[language])
    terms: Counter[str] = Counter()
    for word in re.findall(r"\w+", text.lower()):
        if re.search("[\u3040-\u9fff]", word):
            terms.update(word[place : place + 2] for place in range(len(word) - 1))
            continue
        stem = folded(stemmer.stemWord(word), language)
        terms[stem] += 1
        if "chars" in words:
            marked = f"<{folded(word, language)}>"
            terms.update("~" + marked[start : start + n] for n in (2, 3, 4, 5) for start in range(len(marked) - n + 1))
    return terms


def as_counters(vocabulary: Vocabulary, texts: list[str]) -> list[Counter[str]]:
    matrix = vocabulary.count(texts)
    rows = [matrix[[row]] for row in range(len(texts))]
    return [
        Counter({vocabulary.words[column]: int(count) for column, count in zip(row.indices, row.data, strict=True)})
        for row in rows
    ]


@pytest.mark.parametrize("words", ["stem", "stem+chars"])
def test_stems_are_those_of_a_plain_loop(words: str) -> None:
    texts = [text for text in TEXTS if "図" not in text or words == "stem"]
    vocabulary, matrix = Vocabulary.learn(texts, WordCounts(words=words))
    languages = [detect(text, "de") for text in texts]
    assert as_counters(vocabulary, texts) == [
        counted_slowly(text, language, words) for text, language in zip(texts, languages, strict=True)
    ]
    assert (vocabulary.count(texts) != matrix).nnz == 0


def test_forms_join_words_that_plain_counts_apart() -> None:
    plain, _ = Vocabulary.learn(TEXTS)
    stems, _ = Vocabulary.learn(TEXTS, WordCounts(words="stem"))
    lemmas, _ = Vocabulary.learn(TEXTS, WordCounts(words="lemma"))
    assert {"mushroom", "mushrooms"} <= set(plain.words)
    for joined in (stems, lemmas):
        assert "mushroom" in joined.words and "mushrooms" not in joined.words
        assert "haus" in joined.words and "häuser" not in joined.words  # in a text that is seen to be German
    assert "図書" in stems.words and "図書館学" in plain.words


def joined_slowly(words: dict[str, int], size: int) -> list[str]:
    """Byte-pair encoding with all pairs counted anew for every piece."""
    spelled = {word: list(word) for word in words}
    found = sorted({letter for word in words for letter in word})
    for _ in range(size):
        pairs: Counter[tuple[str, str]] = Counter()
        for word, parts in spelled.items():
            for pair in pairwise(parts):
                pairs[pair] += words[word]
        best = min(pairs, key=lambda pair: (-pairs[pair], pair), default=None)
        if best is None or pairs[best] < 2:
            break
        found.append("".join(best))
        for word, parts in spelled.items():
            after: list[str] = []
            for part in parts:
                if after and (after[-1], part) == best:
                    after[-1] += part
                else:
                    after.append(part)
            spelled[word] = after
    return found


def test_pieces_are_those_of_plain_byte_pair_encoding() -> None:
    rng = random.Random(0)
    words = {"".join(rng.choices("abcd", k=rng.randint(1, 9))): rng.randint(1, 6) for _ in range(200)}
    assert learn_pieces(list(words), list(words.values()), 60) == list(dict.fromkeys(joined_slowly(words, 60)))
    assert learn_pieces(["ab", "cd"], [1, 1]) == ["a", "b", "c", "d"]  # what occurs once is no piece


def test_an_unknown_word_is_found_by_its_pieces() -> None:
    texts = ["hochwasser und schutz"] * 3 + ["hochdruck mit wasser"] * 3
    unknown = ["hochdruckwasserschutz"]
    vocabulary, matrix = Vocabulary.learn(texts, WordCounts(words="plain+pieces"))
    assert (vocabulary.count(texts) != matrix).nnz == 0
    assert as_counters(vocabulary, unknown)[0] == Counter({"#hochdruck": 1, "#wasser": 1, "#schutz": 1})
    assert as_counters(vocabulary, ["hochwasser"])[0] == Counter({"hochwasser": 1})  # a whole word needs no pieces
    alone, _ = Vocabulary.learn(texts, WordCounts(words="pieces"))
    assert as_counters(alone, ["wasser ?"])[0] == Counter({"#wasser": 1})
    again = Vocabulary(vocabulary.words, vocabulary.settings)  # as a model that is loaded
    assert (again.count(unknown) != vocabulary.count(unknown)).nnz == 0


def test_an_unknown_compound_is_found_by_its_parts() -> None:
    vocabulary, matrix = Vocabulary.learn(TEXTS, WordCounts(words="stem+compounds"))
    assert (vocabulary.count(TEXTS) != matrix).nnz == 0
    found = as_counters(vocabulary, ["Die Wissenschaftswirtschaft der Stadthäuser"])[0]
    assert found["wirtschaft"] == found["wissenschaft"] == 1 and found["haus"] == found["stadt"] == 1
    whole, _ = Vocabulary.learn(TEXTS, WordCounts(words="stem"))
    assert whole.words == vocabulary.words  # parts are known words: no column is new


def test_the_best_cut_has_the_longest_shorter_part() -> None:
    cutter = CompoundCutter(["stau", "staub", "becken", "ecken"], "plain")
    assert cutter.parts("staubecken", "de") == ("staub", "ecken")
    assert cutter.parts("unbekannt", "de") == ()
    assert CompoundCutter(["regierung", "haus", "dach"], "plain").parts("regierungshausdach", "de") == (
        "regierung",
        "haus",
        "dach",
    )


def test_the_work_of_cutting_grows_with_the_square_of_a_word_not_with_the_ways_to_cut_it() -> None:
    looked_up = 0

    def form(word: str) -> str:
        nonlocal looked_up
        looked_up += 1
        return word

    parts = ["bahn", "bahnhof", "hofs", "hofsbahn", "bahnhofsbahn"]
    run_together = "bahnhofsbahn" * 8  # keywords without the spaces between them, as catalogues have them
    found = CompoundCutter(parts, "plain")._parts(run_together, form)
    assert found == ("bahnhofsbahn",) * 8
    # Where every way to a part is followed, there are four times as many with each part: 300,000 here.
    assert looked_up <= len(run_together) ** 2 / 2
    assert CompoundCutter(parts, "plain").parts("bahnhofsbahn" * 1000, "de") == ()  # no word


@pytest.mark.parametrize("form", ["stem", "lemma", "stem+compounds", "plain+pieces", "chars", "stem+chars"])
@pytest.mark.parametrize("run", ["abcdefghij" * 20_000, "\u56f3\u66f8\u9928" * 20_000])
def test_a_text_without_spaces_is_read_in_bounded_memory_and_forgotten(form: str, run: str) -> None:
    """A file of one long line, or a picture as letters: nothing of it stays in memory, and few n-grams are made."""
    vocabulary, _ = Vocabulary.learn(TEXTS, WordCounts(words=form))
    known = word_forms._forms_of.cache_info().currsize
    remembered = 0 if vocabulary._cutter is None else len(vocabulary._cutter.found)
    vocabulary.count([run])
    assert word_forms._forms_of.cache_info().currsize == known
    assert remembered == (0 if vocabulary._cutter is None else len(vocabulary._cutter.found))
    terms = word_forms.forms_of(run, "de", form)
    assert sum(term.startswith("~") for term in terms) <= 4 * word_forms.LONGEST_RUN


def test_parts_of_words_are_remembered_in_bounded_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(word_forms, "REMEMBERED", 10)
    cutter = CompoundCutter(["bahn", "hofs"], "plain")
    for number in range(100):
        assert cutter.parts(f"bahnhofs{number}", "de") == ()
        assert cutter.parts("bahnhofs", "de") == ("bahn", "hofs")
        assert len(cutter.found) <= 10


def test_n_grams_carry_the_ends_of_the_word() -> None:
    assert grams("ab") == ["~<a", "~ab", "~b>", "~<ab", "~ab>", "~<ab>"]


def test_n_grams_may_be_hashed() -> None:
    vocabulary, matrix = Vocabulary.learn(TEXTS, WordCounts(words="chars", hash_bits=10))
    assert matrix.shape == (len(TEXTS), 1024) and vocabulary.words == ()
    assert (vocabulary.count(TEXTS) != matrix).nnz == 0


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("Die Geschichte der Bibliothek", "de"),
        ("A history of the library", "en"),
        ("Histoire de la bibliothèque et des livres", "fr"),
        ("La storia della biblioteca e il libro", "it"),
        ("Historia de los libros y las bibliotecas", "es"),
        ("Suomen historia ja kieli", "fi"),
        ("Svenska språket och dess historia är en bok", "sv"),
        ("Война и мир", "ru"),
        ("Ἱστορία τῆς βιβλιοθήκης", "el"),
        ("Bibliothek", "xx"),
        ("12 34", "xx"),
    ],
)
def test_the_language_of_a_text(text: str, language: str) -> None:
    assert detect(text, "xx") == language


def test_a_text_without_a_sign_gets_the_language_of_most_texts() -> None:
    assert main_language(["Haus"]) == "en"
    assert main_language(["das Haus", "die Stadt", "the house", "Garten"]) == "de"
    vocabulary, _ = Vocabulary.learn(["Die Häuser", "der Garten", "Bäume"], WordCounts(words="stem"))
    assert vocabulary.settings.main_language == "de" and "baum" in vocabulary.words
    assert set(FUNCTION_WORDS) <= set(STEMMERS)


def test_letters_fold_as_the_language_wants() -> None:
    assert folded("café", "fr") == "cafe" and folded("straße", "de") == "strasse"
    assert folded("häuser", "de") == "häuser" and folded("språk", "sv") == "språk"
    assert lowered("ISPARTA", "tr") == "ısparta" and lowered("ISPARTA", "en") == "isparta"


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"words": "roots"}, "setting 'words' is one of plain, stem, lemma"),
        ({"words": "stem+lemma"}, "setting 'words'"),
        ({"words": "stem", "language": "xx"}, "no stemmer for the language 'xx'"),
        ({"words": "lemma", "language": "xx"}, "no lemmatiser for the language 'xx'"),
        ({"words": "chars", "language": "German"}, "a code such as de"),
        ({"words": "stem+chars", "bigrams": True}, "bigrams=true"),
        ({"words": "compounds", "hash_bits": 12}, "compounds"),
        ({"words": "pieces", "hash_bits": 12}, "pieces"),
        ({"words": "stem+compounds+pieces"}, "two ways to cut words"),
        ({"words": "pieces", "bigrams": True}, "bigrams=true"),
    ],
)
def test_wrong_settings(settings: dict[str, object], problem: str) -> None:
    with pytest.raises(RecipeError, match=re.escape(problem)):
        Parabel(**settings)  # type: ignore[arg-type]


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "snowballstemmer", None)
    with pytest.raises(RecipeError, match=r"pip install \"longtail\[words\]\""):
        Parabel(words="stem")


def test_forms_are_read() -> None:
    assert read_forms("stem+chars") == ("stem", {"chars"})
    assert read_forms("chars") == ("", {"chars"}) and read_forms("compounds") == ("plain", {"compounds"})


def test_saved_features_read_the_same_forms(tiny: Corpus) -> None:
    train = tiny.train
    features, rows = Features.learn(train, WordCounts(words="stem+chars"))
    again = Features.restore(features.state())
    assert (again.of(train.rows) != rows).nnz == 0
    model = Bm25(words="stem+compounds").fit(train, train, ())
    back = Bm25Scorer.restore(model.state())
    for one, other in zip(model.top(train.rows, 3), back.top(train.rows, 3), strict=True):
        assert np.array_equal(one, other)
