"""The commands of the README and the guides run as they are written, with a small data set in WordNet's place and one
epoch instead of many."""

from __future__ import annotations

import csv
import re
import shlex
import shutil
from pathlib import Path

import pytest
from cli_calls import call

from longtail.data import Corpus

ROOT = Path(__file__).parent.parent.parent
PAGES = [ROOT / "README.md", *(ROOT / "docs" / f"{name}.md" for name in ("choosing", "data", "recipes", "scaling"))]
# What asks for more than a test has: files of others, a pretrained encoder's hours. Each has tests of its own.
ELSEWHERE = ("/usr/share/wordnet", "hierarchy wikipedia", "warm='ngame", "vectors=")


def commands(page: Path) -> list[tuple[str, list[str]]]:
    """What is put in, and the words of each command line."""
    found = []
    for before, command in re.findall(r"^    (echo .* \| )?longtail (.+)$", page.read_text(), re.MULTILINE):
        if any(part in command for part in ELSEWHERE):
            continue
        said = re.match(r'echo "(.*)"', before)
        line = re.sub(r"\s+#.*$", "", command)
        line = re.sub(r"epochs=\d+", "epochs=1", re.sub(r"\bwordnet\b", "my-data", line))
        found.append((said.group(1) if said else "", shlex.split(line)))
    return found


@pytest.fixture
def desk(data: Path, tiny: Corpus) -> None:
    """The files that the guides speak of."""
    shutil.copytree(data, "my-data")
    with Path("books.csv").open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["title", "subjects"])
        texts = tiny.train.texts or ()
        for row, text in enumerate(texts):
            labels = tiny.train.targets[[row]].indices
            table.writerow([text, ";".join(tiny.labels.texts[label] for label in labels)])
    Path("edges.tsv").write_text("lion\tcat\ncat\tanimal\ndog\tanimal\nwolf\tdog\nfox\tdog\n")
    Path("names.tsv").write_text(
        "".join(f"{name}\tthe {name}\n" for name in ("lion", "cat", "animal", "dog", "wolf", "fox"))
    )


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_commands_of_a_page_run(page: Path, desk: None) -> None:
    for before, words in commands(page):
        if words[0] == "train" and Path("model").exists():
            shutil.rmtree("model")
        done = call(*words, stdin=before)
        assert done.code == 0, (words, done.err)


def test_there_is_something_to_run() -> None:
    assert sum(len(commands(page)) for page in PAGES) >= 10
