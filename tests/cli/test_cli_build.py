"""`longtail build hierarchy`, end to end: small sources in their real formats, then check and compare."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from cli_calls import call

from longtail.data.read import load

WORDS = ("animal", "plant", "tool", "food", "sound", "place", "person", "event")
NODES = 120  # node n hangs under node n // 2: a tree seven deep


def name(node: int) -> str:
    return f"{WORDS[node % 8]} {WORDS[node // 8 % 8]} number{node}"


def edges() -> list[str | Path]:
    lines = ["# child\tparent", *(f"n{node}\tn{node // 2}" for node in range(2, NODES)), "n1\tn64"]  # and a cycle
    Path("edges.tsv").write_text("\n".join(lines))
    Path("names.tsv").write_text("\n".join(f"n{node}\t{name(node)}" for node in range(1, NODES)))
    return ["edges", "edges.tsv", "--names", "names.tsv"]


def wordnet() -> list[str | Path]:
    def line(node: int, kind: str) -> str:
        lemmas = f"02 {WORDS[node % 8]} 0 number_{node} 0"
        above = f"001 @ {node // 2:08d} {kind} 0000" if node > 1 else "000"
        frames = " 01 + 02 00" if kind == "v" else ""
        return f"{node:08d} 03 {kind} {lemmas} {above}{frames} | what {name(node)} means  \n"

    Path("dict").mkdir()
    licence = "  1 This software and database is being provided to you  \n"
    Path("dict/data.noun").write_text(licence + "".join(line(node, "n") for node in range(1, NODES)))
    Path("dict/data.verb").write_text(licence + "".join(line(node, "v") for node in range(1, 20)))
    return ["wordnet", "dict"]


def wikipedia() -> list[str | Path]:
    Path("dump").mkdir()

    def dump(table: str, columns: str, rows: list[str]) -> None:
        made = "".join(f"  `{column}` varbinary(255) NOT NULL,\n" for column in columns.split())
        text = f"CREATE TABLE `{table}` (\n{made}  PRIMARY KEY (`{columns.split()[0]}`)\n) ENGINE=InnoDB;\n"
        text += f"INSERT INTO `{table}` VALUES {','.join(rows)};\n"
        Path(f"dump/xxwiki-20240101-{table}.sql.gz").write_bytes(gzip.compress(text.encode()))

    titles = {node: name(node).replace(" ", "_").capitalize() for node in range(1, NODES)}
    dump("category", "cat_id cat_title cat_pages", [f"({node},'{title}',3)" for node, title in titles.items()])
    dump(
        "page", "page_id page_namespace page_title", [f"({900 + node},14,'{title}')" for node, title in titles.items()]
    )
    dump(
        "categorylinks",
        "cl_from cl_to cl_type",
        [f"({900 + node},'{titles[node // 2]}','subcat')" for node in range(2, NODES)],
    )
    return ["wikipedia", "dump"]


@pytest.mark.parametrize("source", [edges, wordnet, wikipedia], ids=lambda source: source.__name__)
def test_built_checked_and_compared(source: object) -> None:
    assert callable(source)
    done = call("build", "hierarchy", *source(), "--out", "built")
    assert done.code == 0, done
    assert done.out.startswith("wrote built: ")
    assert "ancestors up to depth 3" in done.err
    corpus = load("built")
    rows = len(corpus.train) + len(corpus.valid) + len(corpus.test)
    assert rows >= NODES - 2
    assert 0.1 < len(corpus.test) / rows < 0.3
    assert corpus.test.excluded is not None

    assert call("check", "built").code == 0
    compared = call("compare", "built", "centroid", "bm25", "--json")
    assert compared.code == 0
    assert all(0 < result["P@5"] <= 60 for result in compared.json["results"])
    assert Path("report.html").exists()


def test_options_reach_the_builder() -> None:
    source = edges()
    done = call(
        "build", "hierarchy", *source, "-o", "a", "--depth", "1", "--test-share", "0.5", "--propensity", "0.5,0.4"
    )
    assert done.code == 0
    corpus = load("a")
    assert int(corpus.train.targets.sum(axis=1).max()) == 1  # one step up: one parent
    assert 40 < len(corpus.test) < 80
    assert (corpus.propensity.a, corpus.propensity.b) == (0.5, 0.4)
    facts = call("build", "hierarchy", *source, "-o", "b", "--seed", "9", "--json").json
    assert facts["data"] == "b"
    assert facts["rows"]["train"] == len(load("b").train)
    assert load("b").test.ids != load("a").test.ids


def test_data_sets_are_replaced_only_when_asked() -> None:
    source = edges()
    assert call("build", "hierarchy", *source, "--out", "built").code == 0
    assert (
        "built exists; choose another name, or pass --overwrite"
        in call("build", "hierarchy", *source, "-o", "built").error
    )
    assert call("build", "hierarchy", *source, "--out", "built", "--overwrite").code == 0
    Path("mine").mkdir()
    Path("mine/thesis.txt").write_text("years of work")
    assert (
        "mine: is not a data set that longtail wrote"
        in call("build", "hierarchy", *source, "-o", "mine", "--overwrite").error
    )
    nowhere = ["edges", "nowhere.tsv"]  # raised before anything is read
    assert "mine: is not a data" in call("build", "hierarchy", *nowhere, "-o", "mine", "--overwrite").error
    assert Path("mine/thesis.txt").read_text() == "years of work"


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["edges", "nothing.tsv"], "nothing.tsv: no such file; check the path"),
        (["edges", "edges.tsv", "--names", "nothing.tsv"], "nothing.tsv: no such file"),
        (["edges", "empty.tsv"], "empty.tsv: has no edges; each line must be child<TAB>parent"),
        (["edges", "comma.csv"], "comma.csv:1: expected child<TAB>parent, got 'a,b'"),
        (["edges", "edges.tsv", "--test-share", "1.5"], "--test-share must be between 0 and 1, got 1.5"),
        (["edges", "edges.tsv", "--test-share", "0"], "--test-share must be between 0 and 1, got 0"),
        (["edges", "edges.tsv", "--propensity", "x"], "--propensity takes two numbers"),
        (["wordnet", "."], "has no data.noun and data.verb"),
        (["wordnet", "nothing"], "nothing: "),
        (["wikipedia", "."], "no dump of category (category.sql.gz) in ."),
        (["wikipedia", "nothing"], "nothing: no such folder"),
    ],
)
def test_wrong_sources(words: list[str], problem: str) -> None:
    edges()
    Path("empty.tsv").touch()
    Path("comma.csv").write_text("a,b\n")
    assert problem in call("build", "hierarchy", *words, "--out", "built").error
    assert not Path("built").exists()
