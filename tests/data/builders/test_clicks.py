"""Click logs in ORCAS's format and others, with titles by stream and by offset; results worked by hand."""

from __future__ import annotations

import gzip
import json
import random
from collections import Counter
from pathlib import Path

import pytest

from longtail.data.builders.click_titles import url_words
from longtail.data.builders.clicks import ClickSettings, build_clicks
from longtail.data.corpus import Corpus, hashed
from longtail.data.labels import Propensity
from longtail.data.read import load
from longtail.errors import DataError

LINES = [
    "10103699\twhy is the sky blue\tD1968574\thttp://www.sciencemadesimple.com/sky_blue.html",
    "10103699\twhy is the sky blue\tD2\thttps://en.wikipedia.org/wiki/Sky",
    "10103700\tsky\tD2\thttps://en.wikipedia.org/wiki/Sky",
    "10103701\tblue  sky\tD2\thttps://en.wikipedia.org/wiki/Sky",
    "10103702\tonly rare\tD3\thttp://example.org/rare.html",
    "10103703\tcolour of the sky\tD1968574\thttp://www.sciencemadesimple.com/sky_blue.html",
]


def log(path: Path, lines: list[str]) -> Path:
    path.write_bytes(gzip.compress("".join(line + "\n" for line in lines).encode()))
    return path


def build(
    folder: Path, path: Path, *, titles: Path | None = None, lookup: Path | None = None, **options: object
) -> Corpus:
    settings = ClickSettings(**options)  # type: ignore[arg-type]
    build_clicks(
        path, folder / "built", settings, titles=titles, lookup=lookup, propensity=Propensity(), accepted=True,
        overwrite=True,
    )  # fmt: skip
    return load(folder / "built", valid_share=0)


def rows_of(corpus: Corpus, *splits: str) -> dict[str, dict[str, float]]:
    found = {}
    for split in splits or ("train", "test"):
        data = getattr(corpus, split)
        for row, text in enumerate(data.texts or ()):
            one = data.targets[[row]]
            found[text] = {corpus.labels.texts[label]: float(w) for label, w in zip(one.indices, one.data, strict=True)}
    return found


def test_orcas_by_hand(tmp_path: Path) -> None:
    """D3 has one click: it is no label, and its query goes. D1968574 has no title: the words of its URL."""
    titles = tmp_path / "docs.tsv"
    titles.write_text("D2\thttps://en.wikipedia.org/wiki/Sky\tSky -  Wikipedia\tThe sky is ...\nD9\tu\tother\tbody\n")
    corpus = build(tmp_path, log(tmp_path / "orcas.tsv.gz", LINES), titles=titles, least=2, test=0.001)
    sky, simple = "Sky - Wikipedia", "sciencemadesimple sky blue"
    assert dict(zip(corpus.labels.ids, corpus.labels.texts, strict=True)) == {"D2": sky, "D1968574": simple}
    assert rows_of(corpus) == {
        "why is the sky blue": {sky: 1, simple: 1}, "sky": {sky: 1}, "blue sky": {sky: 1},
        "colour of the sky": {simple: 1},
    }  # fmt: skip
    facts = json.loads((tmp_path / "built" / "corpus.json").read_text())
    assert facts["name"] == "orcas" and "MS MARCO" in facts["licence"] and facts["propensity"] == {"a": 0.55, "b": 1.5}


def test_titles_by_their_offsets_are_those_of_the_stream(tmp_path: Path) -> None:
    titles, lookup = tmp_path / "msmarco-docs.tsv", tmp_path / "msmarco-docs-lookup.tsv.gz"
    lines = [f"D{number}\thttp://x.org/{number}\tTitle é {number}\tbody {'long ' * 2000}" for number in (7, 2, 1968574)]
    offsets, at = [], 0
    for line in lines:
        offsets.append(f"{line.split(chr(9))[0]}\t999\t{at}\n")
        at += len(line.encode()) + 1
    titles.write_text("\n".join(lines) + "\n")
    lookup.write_bytes(gzip.compress("".join(offsets).encode()))
    path = log(tmp_path / "orcas.tsv.gz", LINES)
    streamed = build(tmp_path, path, titles=titles, least=1)
    found = build(tmp_path, path, titles=titles, lookup=lookup, least=1)
    assert found.labels.texts == streamed.labels.texts
    assert {"Title é 2", "Title é 1968574", "example rare"} == set(found.labels.texts)

    lookup.write_bytes(gzip.compress("".join(offsets).replace("\t0\n", "\t5\n").encode() + b"D2\t9\t3\n"))
    with pytest.raises(DataError, match="has no document 'D2' at byte 3, where the offsets say"):
        build(tmp_path, path, titles=titles, lookup=lookup, least=1)


def test_a_log_of_two_or_three_columns(tmp_path: Path) -> None:
    plain = tmp_path / "log.tsv"
    plain.write_text("red\ta\t3\nred\tb\t1\nblue\ta\t1\nred\ta\t1\n")
    corpus = build(tmp_path, plain, least=1, test=0.001, counts=True)
    assert rows_of(corpus) == {"red": {"a": 1.0, "b": 0.25}, "blue": {"a": 1.0}}
    plain.write_text("red\ta\nred\tb\nblue\ta\nred\ta\n")
    corpus = build(tmp_path, plain, least=2, test=0.001)
    assert rows_of(corpus) == {"red": {"a": 1.0}, "blue": {"a": 1.0}}
    plain.write_text("9\tred\tx\ta\n8\tblue\tx\ta\n")
    corpus = build(tmp_path, plain, least=1, test=0.001, columns="-,query,-,item")
    assert rows_of(corpus) == {"red": {"a": 1.0}, "blue": {"a": 1.0}}
    assert corpus.name == "built"


def test_many_clicks_against_a_plain_reference(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Several buckets and pieces; the split is the seeded hash of the query, labels need a train query."""
    rng = random.Random(0)
    pairs = [(f"query {rng.randint(0, 300)}", f"D{int(200 * rng.random() ** 2)}") for _ in range(2000)]
    plain = log(tmp_path / "log.tsv.gz", [f"{query}\t{item}" for query, item in pairs])
    monkeypatch.setattr("longtail.data.builders.buckets.BUCKET", 10_000)
    monkeypatch.setattr("longtail.data.files.CHUNK", 1000)
    corpus = build(tmp_path, plain, least=5, test=0.3, seed=4)
    assert corpus.labels.ids == corpus.labels.texts, "a label has the id of its document, in every bucket"
    clicks = Counter(item for _, item in pairs)
    test = {query for query, _ in pairs if hashed([query], 4)[0] < int(0.3 * 2**64)}
    labels = {item for query, item in pairs if query not in test and clicks[item] >= 5}
    wanted: dict[str, dict[str, set[str]]] = {"train": {}, "test": {}}
    for query, item in pairs:
        if item in labels:
            wanted["test" if query in test else "train"].setdefault(query, set()).add(item)
    assert set(corpus.labels.texts) == labels and len(labels) > 50
    for split, rows in wanted.items():
        assert {text: set(found) for text, found in rows_of(corpus, split).items()} == rows


def test_a_header_is_no_click(tmp_path: Path) -> None:
    plain = tmp_path / "log.tsv"
    plain.write_text("Query\titem\nred\ta\nquery\ta\n")
    done = build_clicks(plain, tmp_path / "out", ClickSettings(least=1, test=0.001), propensity=Propensity())
    assert rows_of(load(tmp_path / "out", valid_share=0)) == {"red": {"a": 1.0}, "query": {"a": 1.0}}
    assert done.counts["log lines"] == 2


def test_few_lines_in_another_encoding_are_left_out(tmp_path: Path) -> None:
    plain = tmp_path / "log.tsv"
    titles = tmp_path / "titles.tsv"
    plain.write_bytes(b"caf\xe9\ta\n" + b"".join(b"query %d\ta\n" % number for number in range(1000)))
    titles.write_bytes(b"a\tcaf\xe9\n" + b"".join(b"x%d\tcaf\xc3\xa9\n" % number for number in range(1000)))
    done = build_clicks(plain, tmp_path / "out", ClickSettings(), titles=titles, propensity=Propensity())
    assert f"1 of 1,001 lines were left out; the first: {plain}:1: the line is not UTF-8" in done.notes
    assert f"1 of 1,001 lines were left out; the first: {titles}:1: the title is not UTF-8" in done.notes
    assert done.counts["train"] + done.counts["test"] == 1000
    assert load(tmp_path / "out", valid_share=0).labels.texts == ("a",)
    plain.write_text("query\ta\n" * 9, encoding="utf-16")
    with pytest.raises(DataError, match=r"log\.tsv: this is UTF-16, not UTF-8; .*convert it: iconv"):
        build(tmp_path, plain)
    plain.write_bytes(b"")
    with pytest.raises(DataError, match=r"log\.tsv: is empty"):
        build(tmp_path, plain)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["one"], "the first line has 1 column,"),
        (["a\tb\tc\td\te"], "the first line has 5 columns"),
        (["a\tb", "a\tb\tc"], r"log\.tsv\.gz:2: 3 columns instead of 2; 1 of 2 lines are damaged"),
        (["a\tb\t1", "a\tb\tx"], r"log\.tsv\.gz:2: clicks are 'x'"),
        (["a\tb", "a\t"], "the query or the item is empty"),
        (["a\tb"], "no document has 3 clicks"),
    ],
)
def test_wrong_lines_are_named(tmp_path: Path, lines: list[str], message: str) -> None:
    with pytest.raises(DataError, match=message):
        build(tmp_path, log(tmp_path / "log.tsv.gz", lines))


def test_the_other_files_of_orcas_are_not_taken_for_its_clicks(tmp_path: Path) -> None:
    """Their columns are as many as those of a log; the set would be of numbers."""
    for name, line, message in (
        ("orcas-doctrain-qrels.tsv.gz", "10103699 0 D1968574 1", r"qrels\.tsv\.gz:1: these are judgements.*give orcas"),
        ("orcas-doctrain-qrels.tsv.gz", "10103699\t0\tD1968574\t1", "these are judgements"),
        ("orcas-doctrain-queries.tsv.gz", "10103699\twhy is the sky blue", "these are queries without clicks"),
    ):
        with pytest.raises(DataError, match=message):
            build(tmp_path, log(tmp_path / name, [line] * 9))
    numbers = build(tmp_path, log(tmp_path / "log.tsv.gz", ["2024\tcalendar"] * 3), test=0.001)
    assert rows_of(numbers) == {"2024": {"calendar": 1.0}}, "a log may ask for a number"
    words = build(tmp_path, log(tmp_path / "log.tsv.gz", ["query 0\titem 1"] * 3), test=0.001)
    assert rows_of(words) == {"query 0": {"item 1": 1.0}}, "four words are not four columns"


def test_other_faults_are_told(tmp_path: Path) -> None:
    path = log(tmp_path / "orcas.tsv.gz", LINES)
    with pytest.raises(DataError, match="--accept-licence"):
        build_clicks(path, tmp_path / "built", ClickSettings(), propensity=Propensity())
    others = [log(tmp_path / name, LINES) for name in ("docs.tsv.gz", "lookup.tsv.gz")]
    with pytest.raises(DataError, match="unpacked"):
        build(tmp_path, path, titles=others[0], lookup=others[1])
    with pytest.raises(DataError, match="given twice"):
        build(tmp_path, path, titles=path)
    with pytest.raises(DataError, match="--test must be between 0 and 1"):
        build(tmp_path, path, test=1.0)
    with pytest.raises(DataError, match="--columns takes query, item"):
        build(tmp_path, path, columns="query,query,item,url")
    path.write_bytes(gzip.compress(b"caf\xe9\td1\n"))
    with pytest.raises(DataError, match=r"orcas\.tsv\.gz:1: the line is not UTF-8; 1 of 1 lines"):
        build(tmp_path, path)
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(DataError, match="ends too early"):
        build(tmp_path, path)


def test_words_of_a_url() -> None:
    assert url_words("http://www.sciencemadesimple.com/sky_blue.html") == "sciencemadesimple sky blue"
    assert url_words("https://a.org/caf%C3%A9?id=3") == "a café"
    assert url_words("http://[broken") == "http broken"
