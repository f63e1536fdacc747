"""Why a label is predicted, as the service says it and as the page shows it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from serving import Running, serving

import longtail
from longtail.data import Corpus
from longtail.recipe import Recipe

TEXT = "a castle by the harbour"
DPR = "dpr(encoder='bag', dimension=32, batch_size=64, epochs=2)"
ATTENTION = "attentionxml(encoder='bag', dimension=16, batch_size=64, epochs=2, hidden=8)"
FUSE = f'fuse("memory(\\"{DPR}\\")", "bm25", "knn(neighbours=5)", trees=20, min_leaf=5, learning_rate=0.3)'


@pytest.fixture(scope="module")
def fused(tiny: Corpus, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("why")
    Recipe.parse("centroid").fit(tiny.train, tiny.valid).save(folder / "plain")
    Recipe.parse(ATTENTION).fit(tiny.train, tiny.valid).save(folder / "attention")
    return Recipe.parse(FUSE).fit(tiny.train, tiny.valid).save(folder / "fused")


@pytest.fixture(scope="module")
def running(fused: Path) -> Iterator[Running]:
    with serving(fused, fused.parent / "plain", fused.parent / "attention") as one:
        yield one


def labels_of(running: Running, **asked: Any) -> list[dict[str, Any]]:
    reply = running.post("/predict", asked)
    assert reply.status == 200, reply.json
    labels: list[dict[str, Any]] = reply.json["answers"][0]["labels"]
    return labels


@pytest.mark.parametrize("dial", [0, 0.7])
def test_reasons_are_those_of_the_model(running: Running, fused: Path, dial: float) -> None:
    model = longtail.load_model(fused)
    found = model.predict([TEXT], 4, dial=dial)
    labels = labels_of(running, text=TEXT, k=4, dial=dial, why=True)
    assert [label["id"] for label in labels] == [one.id for one in found.answers(0)]
    [reasons] = model.explain([TEXT], found)
    assert [label["why"] for label in labels] == [reason.as_json() for reason in reasons]
    why = labels[0]["why"]
    assert list(why) == ["members", "training_examples", "proposed", "right", "nearest"]
    assert [one["member"] for one in why["members"]] == [member.recipe for member in model.scorer.members]  # type: ignore[attr-defined]
    assert all("why" not in label for label in labels_of(running, text=TEXT, k=4, dial=dial))


def test_a_model_without_members_says_how_frequent_a_label_is(running: Running) -> None:
    for label in labels_of(running, text=TEXT, model="plain", why=True):
        assert label["why"] == {"training_examples": label["count"]}


def test_where_nothing_is_found_nothing_is_explained(running: Running) -> None:
    assert labels_of(running, text="zzz", model="plain", why=True) == []


def test_a_combination_takes_new_labels_only_where_a_member_does(running: Running) -> None:
    [facts, *_] = running.get("/models").json["models"]
    assert not facts["takes_labels"] and "encoders can" in facts["why_not"]
    assert running.post("/labels", {"labels": [{"text": "new"}]}).status == 422


def test_the_page_shows_who_proposed_a_label(browser: Any, running: Running) -> None:
    page = browser.new_context().new_page()
    page.goto(running.url)
    page.get_by_role("textbox", name="Text", exact=True).fill(TEXT)
    box = page.get_by_role("region", name="Labels from fused").locator("details.proposed").first
    box.wait_for()
    assert " of 3 members" in box.locator("summary").inner_text()
    box.locator("summary").click()
    assert "knn(neighbours=5): " in box.inner_text() and "document train-" in box.inner_text()
    page.context.close()


def test_the_page_shows_the_words_that_a_label_looked_at(browser: Any, running: Running) -> None:
    [label] = labels_of(running, text=TEXT, model="attention", k=1, why=True)
    words = label["why"]["words"]
    assert {one["word"] for one in words} <= set(TEXT.split())
    page = browser.new_context().new_page()
    page.goto(running.url)
    page.locator("#first option").first.wait_for(state="attached")
    page.locator("#first").select_option("attention")
    page.get_by_role("textbox", name="Text", exact=True).fill(TEXT)
    region = page.get_by_role("region", name="Labels from attention")
    box = region.locator(f"li[data-id='{label['id']}'] details.proposed")
    box.wait_for()
    assert box.locator("summary").inner_text() == "looked at " + ", ".join(one["word"] for one in words[:3])
    box.locator("summary").click()
    shown = [" ".join(text.split()) for text in box.locator("li").all_inner_texts()]
    assert shown == [f"{one['word']} {round(100 * one['weight'])}% of its attention" for one in words]
    page.context.close()
