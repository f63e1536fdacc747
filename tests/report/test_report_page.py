import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from report_sample import sample_corpus, sample_result
from scipy import sparse

from longtail.errors import DataError
from longtail.report.page import render, write
from longtail.report.result import Result

VOID = {"meta", "link", "input", "br", "hr", "wbr"}


class Outline(HTMLParser):
    """Checks that tags nest, and keeps what a test asks about."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.tags: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        attributes = dict(attrs)
        assert not any(name.startswith("on") for name in attributes), attrs
        self.ids += [attributes["id"] or ""] if "id" in attributes else []
        self.links += [attributes[name] or "" for name in ("href", "src") if name in attributes]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def outline(html: str) -> Outline:
    parser = Outline()
    parser.feed(html)
    assert parser.open == []
    assert len(parser.ids) == len(set(parser.ids))
    return parser


def page(results: list[Result], corpus: object, command: str = "longtail compare x") -> str:
    return render(results, corpus, command=command, versions={"longtail": "0.1.0"})  # type: ignore[arg-type]


@pytest.mark.parametrize("number", [1, 2, 9])
def test_page_is_one_well_formed_file_that_needs_nothing_else(number: int) -> None:
    corpus = sample_corpus()
    results = [sample_result(f"recipe {one}", corpus, seed=one) for one in range(number)]
    html = page(results, corpus)
    seen = outline(html)
    for part in ("table", "bins", "cost", "never", "examples", "data", "repeat"):
        assert part in seen.ids and f"#{part}" in seen.links
    assert ("tradeoff" in seen.ids) == (number > 1)
    assert all(link.startswith(("#", "data:image/svg+xml,", "data:text/csv")) for link in seen.links)
    assert not re.search(r"@import|url\(", html)
    assert "sample" in html and "A=0.55, B=1.5" in html and "held out by hand" in html
    for one in results:
        assert one.measures["P@1"] is not None and f"{one.measures['P@1']:.1f}" in html


def test_same_results_give_the_same_page() -> None:
    corpus = sample_corpus()
    results = [sample_result("a", corpus), sample_result("b", corpus, seed=1)]
    assert page(results, corpus) == page(results, corpus)


def test_what_users_wrote_never_becomes_markup() -> None:
    corpus = sample_corpus(hostile=True)
    names = ['"><script>alert(1)</script>', "it's </title><b>", "<img src=x onerror=alert(1)>", "<examples>"]
    results = [sample_result(name, corpus, seed=seed) for seed, name in enumerate(names)]
    html = page(results, corpus, command="longtail compare '<script>' \"</code>\"")
    seen = outline(html)
    assert seen.tags.count("script") == 4  # theme, two of data, page
    assert "img" not in seen.tags and "examples" not in seen.tags
    html.encode("utf-8")
    assert "\x00" not in html and "\x1b" not in html


def test_long_texts_and_many_recipes_stay_under_two_megabytes() -> None:
    corpus = sample_corpus(rows=400, labels=1500, words=3000)
    wordy = replace(corpus.labels, texts=tuple(f"{row} " + "語" * 400 for row in range(1500)))
    long_texts = tuple("語" * 5000 for _ in range(400))
    corpus = replace(
        corpus,
        train=corpus.train.over(wordy),
        valid=corpus.valid.over(wordy),
        test=replace(corpus.test.over(wordy), texts=long_texts),
    )
    results = [sample_result(f"recipe {seed} " + "x" * 300, corpus, seed=seed) for seed in range(8)]
    html = page(results, corpus)
    assert len(html.encode("utf-8")) < 2_000_000
    assert html.count('"differ":') > 100


def test_documents_without_texts_and_labels_without_words() -> None:
    corpus = sample_corpus()
    features = sparse.csr_array(np.ones((len(corpus.test), 2), dtype=np.float32))
    plain = replace(corpus.labels, texts=("",) * len(corpus.labels))
    corpus = replace(
        corpus,
        train=corpus.train.over(plain),
        valid=corpus.valid.over(plain),
        test=replace(corpus.test.over(plain), texts=None, features=features),
    )
    html = page([sample_result("a", corpus)], corpus)
    outline(html)
    assert '["L0",' in html


def test_test_split_without_true_labels_or_documents() -> None:
    corpus = sample_corpus()
    result = sample_result("a", corpus)
    silent = replace(
        corpus, test=replace(corpus.test, targets=sparse.csr_array(corpus.test.targets.shape, dtype=np.float32))
    )
    assert "no true labels" in page([result], silent)
    empty = replace(corpus, test=corpus.test.take([]))
    html = page(
        [
            replace(
                result,
                predictions=replace(result.predictions.top(0), indices=np.zeros((0, 5)), scores=np.zeros((0, 5))),
            )
        ],
        empty,
    )
    outline(html)


def test_results_that_do_not_belong_to_the_data_are_refused() -> None:
    corpus, other = sample_corpus(), sample_corpus(rows=20)
    with pytest.raises(DataError, match="at least one recipe"):
        page([], corpus)
    with pytest.raises(DataError, match="'a' has predictions for 20 documents, but the test split of sample has 120"):
        page([sample_result("a", other)], corpus)
    with pytest.raises(DataError, match="predicts 80 labels, but sample has 60"):
        page([sample_result("a", sample_corpus(labels=80))], corpus)


def test_write_replaces_the_file_at_once_and_leaves_nothing_behind(tmp_path: Path) -> None:
    target = tmp_path / "new" / "report.html"
    write(target, "one")
    write(target, "two ✓")
    assert target.read_text(encoding="utf-8") == "two ✓"
    assert [path.name for path in target.parent.iterdir()] == ["report.html"]


def test_write_says_where_it_could_not(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(DataError, match=re.escape(str(tmp_path / "file" / "report.html"))):
        write(tmp_path / "file" / "report.html", "x")
    (tmp_path / "folder" / "inside").mkdir(parents=True)
    with pytest.raises(DataError, match="cannot be written"):
        write(tmp_path / "folder", "x")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "folder"]
