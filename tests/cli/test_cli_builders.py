"""`longtail build ...` and `longtail presets` end to end: small raw files, then check and compare."""

from __future__ import annotations

import bz2
import gzip
import json
import random
import shlex
import shutil
from pathlib import Path

import pytest
from cli_calls import call
from guide_blocks import borrowed, lines

from longtail.data.read import load

WORDS = [f"{a}{b}{c}" for a in "bcdfg" for b in "aeiou" for c in "lmnrs"]


def aol() -> list[str]:
    rng = random.Random(0)
    rows = ["AnonID\tQuery\tQueryTime\tItemRank\tClickURL"]
    for _ in range(3000):
        query = " ".join(rng.choices(WORDS[:25], k=rng.randint(1, 3)))
        rows.append(f"{rng.randint(1, 99)}\t{query}\t2006-0{rng.choice('345')}-{rng.randint(1, 31):02} 10:00:00\t\t")
    Path("log.txt.gz").write_bytes(gzip.compress("\n".join(rows).encode()))
    return ["prefixes", "log.txt.gz", "--accept-licence"]


def orcas() -> list[str]:
    rng = random.Random(0)
    lines = []
    for query in range(400):
        topic = rng.randrange(20)
        lines.append(f"{query}\t{WORDS[topic]} {rng.choice(WORDS)}\tD{topic}\thttp://x.org/{WORDS[topic]}.html")
    Path("orcas.tsv.gz").write_bytes(gzip.compress("\n".join(lines).encode()))
    return ["clicks", "orcas.tsv.gz", "--accept-licence"]


def marco() -> list[str]:
    Path("marco").mkdir()
    Path("marco/collection.tsv").write_text("".join(f"{n}\tpassage on {word}\n" for n, word in enumerate(WORDS)))
    for split, first in (("train", 0), ("dev", 500)):
        numbers = range(first, first + 60)
        Path(f"marco/queries.{split}.tsv").write_text("".join(f"{n}\twhat is {WORDS[n % 60]}\n" for n in numbers))
        Path(f"marco/qrels.{split}.tsv").write_text("".join(f"{n}\t0\t{n % 60}\t1\n" for n in numbers))
    return ["passages", "marco", "--accept-licence"]


def wiki() -> list[str]:
    other = borrowed("data/builders/test_seealso.py")
    rng = random.Random(0)
    pages = [other.article(f"Page {n}", *(f"Page {rng.randrange(90)}" for _ in range(4))) for n in range(90)]
    Path("xxwiki-pages-articles.xml").write_text(other.HEAD + "".join(pages) + other.FOOT)
    return ["seealso", "xxwiki-pages-articles.xml"]


def manuals() -> list[str]:
    borrowed("data/builders/test_seealso.py").manual(Path("man"))
    return ["seealso", "--manpages", "man", "--seed", "18", "--test", "0.5"]


@pytest.mark.parametrize("source", [aol, orcas, marco, wiki, manuals], ids=lambda source: source.__name__)
def test_built_checked_and_compared(source: object) -> None:
    assert callable(source)
    done = call("build", *source(), "--out", "built")
    assert done.code == 0, done
    assert "wrote built" in done.out
    assert ("published: " in done.out) == (source is not manuals)
    facts = json.loads(Path("built/corpus.json").read_text())
    assert facts["command"].startswith("longtail build ") and facts["licence"] and facts["source"]
    corpus = load("built")
    assert len(corpus.train) and len(corpus.test)
    assert call("check", "built").code in (0, 1)
    compared = call("compare", "built", "bm25", "--json")
    assert compared.code == 0, compared
    again = call("build", *source_again(source), "--out", "built")
    assert "exists; choose another path" in again.error
    assert call("build", *source_again(source), "--out", "built", "--overwrite", "--json").json["counts"]["labels"] > 0


def source_again(source: object) -> list[str]:
    known = {
        aol: ["prefixes", "log.txt.gz", "--accept-licence"],
        orcas: ["clicks", "orcas.tsv.gz", "--accept-licence"],
        marco: ["passages", "marco", "--accept-licence"],
        wiki: ["seealso", "xxwiki-pages-articles.xml"],
        manuals: ["seealso", "--manpages", "man", "--seed", "18", "--test", "0.5"],
    }
    return known[source]  # type: ignore[index]


def test_what_is_missing_comes_first() -> None:
    aol()
    assert "--accept-licence" in call("build", "prefixes", "log.txt.gz", "--out", "x").error
    assert "takes two days" in call("build", "prefixes", "log.txt.gz", "--out", "x", "--train-days", "May").error
    assert "or --manpages" in call("build", "seealso", "--out", "x").error
    marco()
    assert "only the folder" in call("build", "passages", "marco", "--collection", "x", "--out", "x").error
    assert not Path("x").exists()


def test_files_of_a_collection_by_options() -> None:
    marco()
    files = ["--collection", "marco/collection.tsv", "--queries", "marco/queries.train.tsv"]
    files += ["--queries", "marco/queries.dev.tsv", "--train-qrels", "marco/qrels.train.tsv"]
    done = call("build", "passages", ".", *files, "--test-qrels", "marco/qrels.dev.tsv", "--out", "x", "--json")
    assert done.json["counts"]["train"] == 60 and done.json["published"] is None


def test_check_warns_of_labels_that_are_nearly_all_unseen() -> None:
    marco()
    Path("marco/qrels.train.tsv").write_text("0\t0\t0\t1\n1\t0\t1\t1\n")
    assert call("build", *source_again(marco), "--out", "x").code == 0
    checked = call("check", "x", "--json")
    assert any("98% of the labels have no training example" in warning for warning in checked.json["warnings"])
    assert not any("no training example:" in warning for warning in call("check", "wordnet", "--json").json["warnings"])


def test_a_holdout_is_compared_by_seen_and_unseen_labels(data: Path) -> None:
    facts = Path(shutil.copytree(data, "mine")) / "corpus.json"
    facts.write_text(json.dumps({**json.loads(facts.read_text()), "licence": "CC0"}))
    done = call("build", "holdout", "mine", "--labels", "0.3", "--out", "held")
    assert json.loads(Path("held/corpus.json").read_text())["licence"] == "CC0"
    assert done.code == 0 and "labels held out" in done.out
    compared = call("compare", "held", "bm25", "--report", "report.html")
    assert compared.code == 0 and "U@1" in compared.out and "harmonic" in compared.out
    assert "Unseen labels" in Path("report.html").read_text()
    assert call("train", "held", "bm25", "--out", "model").code == 0
    evaluated = call("evaluate", "model", "held", "--json").json
    [result] = call("compare", "held", "bm25", "--json").json["results"]
    assert evaluated["U@5"] > 0 and all(evaluated[name] == result[name] for name in ("S@1", "U@5", "H@5"))
    assert "harmonic" in call("evaluate", "model", "held").out
    assert "H@5" not in call("evaluate", "model", "held", "--split", "train", "--json").json, (
        "train has no unseen label"
    )


def test_what_may_not_be_passed_on_stays_so_in_every_other_layout() -> None:
    assert call("build", *aol(), "--out", "aol").code == 0
    licence = load("aol").licence
    assert licence is not None and "non-commercial" in licence
    for command in (
        "convert aol folder", "convert aol store --to store", "convert store again", "convert aol annif --to annif-tsv",
        "build holdout store --out held", "convert held stored --to store",
    ):  # fmt: skip
        assert call(*command.split()).code == 0, command
    free = load("wordnet")
    assert not free.private and free.licence is not None and "WordNet" in free.licence
    for folder in ("folder", "store", "again", "annif", "held", "stored"):
        assert Path(folder, ".gitignore").read_text() == "*\n", folder
        made = load(folder)
        assert made.private and made.licence == licence, folder
    Path("aol/corpus.json").write_text('{"licence": ["CC0"]}')
    assert '"licence" must be a string' in call("check", "aol").err


PAGE = "docs/data-sets.md"
COMMANDS = [line for line in lines(PAGE) if line.program == "longtail"]


def test_the_commands_of_the_guide_run(data: Path) -> None:
    """As they stand there, over small files with the names they use."""
    shutil.copytree(data, "DATA")
    aol()
    Path("aol").mkdir()
    shutil.move("log.txt.gz", "aol/user-ct-test-collection-01.txt.gz")
    orcas()
    Path("msmarco-docs.tsv.gz").write_bytes(gzip.compress(b"D1\thttp://x.org\ta title\tits body\n"))
    Path("log.tsv").write_text("".join(f"query {n % 40}\titem {n % 7}\n" for n in range(200)))
    marco()
    Path("marco").rename("msmarco")
    borrowed("data/builders/test_passages.py").beir(Path("beir/fiqa"))
    wiki()
    Path("dump.bz2").write_bytes(bz2.compress(Path("xxwiki-pages-articles.xml").read_bytes()))
    Path("dump.bz2").rename("enwiki-20240101-pages-articles-multistream.xml.bz2")
    borrowed("data/builders/test_seealso.py").manual(Path("man"))
    assert len(COMMANDS) >= 11
    for line in COMMANDS:
        words = shlex.split(line.text)[1:]
        words = [name for word in words for name in (sorted(map(str, Path().glob(word))) if "*" in word else [word])]
        words = ["man" if word == "/usr/share/man" else word for word in words]
        if "man" in words:
            words += ["--seed", "18", "--test", "0.5"]  # so few pages: not every split has test rows
        done = call(*words)
        assert done.code == 0, (line.text, done)


def test_presets() -> None:
    listed = call("presets")
    assert "LF-AOL-270K" in listed.out and "longtail build" in listed.out and listed.code == 0
    aol = next(line for line in listed.out.splitlines() if "LF-AOL-270K" in line)
    assert aol.split() == ["LF-AOL-270K", "3,922,479", "272,825", "0.55,", "1.5", "32", "prefixes"], "a line for each"
    one = call("presets", "lf-aol-270k")
    assert "A=0.55, B=1.5" in one.out and "tau=100" in one.out
    assert call("presets", "lf-aol-270k", "--json").json["labels"] == 272_825
    assert len(call("presets", "--json").json) >= 14
    assert "did you mean 'LF-AOL-270K'" in call("presets", "LF-AOL-27K").error
