"""The page about handing models on: its commands and its code run, in their order, on a small data set."""

from __future__ import annotations

import contextlib
import io
import re
import shutil
from pathlib import Path

import pytest
from cli_calls import call
from guide_blocks import PAGES, borrowed, lines

PAGE = "docs/handing-on.md"
postgres = borrowed("search/postgres_server.py")
server = postgres.server  # a fixture


def run(code: str) -> list[str]:
    with contextlib.redirect_stdout(io.StringIO()) as out:
        exec(compile(code, PAGE, "exec"), {})
    return out.getvalue().splitlines()


@pytest.fixture
def desk(data: Path) -> None:
    """A model with an encoder that is quick to train, data, and texts."""
    for package in ("torch", "sklearn", "onnx", "onnxruntime", "onnxscript"):
        pytest.importorskip(package, reason=f"{package} is not installed")
    Path("texts.txt").write_text("an apple\nthe dragon castle\n")
    shutil.copytree(data, "my-data")
    recipe = 'dpr(encoder="tiny", batch_size=64, epochs=2)'
    assert call("train", "my-data", recipe, "--out", "model").code == 0


@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_the_page_does_what_it_says(desk: None) -> None:
    commands = []
    for line in (line for line in lines(PAGE) if line.program == "longtail" and "--database" not in line.words):
        # The card of another model than the one that is exported.
        words = ["trees" if line.words[0] == "train" and word == "model" else word for word in line.words]
        done = call(*words)
        assert done.code == 0, (line, done.err)
        commands.append(words[0])
    dialled = ["predict", "evaluate"]
    thresholds = ["evaluate", "predict", "evaluate"]
    assert commands == ["compare", *thresholds, *dialled, "train", "evaluate", "export", "export", "export"]
    graph, classifier = re.findall(r"```python\n(.*?)```", PAGES[PAGE].read_text(), re.DOTALL)
    answers = run(graph.replace("a large cat that roars", "the dragon castle"))
    (own,) = call("predict", "model", "-k", "3", stdin="the dragon castle\n").lines
    assert [answer.rsplit(" ", 1)[0] for answer in answers] == [label["text"] for label in own["labels"]]
    assert run(classifier)[-1] == "1.0"


def test_the_page_hands_labels_to_a_database(desk: None, server: str) -> None:
    if not postgres.has_vector(server):
        pytest.skip("this PostgreSQL lacks pgvector: install postgresql-NN-pgvector (Debian 13) or build it")
    asked = [line for line in lines(PAGE) if "--database" in line.words]
    assert [line.words[0] for line in asked] == ["index", "predict"]
    plain = call("predict", "model", "texts.txt").lines
    for line in asked:
        done = call(*(server if word.startswith("postgresql:") else word for word in line.words))
        assert done.code == 0, (line, done.err)
    for found, own in zip(done.lines, plain, strict=True):
        assert [label["id"] for label in found["labels"]] == [label["id"] for label in own["labels"]]
