"""Small files of every kind that is turned into a data set: workbooks, tables of other shapes, vocabularies, raw files
of builders, files with faults that are mended, predictions; and what reads them."""

from __future__ import annotations

import bz2
import gzip
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

Rng = np.random.Generator
Reader = Callable[[], object]
ENCODINGS = ("auto", "utf-8", "utf-16", "utf-16-le", "utf-32", "cp1252", "latin-1", "shift_jis", "utf-7", "idna")
ENCODINGS += ("punycode", "gb18030", "utf-8-sig")


def _any(rng: Rng, choices: Any) -> Any:
    return choices[int(rng.integers(len(choices)))]


def _table(folder: Path, columns: dict[str, Any], rows: list[list[str]]) -> Reader:
    (folder / "train.csv").write_text("".join(",".join(row) + "\n" for row in rows))

    def read() -> None:
        from longtail.data.read import load
        from longtail.data.table import Columns
        from longtail.inspection import inspect

        inspect(load(folder / "train.csv", columns=Columns(**columns)))

    return read


def _one_hot(folder: Path, rng: Rng) -> Reader:
    rows = [["id", "text", "tag_x", "tag_y"], ["1", "a", "1", "0"], ["2", "b", "0", "true"], ["3", "c", "", "yes"]]
    return _table(folder, {"labels": "tag_*", "shape": _any(rng, (None, "one-hot"))}, [*rows, ["4", "d", "0.0", "1.0"]])


def _pairs(folder: Path, rng: Rng) -> Reader:
    rows = [["id", "text", "label"], ["1", "a", "x"], ["1", "a", "y"], ["2", "b", "x"], ["3", "", "z"], ["2", "", "y"]]
    return _table(folder, {"shape": "pairs", "id": _any(rng, (None, "id"))}, rows)


def _columns(folder: Path, rng: Rng) -> Reader:
    rows = [["id", "text", "first", "second"], ["1", "a", "x", "y"], ["2", "b", "x", ""], ["3", "c", "x|z", "y"]]
    return _table(folder, {"labels": "first,second", "shape": _any(rng, (None, "columns"))}, rows)


def _excel(folder: Path, rng: Rng) -> Reader:
    import datetime

    from openpyxl import Workbook

    book = Workbook()
    sheet = book.active
    sheet.append(["id", "text", "labels"])
    for row in range(6):
        sheet.append([_any(rng, (row, f"r{row}", float(row))), _any(rng, ("a b", "é", None, 2.5)), "x|y"])
    sheet.append([datetime.date(2020, 1, 2), True, "x"])
    book.save(folder / "train.xlsx")

    def read() -> None:
        from longtail.data.read import load

        load(folder / "train.xlsx")

    return read


CONCEPT = """<http://x/{n}> a skos:Concept ;
  skos:prefLabel "name {n}"@en , "nom {n}"@fr ; skos:altLabel "other {n}"@en ;
  skos:broader <http://x/{m}> ; skos:related <http://x/0> ; skos:notation "{n}" ; skos:inScheme <http://x/s> .
"""
RDF = """<?xml version="1.0" encoding="utf-8"?>
<!DOCTYPE rdf:RDF [ <!ENTITY skos "http://www.w3.org/2004/02/skos/core#"> ]>
<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns:skos="http://www.w3.org/2004/02/skos/core#">
{concepts}</rdf:RDF>
"""
RDF_CONCEPT = """<skos:Concept rdf:about="http://x/{n}"><skos:prefLabel xml:lang="en">name {n}</skos:prefLabel>
<skos:broader rdf:resource="http://x/{m}"/></skos:Concept>
"""


def _skos(folder: Path, rng: Rng, ending: str) -> Reader:
    path = folder / f"words{ending}"
    turtle = "@prefix skos: <http://www.w3.org/2004/02/skos/core#> .\n"
    turtle += "".join(CONCEPT.format(n=n, m=n // 2) for n in range(5))
    turtle += "<http://x/c> a skos:Collection ; skos:member <http://x/3> , <http://x/c> .\n"
    if ending == ".rdf":
        path.write_text(RDF.format(concepts="".join(RDF_CONCEPT.format(n=n, m=n // 2) for n in range(5))))
    elif ending == ".nt":
        import rdflib

        graph = rdflib.Graph()
        graph.parse(data=turtle, format="turtle")
        path.write_text(graph.serialize(format="nt"))
    else:
        path.write_text(turtle)

    def read() -> None:
        from longtail.data.skos import read_skos

        language = _any(rng, ("", "en", "fr"))
        read_skos(path, language, exclude_schemes=["http://x/t"], exclude_collections=["http://x/c"]).label_set()

    return read


def _mended(folder: Path, rng: Rng) -> Reader:
    """Faults of every kind that has a remedy, in a table or in JSON lines."""
    named = _any(rng, ENCODINGS)
    written = named if named in ("utf-16", "cp1252", "latin-1", "utf-32") else _any(rng, ("utf-8", "cp1252", "utf-16"))
    rows = [
        {"id": f"r{n}", "text": _any(rng, ("café", "a b", "naïve")), "labels": ["X", "x", " x"][: n % 3]}
        for n in range(9)
    ]
    if rng.random() < 0.5:
        text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows) + "{broken\n[1]\n"
        (folder / "train.jsonl").write_bytes(text.encode(written))
    else:
        lines = [f'{row["id"]},"{row["text"]}",{"|".join(row["labels"])}' for row in rows]
        text = "\n".join(["id,text,labels", *lines, '9,"open,x', "10,too,many,cells", "11,few", "12,n,N/A"]) + "\n"
        (folder / "train.csv").write_bytes(text.encode(written))
    collect = bool(rng.random() < 0.3)
    given: dict[str, Any] = {"encoding": named}
    given["skip_bad_rows"] = str(folder / "bad.jsonl") if rng.random() < 0.7 else None
    given |= {"drop_duplicates": rng.random() < 0.5, "fold_labels": rng.random() < 0.5}
    given |= {"ignore_labels": ("N/A",) if rng.random() < 0.5 else (), "min_count": int(rng.integers(1, 3))}

    def read() -> None:
        from longtail.data.mending import Remedies, mending
        from longtail.data.read import load
        from longtail.inspection import inspect

        remedies = Remedies(**given)
        with mending(remedies, collect=collect):
            inspect(load(folder, remedies=remedies))

    return read


def _build(make: Callable[[Path], object]) -> Reader:
    """What builds a data set beside its raw files, and reads what was built."""

    def read() -> None:
        import tempfile

        from longtail.data.read import load

        with tempfile.TemporaryDirectory() as place:
            out = Path(place) / "built"
            make(out)
            load(out)

    return read


def _prefixes(folder: Path, rng: Rng) -> Reader:
    lines = ["AnonID\tQuery\tQueryTime\tItemRank\tClickURL"]
    for n in range(40):
        day = _any(rng, ("2006-03-02", "2006-04-03", "2006-05-26"))
        words = " ".join(_any(rng, ("red", "hill", "ant farm", "café")) for _ in range(3))
        lines.append(f"{n % 7}\t{words}\t{day} 10:00:00\t{_any(rng, ('', '1'))}\t")
    (folder / "log.txt.gz").write_bytes(gzip.compress("\n".join(lines).encode()))
    labels, published, counts = _any(rng, ("test", "train")), bool(rng.random() < 0.5), bool(rng.random() < 0.5)

    def make(out: Path) -> None:
        from longtail.data.builders.prefixes import PrefixSettings, build_prefixes
        from longtail.data.labels import Propensity

        settings = PrefixSettings(labels=labels, least=1, as_published=published, counts=counts)
        build_prefixes(
            [folder / "log.txt.gz"], out, settings, propensity=Propensity(), accepted=True, processes=1
        )  # fmt: skip

    return _build(make)


def _clicks(folder: Path, rng: Rng) -> Reader:
    rows = [f"{n}\tquery {n % 9}\tD{n % 4}\thttp://x.org/page_{n % 4}.html" for n in range(30)]
    (folder / "orcas.tsv").write_text("\n".join(rows) + "\n")
    documents = [f"D{n}\thttp://x.org/{n}\tTitle {n}\tbody body" for n in range(4)]
    (folder / "docs.tsv").write_text("".join(line + "\n" for line in documents))
    begins = np.cumsum([0, *(len(line) + 1 for line in documents)])
    (folder / "lookup.tsv").write_text("".join(f"D{n}\t999\t{begins[n]}\n" for n in range(4)))
    plain = bool(rng.random() < 0.3)
    if plain:
        (folder / "orcas.tsv").write_text("".join(f"query {n % 9}\tD{n % 4}\t{n % 5 + 1}\n" for n in range(30)))
    titled, looked_up, counts = rng.random() < 0.8, rng.random() < 0.5, bool(rng.random() < 0.5)

    def make(out: Path) -> None:
        from longtail.data.builders.clicks import ClickSettings, build_clicks
        from longtail.data.labels import Propensity

        build_clicks(
            folder / "orcas.tsv", out, ClickSettings(least=1, counts=counts), propensity=Propensity(), accepted=True,
            titles=folder / "docs.tsv" if titled else None, processes=1,
            lookup=folder / "lookup.tsv" if titled and looked_up else None,
        )  # fmt: skip

    return _build(make)


def _passages(folder: Path, rng: Rng) -> Reader:
    if rng.random() < 0.5:
        (folder / "qrels").mkdir()
        lines = [json.dumps({"_id": f"p{n}", "title": "t", "text": f"text {n}"}) for n in range(8)]
        (folder / "corpus.jsonl").write_text("\n".join(lines) + "\n")
        lines = [json.dumps({"_id": f"q{n}", "text": f"asked {n}"}) for n in range(6)]
        (folder / "queries.jsonl").write_text("\n".join(lines) + "\n")
        head = "query-id\tcorpus-id\tscore\n"
        (folder / "qrels" / "train.tsv").write_text(head + "".join(f"q{n}\tp{n}\t{n}\n" for n in range(4)))
        (folder / "qrels" / "test.tsv").write_text(head + "q4\tp4\t2\nq5\tp5\t1\nq5\tp6\t0\n")
    else:
        (folder / "collection.tsv").write_text("".join(f"{n}\tpassage {n}\n" for n in range(8)))
        for split, first in (("train", 0), ("dev", 4)):
            numbers = range(first, first + 3)
            (folder / f"queries.{split}.tsv").write_text("".join(f"{n}\tasked {n}\n" for n in numbers))
            (folder / f"qrels.{split}.tsv").write_text("".join(f"{n}\t0\t{n}\t1\n" for n in numbers))
    labels, counts = _any(rng, ("all", "seen")), bool(rng.random() < 0.5)

    def make(out: Path) -> None:
        from longtail.data.builders.passages import build_passages, find_files
        from longtail.data.labels import Propensity

        build_passages(
            find_files(folder), out, labels=labels, counts=counts, propensity=Propensity(), accepted=True, processes=1
        )

    return _build(make)


ARTICLE = """  <page>
    <title>Page {n}</title>
    <ns>{space}</ns>
    <id>{n}</id>
    <revision><text bytes="9" xml:space="preserve">Some '''words''' about {n} {{{{t|a}}}} &lt;ref&gt;x&lt;/ref&gt;
== See also ==
* [[Page {a}]]
* [[page {b}|b]] {{{{annotated link|Page {a}}}}}
== End ==</text></revision>
  </page>
"""


def _seealso(folder: Path, rng: Rng) -> Reader:
    pages = [ARTICLE.format(n=n, a=(n + 1) % 12, b=(n * 5) % 12, space=0 if n else 14) for n in range(12)]
    pages.append('  <page>\n<title>Old</title><ns>0</ns><redirect title="Page 3" /><text>#R</text>\n  </page>\n')
    xml = ("<mediawiki>\n" + "".join(pages) + "</mediawiki>\n").encode()
    name, pack = _any(rng, (("d.xml", bytes), ("d.xml.bz2", bz2.compress), ("d.xml.gz", gzip.compress)))
    whole = pack(xml)
    if name.endswith(".bz2") and rng.random() < 0.5:  # many streams
        middle = xml.index(b"<title>Page 5")
        whole = bz2.compress(xml[:middle]) + bz2.compress(xml[middle:])
    (folder / name).write_bytes(whole)
    label_words = int(rng.integers(2))

    def make(out: Path) -> None:
        from longtail.data.builders.seealso import SeeAlsoSettings, build_seealso
        from longtail.data.labels import Propensity

        build_seealso(
            folder / name, out, SeeAlsoSettings(label_words=label_words), propensity=Propensity(), processes=1
        )

    return _build(make)


def _manpages(folder: Path, rng: Rng) -> Reader:
    (folder / "man1").mkdir()
    for n in range(8):
        text = f'.TH P{n} 1\n.SH NAME\np{n} \\- does {n}\n.SH DESCRIPTION\n.B bold\n\\fIwords\\fR of "p{n}"\n'
        text += f".SH SEE ALSO\n.BR p{(n + 1) % 8} (1),\n.Xr p{(n * 3) % 8} 1\n"
        path = folder / "man1" / f"p{n}.1{_any(rng, ('', '.gz'))}"
        path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    (folder / "man1" / "alias.1").write_text(".so man1/p2.1\n")

    def make(out: Path) -> None:
        from longtail.data.builders.seealso import SeeAlsoSettings, build_seealso
        from longtail.data.labels import Propensity

        build_seealso(folder, out, SeeAlsoSettings(), manpages=True, propensity=Propensity(), processes=1)

    return _build(make)


def _saved(folder: Path, rng: Rng) -> Reader:
    from longtail.data.labels import LabelSet
    from longtail.predictions import Predictions

    labels = LabelSet(ids=("x", "y", "z"))
    scores = np.array([[0.9, 0.1], [0.5, 0.0]], dtype=np.float32)
    Predictions(labels, np.array([[0, 2], [1, -1]], dtype=np.int32), scores).save(folder / "found.npz")

    def read() -> None:
        found = Predictions.load(folder / "found.npz")
        list(found)

    return read


def _answers(folder: Path, rng: Rng) -> Reader:
    if rng.random() < 0.5:
        (folder / "run.txt").write_text(
            "".join(f"r{n // 2} Q0 {'xyz'[n % 3]} {n % 2} {1 - n / 9} t\n" for n in range(8))
        )
    else:
        rows = [
            {"id": f"r{n}", "labels": [{"id": "xyz"[n % 3], "score": 0.5}, {"id": "y", "score": 0}]} for n in (0, 2)
        ]
        (folder / "run.txt").write_text("".join(json.dumps(row) + "\n" for row in rows))

    def read() -> None:
        from longtail.data.labels import LabelSet
        from longtail.predictions_file import read_answers

        list(read_answers(folder / "run.txt", LabelSet(ids=("x", "y", "z")), skip_unknown=bool(rng.random() < 0.5)))

    return read


SOURCES: dict[str, Callable[[Path, Rng], Reader]] = {
    "one-hot": _one_hot,
    "pairs": _pairs,
    "columns": _columns,
    "excel": _excel,
    "turtle": partial(_skos, ending=".ttl"),
    "n-triples": partial(_skos, ending=".nt"),
    "rdf": partial(_skos, ending=".rdf"),
    "mended": _mended,
    "build prefixes": _prefixes,
    "build clicks": _clicks,
    "build passages": _passages,
    "build seealso": _seealso,
    "build manpages": _manpages,
    "saved": _saved,
    "answers": _answers,
}
