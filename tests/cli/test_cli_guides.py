"""Every line of code in the documents runs as it is written, with small data in the place of what is named; what takes
hours, a GPU or a network is at least real: its script, options, extras or targets exist."""

from __future__ import annotations

import contextlib
import csv
import dataclasses
import io
import re
import shutil
import subprocess
import sys
import tomllib
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cli_calls import call
from guide_blocks import PAGES, ROOT, Line, borrowed, lines

import longtail
from longtail.data import Corpus
from longtail.data.write_subjects import write_subjects
from longtail.reproduction.paper_tables import find_paper
from longtail.reproduction.run import chosen_rows

RUN = ("longtail", "torchrun")  # here, page by page
# Not run: they install, measure for minutes to hours, or run all of this. What they name is looked up instead.
LOOKED_UP = ("make", "pip", "python", ".ci/run")
# Pages whose lines have a test of their own: a service that is started and asked, a database, an export, raw dumps.
APART = {
    "docs/serving.md": "test_cli_serving.py",
    "docs/handing-on.md": "test_cli_handing_on.py",
    "docs/data-sets.md": "test_cli_builders.py",
    "docs/proxy.md": "../serve/test_serve_proxy.py",
    "docs/messy-csv.md": "test_cli_journeys.py",
    "docs/books-to-subjects.md": "test_cli_journeys.py",
}
CODE = ("from", "train", "model.predict(Rows(texts=texts,")  # Python of docs/data.md, run below
# Blocks that are no code: a picture in letters, files and what they hold, a formula.
WORDS = {"docs/architecture.md": 26, "docs/data.md": 7, "docs/measures.md": 1, "docs/reproduce.md": 8}
# Commands of Annif, which is no dependency; it was run for the figures beside them.
OTHERS = {"docs/results/words.md": 3}
REMOVED = "(removed)"  # before the script that printed older figures and is no longer there


def test_every_line_of_code_is_run_or_looked_up() -> None:
    """The list above is short, and nothing escapes it."""
    left: dict[str, int] = {}
    for page in PAGES:
        for line in lines(page):
            if line.program in (*RUN, *LOOKED_UP, *CODE, REMOVED) or page in APART:
                continue
            left[page] = left.get(page, 0) + 1
    assert left == WORDS | OTHERS
    for test in APART.values():
        assert (Path(__file__).parent / test).is_file()


@pytest.fixture
def desk(data: Path, tiny: Corpus) -> None:
    """The files that the guides speak of."""
    shutil.copytree(data, "my-data")
    shutil.copytree(data, "my-vectors")
    shutil.copytree(data, "shards", ignore=lambda folder, names: [name for name in names if "train" not in name])
    write_subjects(tiny, "annif-corpus")
    for split in ("train", "valid", "test"):
        rows = getattr(tiny, split).targets.toarray()
        np.save(f"my-vectors/{split}.vectors.npy", rows.astype(np.float32))
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
    shutil.copytree(".", "tables", ignore=lambda folder, names: [name for name in names if not name.endswith(".tsv")])
    borrowed("data/test_wordnet_files.py").written(Path("some-wordnet"))
    borrowed("data/test_wikipedia.py").wiki(Path("dump"), "new")


TO_RUN: dict[str, list[Line]] = {}
for one in (one for page in PAGES for one in lines(page) if one.program in RUN):
    if one.program != "torchrun" or one.words not in [other.words for found in TO_RUN.values() for other in found]:
        TO_RUN.setdefault(one.page, []).append(one)


@pytest.mark.parametrize("page", [page for page in TO_RUN if page not in APART])
def test_the_commands_of_a_page_run(page: str, desk: None) -> None:
    for line in TO_RUN[page]:
        if line.words[0] == "train" and Path("model").exists():
            shutil.rmtree("model")
        if line.program == "torchrun":
            in_processes(line)
            continue
        if line.words[0] == "reproduce" and len(line.words) > 2:  # hours of training; tests/reproduction trains some
            tables_of(line)
            continue
        done = call(*line.words, stdin=line.stdin)
        assert done.code == 0, (line, done.err)


def tables_of(line: Line) -> None:
    """The tables and rows that a command names are there."""
    words = line.words[1 : next((at for at, word in enumerate(line.words) if word.startswith("--")), None)]
    patterns = [given for option, given in pairwise(line.words) if option == "--rows"]
    assert chosen_rows([find_paper(words[0]).table(name) for name in words[1:-1]], patterns)


def in_processes(line: Line) -> None:
    """Two processes that talk to each other, on the processor."""
    pytest.importorskip("torch", reason="torch is not installed")
    words = re.sub("--nproc-per-node 4", "--nproc-per-node 2", " ".join(line.words[:2])).split()
    out = line.words.index("--out") + 1
    shutil.rmtree(line.words[out], ignore_errors=True)
    asked = [sys.executable, "-m", "torch.distributed.run", "--standalone", *words, *line.words[2:]]
    done = subprocess.run(asked, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert Path(line.words[out], "manifest.json").is_file()


def test_there_is_something_to_run() -> None:
    assert sum(map(len, TO_RUN.values())) >= 25


def test_what_is_not_run_is_real() -> None:
    targets = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    options = {path: path.read_text() for path in (ROOT / "benchmarks").rglob("*.py")}
    looked = 0
    for line in (line for page in PAGES for line in lines(page) if line.program in LOOKED_UP):
        looked += 1
        if line.program == "make":
            assert line.words[0] in targets, line
        elif line.program == "pip":
            extras = re.findall(r"\w+", line.words[1].partition("[")[2])
            assert set(extras) <= set(project["optional-dependencies"]), line
        elif line.program == "python":
            script = next(word for word in line.words if word.endswith(".py"))
            assert ROOT / script in options, line
            # An option may be declared by a script that this one shares its reading with.
            text = options[ROOT / script]
            text += "".join(other for path, other in options.items() if f"import {path.stem}" in text)
            for option in [word for word in line.words if word.startswith("--")]:
                declared = f'"{option}"' in text or f'"{option.replace("--no-", "--")}"' in text
                assert declared, (option, line)
        else:
            assert (ROOT / line.program).is_file()
    assert looked >= 20


def test_the_python_of_the_page_about_data_runs(tiny: Corpus) -> None:
    code = [line.text for line in lines("docs/data.md") if line.program in CODE]
    rng = np.random.default_rng(0)

    class Encoder:
        def encode(self, texts: Any) -> Any:
            return rng.random((len(texts), 4), dtype=np.float32)

    names: dict[str, Any] = {"dataclasses": dataclasses, "corpus": tiny, "encoder": Encoder(), "texts": ["an apple"]}
    asked = [line for line in code if line.startswith("model.")]
    with contextlib.redirect_stdout(io.StringIO()):
        exec("\n".join(line for line in code if line not in asked), names)
        assert names["train"].features.shape == (len(tiny.train), 4) and callable(names["write_folder"])
        valid = dataclasses.replace(tiny.valid, features=Encoder().encode(tiny.valid.texts))
        names["model"] = longtail.Recipe.parse("parabel(feature_weight=0.3)").fit(names["train"], valid)
        assert len(eval(asked[0], names)) == 1
