"""The page about handing models on: its commands and its code run, in their order, on a small data set."""

from __future__ import annotations

import contextlib
import io
import re
import shlex
from pathlib import Path

import pytest
from cli_calls import call

PAGE = Path(__file__).parent.parent.parent / "docs" / "handing-on.md"


def run(code: str) -> list[str]:
    with contextlib.redirect_stdout(io.StringIO()) as out:
        exec(compile(code, str(PAGE), "exec"), {})
    return out.getvalue().splitlines()


@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_the_page_does_what_it_says(data: Path) -> None:
    for package in ("torch", "sklearn", "onnx", "onnxruntime", "onnxscript"):
        pytest.importorskip(package, reason=f"{package} is not installed")
    Path("texts.txt").write_text("an apple\nthe dragon castle\n")
    text = PAGE.read_text()
    recipe = 'dpr(encoder="bag", dimension=16, batch=64, epochs=2)'  # an encoder that is quick to train
    assert call("train", data, recipe, "--out", "model").code == 0
    commands = []
    for line in re.findall(r"^    longtail (.+)$", text, re.MULTILINE):
        words = [str(data) if word == "wordnet" else word for word in shlex.split(line)]
        if words[0] in ("compare", "train") or "--database" in words or "sentence-transformers" in words:
            continue  # recipes are checked elsewhere; a server and a transformer have tests of their own
        done = call(*words)
        assert done.code == 0, (line, done.err)
        commands.append(words[0])
    assert commands == ["evaluate", "predict", "evaluate", "export", "export"]
    graph, classifier = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    answers = run(graph.replace("a large cat that roars", "the dragon castle"))
    (own,) = call("predict", "model", "-k", "3", stdin="the dragon castle\n").lines
    assert [answer.rsplit(" ", 1)[0] for answer in answers] == [label["text"] for label in own["labels"]]
    assert run(classifier)[-1] == "1.0"
