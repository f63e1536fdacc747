"""See-also references out of a hand-written dump in the format of pages-articles, and of manual pages."""

from __future__ import annotations

import bz2
import gzip
import json
from pathlib import Path

import pytest

from longtail.data.builders.article_graph import resolve
from longtail.data.builders.keys import KeyTable, keys_of
from longtail.data.builders.manpages import find_manpages, read_manpage
from longtail.data.builders.seealso import SeeAlsoSettings, build_seealso
from longtail.data.builders.wikitext import heading, links_of, plain, title_of, without_section
from longtail.data.corpus import Corpus
from longtail.data.labels import Propensity
from longtail.data.read import load
from longtail.errors import DataError

HEAD = '<mediawiki xmlns="http://www.mediawiki.org/xml/export-0.11/" xml:lang="en">\n  <siteinfo>\n  </siteinfo>\n'
FOOT = "</mediawiki>\n"


def page(title: str, text: str = "", ns: int = 0, redirect: str = "") -> str:
    def escaped(one: str) -> str:
        return one.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace('"', "&quot;")

    to = f'    <redirect title="{escaped(redirect)}" />\n' if redirect else ""
    return (
        f"  <page>\n    <title>{escaped(title)}</title>\n    <ns>{ns}</ns>\n    <id>7</id>\n{to}    <revision>\n"
        f'      <id>9</id>\n      <text bytes="{len(text)}" xml:space="preserve">{escaped(text)}</text>\n'
        "    </revision>\n  </page>\n"
    )


def article(title: str, *links: str, more: str = "") -> str:
    items = "".join(f"* [[{link}]]\n" for link in links)
    return page(title, f"'''{title}''' is [[a thing|something]].{more}\n== See also ==\n{items}\n== References ==\nx")


PAGES = [
    article("Sky", "Cloud", "Blue sky", "Sky", "Missing", "Category:Air"),
    article("Cloud", "sky", "Rain#Types|kinds of rain"),
    article("Rain", "Cloud", "Snow"),
    article("Snow", "rain", "Portal:Weather"),
    article("Blue", "Sky", "Colour"),
    article("Café & <Bar>", "Colour", "Cloud"),
    page("Colour", "Hue.\n== See also ==\nNothing."),
    page("Blue sky", "#REDIRECT [[Blue]]", redirect="Blue"),
    page("Double", "", redirect="Blue sky"),
    page("Talk:Sky", "== See also ==\n* [[Cloud]]", ns=1),
    page("Mercury (disambiguation)", "== See also ==\n* [[Cloud]]"),
    article("List of clouds", "Cloud"),
]


def build(folder: Path, source: Path, name: str = "built", **options: object) -> Corpus:
    processes = options.pop("processes", None)
    settings = SeeAlsoSettings(**{"seed": 10, **options})  # type: ignore[arg-type]
    build_seealso(
        source, folder / name, settings, manpages=source.is_dir(), propensity=Propensity(), overwrite=True,
        processes=processes,  # type: ignore[arg-type]
    )  # fmt: skip
    return load(folder / name, valid_share=0)


def rows_of(corpus: Corpus) -> dict[str, set[str]]:
    return {
        name: {corpus.labels.texts[label] for label in data.targets[[row]].indices}
        for data in (corpus.train, corpus.test)
        for row, name in enumerate(data.ids)
    }


def excluded_of(corpus: Corpus) -> set[tuple[str, str]]:
    return {
        (data.ids[row], corpus.labels.texts[label])
        for data in (corpus.train, corpus.test)
        if data.excluded is not None
        for row, label in zip(*data.excluded.nonzero(), strict=True)
    }


REFERENCES = {
    "Sky": {"Cloud", "Blue"},  # "Blue sky" is a redirect; "Missing" and Category:Air are no articles
    "Cloud": {"Sky", "Rain"},
    "Rain": {"Cloud", "Snow"},
    "Snow": {"Rain"},
    "Blue": {"Sky", "Colour"},
    "Café & <Bar>": {"Colour", "Cloud"},
}


def expected(
    test: set[str], references: dict[str, set[str]] = REFERENCES
) -> tuple[dict[str, set[str]], set[tuple[str, str]]]:
    """What the references give, where these pages are test: rows, and excluded pairs."""
    train = {row: set(found) for row, found in references.items() if row not in test}
    labels = set().union(*train.values())
    rows = dict(train)
    excluded = set()
    for row in test:
        backwards = {b for b, found in train.items() if row in found}
        left = (references[row] & labels) - backwards
        if left:
            rows[row] = left
            excluded |= {(row, b) for b in backwards & labels}
    return rows, excluded | {(row, row) for row in rows if row in labels}


@pytest.mark.parametrize("seed", [2, 3, 7, 9, 10, 13, 19])
def test_a_dump_by_hand(tmp_path: Path, seed: int) -> None:
    dump = tmp_path / "xxwiki-20240101-pages-articles.xml"
    dump.write_text(HEAD + "".join(PAGES) + FOOT)
    corpus = build(tmp_path, dump, seed=seed, test=0.4)
    test = set(corpus.test.ids)
    rows, excluded = expected(set(REFERENCES) - set(corpus.train.ids))
    assert rows_of(corpus) == rows and test == rows.keys() - set(corpus.train.ids)
    assert excluded_of(corpus) == excluded
    assert set(corpus.labels.texts) == set().union(*(rows[name] for name in corpus.train.ids))
    assert corpus.labels.ids == corpus.labels.texts, "a label's id is its title"
    assert corpus.name == "xxwiki-20240101-seealso"
    assert not any("See also" in text or "[[" in text for text in corpus.train.texts or ())
    for name, text in zip(corpus.train.ids, corpus.train.texts or (), strict=True):
        assert text == f"{name} {name.replace(' <Bar>', '')} is something. References x"


def packings(folder: Path) -> dict[str, Path]:
    """The same pages: plain, one stream, a stream of two pages each, and streams that cut pages anywhere."""
    text = (HEAD + "".join(PAGES) + FOOT).encode()
    multi = [HEAD.encode(), *("".join(PAGES[at : at + 2]).encode() for at in range(0, 12, 2)), FOOT.encode()]
    cut = [text[at : at + 777] for at in range(0, len(text), 777)]
    made = {
        "plain.xml": text,
        "one.xml.bz2": bz2.compress(text),
        "multistream.xml.bz2": b"".join(map(bz2.compress, multi)),
        "cut.xml.bz2": b"".join(map(bz2.compress, cut)),
        "gzip.xml.gz": gzip.compress(text),
    }
    for name, data in made.items():
        (folder / name).write_bytes(data)
    return {name: folder / name for name in made}


@pytest.mark.parametrize("sizes", ["usual", "tiny pieces", "tiny pieces, long streams"])
def test_every_packing_gives_the_same(tmp_path: Path, sizes: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if sizes != "usual":
        monkeypatch.setattr("longtail.data.builders.wiki_dump.PACKED", 100)
        monkeypatch.setattr("longtail.data.builders.wiki_dump.UNPACKED", 300)
        monkeypatch.setattr("longtail.data.files.CHUNK", 300)
    if "long" in sizes:
        monkeypatch.setattr("longtail.data.builders.wiki_dump.LONG_STREAM", 200)
    found = {name: build(tmp_path, path, test=0.4) for name, path in packings(tmp_path).items()}
    first = found["plain.xml"]
    for name, corpus in found.items():
        assert rows_of(corpus) == rows_of(first) and corpus.labels == first.labels, name
        assert excluded_of(corpus) == excluded_of(first)


def test_two_processes_give_the_same(tmp_path: Path) -> None:
    dump = packings(tmp_path)["multistream.xml.bz2"]
    one, two = (build(tmp_path, dump, str(number), test=0.4, processes=number) for number in (1, 2))
    assert rows_of(one) == rows_of(two) and one.train.texts == two.train.texts


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda data: data[:-40], "ends in the middle of a stream"),
        (lambda data: data[:200] + b"\0" * 40 + data[240:], "damaged bzip2 data"),
        (lambda data: b"PK" + data, "is not bzip2 data"),
        (lambda data: bz2.compress(b" " * (1 << 22)), "unpacks to far more than a dump"),
        (lambda data: bz2.compress(bz2.decompress(data)[:-20]), "ends too early, without </mediawiki>"),
        (lambda data: bz2.compress(bz2.decompress(data)[:1500]), "ends too early"),
        (lambda data: bz2.compress(b"<html></html>"), "no page of a wiki is in it"),
        (lambda data: bz2.compress(HEAD.encode()), "ends too early"),
        (lambda data: bz2.compress(bz2.decompress(data).replace(b"<title>Sky</title>", b"")), "a page without title"),
        (lambda data: bz2.compress(bz2.decompress(data).replace(b"<title>Sky", b"<title>S\nky")), "without title"),
        (lambda data: bz2.compress(bz2.decompress(data).replace(b"== See also ==", b"==No==")), "--section"),
    ],
)
def test_damaged_dumps_are_refused(
    tmp_path: Path, change: object, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert callable(change)
    monkeypatch.setattr("longtail.data.builders.wiki_dump.MAX_UNPACKED", 1 << 22)
    dump = tmp_path / "wiki.xml.bz2"
    dump.write_bytes(change(bz2.compress((HEAD + "".join(PAGES) + FOOT).encode())))
    with pytest.raises(DataError, match=message):
        build(tmp_path, dump)


def test_labels_with_words_and_another_section(tmp_path: Path) -> None:
    dump = tmp_path / "dewiki.xml"
    dump.write_text((HEAD + "".join(PAGES) + FOOT).replace("See also", "Siehe  auch"))
    corpus = build(tmp_path, dump, section="siehe auch", label_words=3, test=0.4)
    assert "Sky Sky is something." in corpus.labels.texts


def test_links_that_are_no_see_also_references(tmp_path: Path) -> None:
    """Hatnotes, other namespaces and languages, other templates; a list may be a label, and refers to nothing."""
    hatnote = page("Ice", "{{See also|Cloud|Rain}} Water.\n== Forms ==\n{{see also|Snow}}\n* [[Rain]]\n")
    items = ["[[fr:Ciel]]", "[[:Wikipedia:Rain]] [[File:Sky.jpg]]", "{{anl|Rain}}", "{{annotated link | snow }}"]
    items = [f"* {item}" for item in [*items, "[[List of clouds]]"]]
    odd = page("Fog", "\n".join(["== See also ==", "{{Portal|Sky}}", "{{div col}}", *items, "{{div col end}}"]))
    unclear = page("Mist", "{{Disambiguation}}\n== See also ==\n* [[Rain]]")
    dump = tmp_path / "xxwiki.xml"
    dump.write_text(HEAD + "".join([*PAGES, hatnote, odd, unclear]) + FOOT)
    corpus = build(tmp_path, dump, test=0.4)
    references = {**REFERENCES, "Fog": {"Rain", "Snow", "List of clouds"}}
    rows, _ = expected(references.keys() - set(corpus.train.ids), references)
    assert rows_of(corpus) == rows and "Fog" in corpus.train.ids and len(corpus.test)


def test_markup() -> None:
    item = "* [[:a_b|shown]], {{Annotated link|Water cycle}} <!-- [[no]] --> [[#Part]] [[c#d]]\ntext [[not an item]]\n"
    assert links_of(item + "{{div col}}\n# [[e]]\n{{div col end}}") == ["A b", "Water cycle", "C", "E"]
    assert title_of(" el  niño_x") == "El niño x"
    rest, section = without_section("a\n==see  Also==\nb\n=== c ===\nd\n==e==\nf", heading("See also"))
    assert (rest, section) == ("a\n==e==\nf", "\nb\n=== c ===\nd\n")
    commented = "a\n== See also == <!-- keep --> <!-- sorted -->\r\nb\r\n==e==\nf"
    assert without_section(commented, heading("See also")) == ("a\n==e==\nf", "\nb\r\n")
    twice = "a\n== See also ==\n* [[b]]\n==c==\nd\n==See also==\n* [[e]]"  # else the text would name the label e
    assert without_section(twice, heading("See also")) == ("a\n==c==\nd\n", "\n* [[b]]\n\n* [[e]]")
    assert without_section("a === See also ===", heading("See also")) == ("a === See also ===", "")
    markup = (
        "{{Infobox|a={{b|{{c}}}}}}'''Rome''' [[File:x.jpg|thumb|[[a]] b]]is [[Capital city|the ''capital'']] of "
        "[[Italy]].<ref name=x>no</ref><ref name=x/>\n{| class=x\n| cell\n|}\n== Past ==\n"
        "* founded&nbsp;long [http://x.org ago]<br/><!-- no"
    )
    assert plain(markup, 99) == "Rome is the capital of Italy. Past founded long ago"
    assert plain(markup, 2) == "Rome is"


LS = r""".\" a comment with printf(3)
.TH LS "1" "June"
.de XX
.SH SEE ALSO
junk(1)
..
.SH NAME
ls \- list directory contents
.SH DESCRIPTION
.PP
List \fBinformation\fP about the FILEs, see also nothing(9).
.TP
\fB\-a\fR, \fB\-\-all\fR
do not ignore entries
.SH "SEE ALSO"
.BR dir (1),
\fBopenssl\-x509\fR\|(1), stat(2)
.Xr sort 1 ,
and gone(1)
.SH AUTHOR
someone
"""


def manual(folder: Path) -> Path:
    (folder / "man1").mkdir(parents=True)
    (folder / "man2").mkdir()
    (folder / "de" / "man1").mkdir(parents=True)
    page = ".TH X 1\n.SH NAME\n{name} \\- what {name} does\n.SH SEE ALSO\n.BR ls (1), \\fBstat\\fR(2), sort(1)\n"
    (folder / "man1" / "ls.1.gz").write_bytes(gzip.compress(LS.encode()))
    (folder / "de" / "man1" / "ls.1.gz").write_bytes(gzip.compress(LS.encode()))
    for name, path in {"dir": "man1/dir.1", "sort": "man1/sort.1", "openssl-x509": "man1/openssl-x509.1ssl"}.items():
        (folder / path).write_text(page.format(name=name))
    (folder / "man2" / "newstat.2").write_text(page.format(name="newstat"))
    (folder / "man2" / "stat.2").write_text(".so man2/newstat.2\n")
    (folder / "man1" / "vdir.1").symlink_to("dir.1")
    (folder / "man1" / "listing.1x").write_bytes((folder / "man1" / "dir.1").read_bytes())  # a copy
    (folder / "man1" / "latin.1").write_bytes(page.format(name="caf\xe9").encode("latin-1"))
    return folder


def test_a_manual_page_by_hand(tmp_path: Path) -> None:
    folder = manual(tmp_path / "man")
    [ls] = read_manpage(folder / "man1" / "ls.1.gz", 20)
    assert ls.title == "ls(1)" and ls.label == "ls - list directory contents"
    assert ls.links == ("dir(1)", "openssl-x509(1)", "stat(2)", "sort(1)", "gone(1)")
    assert ls.text.startswith("ls - list directory contents List information about the FILEs, see also nothing(9).")
    assert "dir" not in ls.text.split() and "-a, --all do not" in ls.text
    pages = {path.name: (path, stands_for) for batch in find_manpages(folder) for path, stands_for in batch}

    def leads(name: str) -> list[tuple[str, str | None]]:
        path, stands_for = pages[name]
        return [(one.title, one.redirect) for one in read_manpage(path, 9, stands_for)]

    assert leads("vdir.1") == [("vdir(1)", "dir(1)")]
    assert leads("listing.1x") == [("listing(1)", "dir(1)"), ("listing(1x)", "dir(1)")]  # each over one redirect
    assert leads("dir.1") == [("dir(1)", None)] and leads("stat.2") == [("stat(2)", "newstat(2)")]
    [alias, x509] = read_manpage(folder / "man1" / "openssl-x509.1ssl", 9)
    assert (alias.title, alias.redirect, x509.title) == ("openssl-x509(1)", "openssl-x509(1ssl)", "openssl-x509(1ssl)")
    assert next(read_manpage(folder / "man1" / "latin.1", 9)).label == "café - what café does"


def test_a_set_of_manual_pages(tmp_path: Path) -> None:
    corpus = build(tmp_path, manual(tmp_path / "man"), test=0.5, seed=18)
    assert set(corpus.test.ids) == {"dir(1)", "latin(1)"} and "ls(1)" in corpus.train.ids
    stat, ls, sort = "newstat - what newstat does", "ls - list directory contents", "sort - what sort does"
    rows = rows_of(corpus)
    assert rows["ls(1)"] == {stat, sort, "dir - what dir does", "openssl-x509 - what openssl-x509 does"}
    assert rows["dir(1)"] == {stat, sort}  # not ls, which refers to it
    assert corpus.labels.texts[corpus.labels.ids.index("newstat(2)")] == stat
    assert excluded_of(corpus) >= {("dir(1)", ls), ("dir(1)", "dir - what dir does"), ("ls(1)", ls)}
    facts = json.loads((tmp_path / "built" / "corpus.json").read_text())
    assert facts["name"] == "manpages-seealso" and facts["licence"] == "each page's own"


def test_manual_pages_that_cannot_be_read_are_counted(tmp_path: Path) -> None:
    """One of 1,100 is left out and named; more would be refused."""
    folder = manual(tmp_path / "man")
    for number in range(1100):
        (folder / "man2" / f"x{number}.2").write_text(".TH X 2\n.SH NAME\nx\n")
    (folder / "man1" / "broken.1.gz").write_bytes(gzip.compress(LS.encode())[:-9])
    settings = SeeAlsoSettings(seed=18, test=0.5)
    done = build_seealso(folder, tmp_path / "out", settings, manpages=True, propensity=Propensity())
    assert "1 of 1,1" in done.notes[0] and "broken.1.gz: cannot be read" in done.notes[0]
    (folder / "man1" / "bomb.1.gz").write_bytes(gzip.compress(b" " * (1 << 25)))
    with pytest.raises(DataError, match=r"2 of 1,1\d\d pages are damaged"):
        build_seealso(folder, tmp_path / "again", settings, manpages=True, propensity=Propensity())


def test_no_manual_pages(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no such folder"):
        build_seealso(tmp_path / "x", tmp_path / "o", SeeAlsoSettings(), manpages=True, propensity=Propensity())
    with pytest.raises(DataError, match="has no manual pages such as man1/ls"):
        build_seealso(tmp_path, tmp_path / "o", SeeAlsoSettings(), manpages=True, propensity=Propensity())


def test_the_graph_against_a_plain_reference(tmp_path: Path) -> None:
    """Random links and redirects; the split is read back, everything else is computed a second way."""
    import random

    import numpy as np

    rng = random.Random(3)
    titles = [f"t{number}" for number in range(120)]
    redirects = {f"r{number}": rng.choice([*titles, f"r{number + 1}", "gone"]) for number in range(30)}
    links = [(rng.choice(titles), rng.choice([*titles, *redirects, "nowhere"])) for _ in range(500)]
    (tmp_path / "graph").mkdir()
    (tmp_path / "articles").write_bytes(keys_of([one.encode() for one in titles]).tobytes())
    (tmp_path / "titles").write_text("".join(f"{one}\n" for one in titles))
    for name, pairs in (("redirects", list(redirects.items())), ("links", links)):
        (tmp_path / name).write_bytes(keys_of([one.encode() for pair in pairs for one in pair]).tobytes())
    resolve(tmp_path, 0.3, 5, 2, tmp_path, tmp_path / "graph")
    title = dict(zip(keys_of([one.encode() for one in titles]).tolist(), titles, strict=True))

    def read(name: str) -> set[tuple[str, str]]:
        return {(title[a], title[b]) for a, b in np.load(tmp_path / "graph" / f"{name}.npy").tolist()}

    pairs = {(a, b if b in titles else redirects.get(b, "")) for a, b in links}
    pairs = {(a, b) for a, b in pairs if b in titles and a != b}
    train_rows = {a for a, _ in read("train")}
    test_rows = {a for a, _ in read("test")}
    assert not train_rows & test_rows and len(test_rows) > 15
    train = {(a, b) for a, b in pairs if a in train_rows}
    labels = {b for b in titles if sum(one == b for _, one in train) >= 2}
    assert read("train") == {(a, b) for a, b in train if b in labels}
    assert read("test") == {(a, b) for a, b in pairs if a in test_rows and b in labels and (b, a) not in read("train")}
    reciprocal = {(b, a) for a, b in read("train") if b in test_rows and a in labels}
    own = {(a, a) for a in train_rows | test_rows if a in labels}
    assert read("excluded") == reciprocal | own
    assert KeyTable.of(keys_of([b"x"])).numbers(keys_of([b"x", b"y"])).tolist() == [0, -1]
