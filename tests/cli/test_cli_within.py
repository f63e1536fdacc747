"""`longtail train --within`: the recipe alone on standard output, a card that says how it was found."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from cli_calls import call

import longtail

pytest.importorskip("lightgbm", reason="LightGBM is not installed")


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    """Threads that wait for cores which other tests have would make times random."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LONGTAIL_THREADS", "1")
        yield


def test_the_recipe_is_all_there_is_on_standard_output(data: Path) -> None:
    done = call("train", data, "--within", "20s", "--out", "found")
    assert done.code == 0, done.err
    recipe = done.out.removesuffix("\n")
    assert "\n" not in recipe and recipe == longtail.load_model("found").recipe
    assert "PSP@5" in done.err and "chosen" in done.err and "knn" in done.err and "wrote found" in done.err
    card = Path("found/README.md").read_text()
    assert "## How it was found" in card and f"longtail train DATA '{recipe}' --out model" in card
    assert "| `parabel` |" in card and "no GPU that torch can use" in card
    assert "valid split" in card and "--within 20s" in card
    assert json.loads(Path("found/card.json").read_text())["how_found"]
    again = call("train", data, recipe, "--out", "again")
    assert again.code == 0, again.err
    texts = ["a dragon in the forest", "guitar and harbour"]
    first, second = (longtail.load_model(folder).predict(texts, 3) for folder in ("found", "again"))
    assert (first.indices == second.indices).all() and (first.scores == second.scores).all()


def test_json_has_everything(data: Path) -> None:
    found = call("train", data, "--within", "20s", "--out", "found", "--json").json
    assert found["recipe"] == longtail.load_model("found").recipe and found["model"] == "found"
    assert {"parabel", "ngame"} <= {one["recipe"] for one in found["tried"]}
    assert found["train_seconds"] > 0 and found["tried"][0]["measures"]["P@1"] > 50


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("parabel", "--within", "10m"), "--within finds a recipe, and 'parabel' is given"),
        (("--within", "0"), "--within takes a time such as 90s"),
        (("--within", "-5m"), "--within takes a time such as 90s"),
        (("--within", "soon"), "--within takes a time such as 90s"),
        (("--within", "10m", "--refit"), "--within does not go with --refit"),
        (("--within", "10m", "--force"), "--within does not go with --force"),
        (("--within", "10m", "--checkpoint-dir", "kept"), "--within does not go with --checkpoint-dir"),
        ((), "give a recipe such as 'parabel + rerank', or --within 10m"),
        (("--within", "0.0001s"), "took"),
    ],
)
def test_wrong_words(data: Path, words: tuple[str, ...], message: str) -> None:
    assert message in call("train", data, *words, "--out", "refused").error
    assert not Path("refused").exists()
