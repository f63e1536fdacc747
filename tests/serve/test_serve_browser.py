"""The page in a real browser: everything it offers, by pointer and by keyboard, loading nothing from anywhere else."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from serving import Running, serving

import longtail
from browsing import CONTRAST
from longtail.data import Corpus
from longtail.serve.similar_examples import TrainingExamples

TEXT = "a castle in the forest by the harbour"


@pytest.fixture(scope="module")
def examples(tiny: Corpus) -> TrainingExamples:
    return TrainingExamples.of(tiny)


@pytest.fixture
def running(folders: tuple[Path, Path], examples: TrainingExamples) -> Iterator[Running]:
    with serving(*folders, examples=examples) as one:
        yield one


@pytest.fixture
def show(browser: Any, running: Running) -> Iterator[Callable[..., Any]]:
    """Opens the page, and closes it before the service stops; nothing may have gone wrong by then, or been asked of
    another place."""
    opened: list[Any] = []
    trouble: list[str] = []
    requests: list[str] = []
    served: list[str] = []

    def open_page(running: Running, size: tuple[int, int] = (1280, 900), scheme: str = "light") -> Any:
        served.append(running.url)
        context = browser.new_context(
            viewport={"width": size[0], "height": size[1]}, color_scheme=scheme, accept_downloads=True
        )
        context.set_default_timeout(60_000)
        opened.append(context)
        page = context.new_page()
        page.on("console", lambda message: trouble.append(message.text))
        page.on("pageerror", lambda error: trouble.append(str(error)))
        page.on("dialog", lambda dialog: (trouble.append(dialog.message), dialog.dismiss()))
        page.on("request", lambda request: requests.append(request.url))
        page.goto(running.url)
        return page

    yield open_page
    for context in opened:
        context.close()
    # A refusal that a test provokes is written into the console by the browser itself.
    assert [one for one in trouble if "the server responded with a status of" not in one] == []
    assert all(url.startswith((*served, "data:", "blob:")) for url in requests), requests


def ask(page: Any, text: str = TEXT) -> None:
    page.get_by_role("textbox", name="Text", exact=True).fill(text)
    page.locator("#columns .why").first.wait_for()


def words(page: Any, model: str) -> list[str]:
    found: list[str] = page.get_by_role("region", name=f"Labels from {model}").locator(".word").all_inner_texts()
    return found


def test_labels_appear_as_one_types(show: Callable[..., Any], running: Running, trained: Path) -> None:
    page = show(running)
    page.locator("#first option").first.wait_for(state="attached")
    page.get_by_role("textbox", name="Text", exact=True).press_sequentially("a castle", delay=5)
    page.locator("#columns .word").first.wait_for()
    page.get_by_role("textbox", name="Text", exact=True).press_sequentially(" in the forest by the harbour", delay=5)
    model = longtail.load_model(trained / "towers.longtail")
    answers = model.predict([TEXT], 5).answers(0)
    page.locator("#summary", has_text=f"towers predicts “{answers[0].text}” first").wait_for()
    page.locator("#columns .why").first.wait_for()
    assert words(page, "towers") == [answer.text for answer in answers]
    first = page.get_by_role("region", name="Labels from towers").locator("li[data-id]").first.inner_text()
    count = int(model.labels.counts[model.labels.row_of[answers[0].id]])
    assert f"{count} examples" in first
    tags = page.get_by_role("region", name="Labels from towers").locator(".facts .tag").all_inner_texts()
    assert len(tags) == 5 and set(tags) <= {"head", "torso", "tail", "unseen"}
    page.get_by_role("textbox", name="Text", exact=True).fill("  ")
    page.locator("#columns .word").first.wait_for(state="detached")


def test_what_is_pasted_from_a_page_with_control_characters_is_read(show: Callable[..., Any], running: Running) -> None:
    page = show(running)
    ask(page)
    plain = words(page, "towers")
    ask(page, "apple")
    page.get_by_role("textbox", name="Text", exact=True).fill(TEXT.replace(" ", "\x02 \x1f"))
    page.locator("#summary", has_text=f"towers predicts “{plain[0]}” first").wait_for()
    page.locator("#columns .why").first.wait_for()
    assert words(page, "towers") == plain


def test_two_models_side_by_side_say_what_only_one_found(
    show: Callable[..., Any], running: Running, trained: Path
) -> None:
    page = show(running)
    page.get_by_role("combobox", name="Labels").select_option("3")
    ask(page)
    found = {}
    for name in ("towers", "means"):
        model = longtail.load_model(trained / f"{name}.longtail")
        found[name] = [answer.text for answer in model.predict([TEXT], 3).answers(0)]
        assert words(page, name) == found[name]
    for name, other in (("towers", "means"), ("means", "towers")):
        items = page.get_by_role("region", name=f"Labels from {name}").locator("li[data-id]")
        marked = [text for text in items.all_inner_texts() if "only here" in text]
        assert len(marked) == len(set(found[name]) - set(found[other]))
    page.get_by_label("beside").select_option("")
    page.get_by_role("region", name="Labels from means").wait_for(state="detached")
    assert page.locator(".only").count() == 0


@pytest.mark.parametrize(("size", "scheme"), [((1280, 900), "light"), ((400, 860), "dark")])
def test_the_dial_turns_from_frequent_to_rare(
    show: Callable[..., Any], running: Running, trained: Path, tiny: Corpus, size: tuple[int, int], scheme: str
) -> None:
    """By keyboard and by pointer; a model whose scores are no probabilities stays as it is."""
    model = longtail.load_model(trained / "towers.longtail")
    orders = {
        dial: [[one.text for one in row] for row in model.predict(tiny.test.rows, 5, dial=dial)] for dial in (0, 1)
    }
    row = next(row for row in range(len(tiny.test)) if orders[0][row] != orders[1][row])
    place = next(place for place in range(5) if orders[0][row][place] != orders[1][row][place])
    page = show(running, size, scheme)

    def turned_to(dial: int) -> None:
        found = page.get_by_role("region", name="Labels from towers").locator(".word").nth(place)
        found.filter(has_text=orders[dial][row][place]).wait_for()

    ask(page, (tiny.test.texts or ())[row])
    assert words(page, "towers") == orders[0][row]
    others = words(page, "means")
    slider = page.get_by_role("slider", name="frequent")
    assert slider.get_attribute("aria-valuetext") == "0, by probability alone"
    assert page.locator(".turning [aria-hidden]").all_inner_texts() == ["frequent", "rare", "0"]
    slider.focus()
    page.keyboard.press("End")
    turned_to(1)
    assert words(page, "towers") == orders[1][row] and words(page, "means") == others
    assert page.locator("#dial-value").inner_text() == "1"
    assert slider.get_attribute("aria-valuetext") == "1, rare labels most"
    box = slider.bounding_box()
    assert box["width"] >= 100 and box["height"] >= 24  # room for a finger
    page.mouse.click(box["x"] + 2, box["y"] + box["height"] / 2)
    turned_to(0)
    assert words(page, "towers") == orders[0][row]
    assert page.evaluate("document.documentElement.scrollWidth") <= size[0]


def test_a_model_without_probabilities_has_no_dial(show: Callable[..., Any], folders: tuple[Path, Path]) -> None:
    with serving(folders[1]) as running:
        page = show(running)
        page.locator("#first option").first.wait_for(state="attached")
        assert page.get_by_role("slider").is_disabled()
        assert "+ calibrate" in page.locator("#dial-why").inner_text()


def test_many_lines_are_predicted_with_the_dial(show: Callable[..., Any], running: Running, trained: Path) -> None:
    model = longtail.load_model(trained / "towers.longtail")
    page = show(running)
    page.locator("#first option").first.wait_for(state="attached")
    page.get_by_role("slider").fill("0.7")
    page.get_by_role("tab", name="Many lines").click()
    page.get_by_role("textbox", name="Texts, one per line").fill(TEXT)
    page.get_by_role("button", name="Predict").click()
    page.locator("#done", has_text="1 line done").wait_for()
    found = page.locator("#table tbody td").first.locator("li bdi").all_inner_texts()
    assert found == [answer.text for answer in model.predict([TEXT], 5, dial=0.7).answers(0)]


def test_reasons_unfold_by_keyboard(show: Callable[..., Any], running: Running, tiny: Corpus) -> None:
    page = show(running)
    ask(page, "castle")
    region = page.get_by_role("region", name="Labels from means")
    why = region.locator("li[data-id]", has_text="a castle").locator("details")
    assert not why.locator("li").first.is_visible()
    why.locator("summary").focus()
    page.keyboard.press("Enter")
    assert why.locator("li").first.is_visible() and why.locator("li").count() == 3
    assert "castle" in why.locator("li mark").first.inner_text()
    row = why.locator("li small").first.inner_text().rpartition("document ")[2]
    assert (tiny.train.texts or ())[tiny.train.ids.index(row)] in why.locator("li").first.inner_text()
    ask(page, "castle and more")  # what was unfolded stays so
    page.get_by_role("region", name="Labels from means").locator("details[open]").first.wait_for()


def test_many_lines_become_a_file(
    show: Callable[..., Any], running: Running, tiny: Corpus, trained: Path, tmp_path: Path
) -> None:
    page = show(running)
    texts = [*(tiny.test.texts or ())[:60], '=HYPERLINK("http://evil")', 'a "quoted", castle', "ümläut 🦜 forest"] * 2
    page.get_by_role("tab", name="Many lines").click()
    page.get_by_role("textbox", name="Texts, one per line").fill("\n".join(["", *texts, "  "]))
    page.get_by_role("textbox", name="Texts, one per line").press("Control+Enter")
    page.locator("#done", has_text=f"{len(texts)} lines done").wait_for()
    assert page.locator("#table tbody tr").count() == len(texts)
    with page.expect_download() as event:
        page.get_by_role("button", name="Download CSV").click()
    event.value.save_as(tmp_path / "out.csv")
    with (tmp_path / "out.csv").open(encoding="utf-8-sig", newline="") as file:
        found = list(csv.DictReader(file))
    for name in ("towers", "means"):
        model = longtail.load_model(trained / f"{name}.longtail")
        mine = [one for one in found if one["model"] == name]
        for row, answers in enumerate(model.predict(texts, 5)):
            cells = [one for one in mine if int(one["line"]) == row + 1]
            assert [cell["id"] for cell in cells] == [answer.id for answer in answers]
            assert [int(cell["place"]) for cell in cells] == list(range(1, len(answers) + 1))
            assert all(cell["text"] == (f"'{texts[row]}" if texts[row][0] == "=" else texts[row]) for cell in cells)
            assert [float(cell["score"]) for cell in cells] == pytest.approx([one.score for one in answers], rel=1e-5)


def test_where_a_model_is_unsure_the_page_and_its_file_say_so(
    show: Callable[..., Any], tiny: Corpus, tmp_path: Path
) -> None:
    nearest = longtail.Recipe.parse("knn").fit(tiny.train, tiny.valid).with_doubts(tiny.train, tiny.valid)
    nearest.save(tmp_path / "nearest.longtail")
    known, reason = (tiny.train.texts or ("",))[0], "none of its words was seen in training"
    with serving(tmp_path / "nearest.longtail") as running:
        page = show(running)
        page.get_by_role("textbox", name="Text", exact=True).fill("zzzz qqqq")
        page.locator("#summary", has_text="unsure: nearest").wait_for()
        assert page.locator("#columns .unsure").inner_text() == f"Unsure: {reason}"
        page.get_by_role("tab", name="Many lines").click()
        page.get_by_role("textbox", name="Texts, one per line").fill(f"{known}\nzzzz qqqq")
        page.get_by_role("button", name="Predict").click()
        page.locator("#done", has_text="2 lines done").wait_for()
        assert page.locator("#table tbody .unsure").all_inner_texts() == [f"Unsure: {reason}"]
        with page.expect_download() as event:
            page.get_by_role("button", name="Download CSV").click()
        event.value.save_as(tmp_path / "out.csv")
    with (tmp_path / "out.csv").open(encoding="utf-8-sig", newline="") as file:
        found = list(csv.DictReader(file))
    assert {one["unsure"] for one in found if one["line"] == "1"} == {""}
    second = [one for one in found if one["line"] == "2"]
    assert [(one["text"], one["id"], one["unsure"]) for one in second] == [("zzzz qqqq", "", reason)]


def test_a_label_is_added_and_predicted(show: Callable[..., Any], running: Running) -> None:
    page = show(running)
    ask(page, "the glass castle by the harbour")
    page.get_by_label("A label is missing?").fill("glass castle harbour")
    page.get_by_label("A label is missing?").press("Enter")
    page.locator("#added", has_text="is added and saved: number").wait_for()
    assert "glass castle harbour" in words(page, "towers") and "glass castle harbour" not in words(page, "means")
    new = page.get_by_role("region", name="Labels from towers").locator("li.new")
    assert "added" in new.inner_text() and "unseen" in new.inner_text() and "found by its text" in new.inner_text()
    page.reload()
    ask(page, "the glass castle by the harbour")
    assert "glass castle harbour" in words(page, "towers")
    page.get_by_label("A label is missing?").fill("glass castle harbour")
    page.get_by_role("button", name="Add it").click()
    page.locator("#added", has_text="was there already").wait_for()
    page.get_by_label("Model").select_option("means")
    page.get_by_label("beside").select_option("")
    page.locator("#added", has_text="means takes no new labels").wait_for()
    assert page.get_by_role("button", name="Add it").is_disabled()


def test_labels_are_searched(show: Callable[..., Any], running: Running) -> None:
    page = show(running)
    page.locator("#first option").first.wait_for(state="attached")
    page.get_by_role("tab", name="Labels").click()
    page.locator("#matches", has_text="10 labels of towers").wait_for()
    page.get_by_role("searchbox").fill("DRAG")
    page.locator("#matches", has_text="1 label of towers").wait_for()
    assert "a dragon" in page.locator("#list li").inner_text()


def test_all_of_it_by_keyboard_and_every_control_has_a_name(show: Callable[..., Any], running: Running) -> None:
    page = show(running)
    ask(page)
    page.keyboard.press("Tab")
    tab = page.get_by_role("tab", name="One text")
    tab.focus()
    for key, name in (
        ("ArrowRight", "Many lines"),
        ("End", "Labels"),
        ("ArrowRight", "One text"),
        ("ArrowLeft", "Labels"),
    ):
        page.keyboard.press(key)
        chosen = page.get_by_role("tab", name=name)
        assert chosen.get_attribute("aria-selected") == "true"
        assert chosen.evaluate("(one) => one === document.activeElement")
        assert page.get_by_role("tabpanel", name=name).is_visible() and page.get_by_role("tabpanel").count() == 1
    nameless = page.evaluate("""() => [...document.querySelectorAll('input, select, textarea, button, progress')]
      .filter((one) => !(one.labels?.length || one.getAttribute('aria-label') || one.textContent.trim()))
      .map((one) => one.outerHTML)""")
    assert nameless == []
    assert page.evaluate("document.documentElement.lang") == "en"
    assert page.locator("[role=status]").count() >= 4


@pytest.mark.parametrize("size", [(1280, 900), (400, 860)])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_fits_and_reads(show: Callable[..., Any], running: Running, size: tuple[int, int], scheme: str) -> None:
    page = show(running, size, scheme)
    ask(page)
    page.locator(".why summary").first.click()
    page.get_by_label("A label is missing?").fill("a forest of glass")
    page.get_by_role("button", name="Add it").click()
    page.locator("#added", has_text="added and saved").wait_for()
    page.locator("#columns .why").first.wait_for()
    min_seen = 30
    for name in ("One text", "Many lines", "Labels"):
        page.get_by_role("tab", name=name).click()
        if name == "Many lines":
            page.get_by_role("textbox", name="Texts, one per line").fill("castle\n" + "x" * 300)
            page.get_by_role("button", name="Predict").click()
            page.locator("#done", has_text="2 lines done").wait_for()
        if name == "Labels":
            page.locator("#list li").first.wait_for()
        wide = page.evaluate("[document.documentElement.scrollWidth, document.body.scrollWidth]")
        assert max(wide) <= size[0], name
        ratio, where, seen = page.evaluate(CONTRAST)
        assert seen >= min_seen and ratio >= 4.5, (name, where)
    ground = page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
    dark = sum(map(int, ground[4:-1].split(","))) < 380
    assert dark == (scheme == "dark")


def test_the_theme_is_chosen_and_stays(show: Callable[..., Any], running: Running) -> None:
    page = show(running, scheme="dark")
    ground = "getComputedStyle(document.documentElement).backgroundColor"
    dark = page.evaluate(ground)
    page.get_by_role("button", name="Switch to the light theme").click()
    assert page.evaluate(ground) != dark
    page.reload()
    assert page.evaluate(ground) != dark
    assert page.get_by_role("button", name="Switch to the dark theme").is_visible()


def test_hostile_words_are_shown_as_they_are(show: Callable[..., Any], running: Running) -> None:
    hostile = '<img src=x onerror="window.hacked=1"> castle </script><script>window.hacked=2</script>'
    page = show(running)
    ask(page)
    page.get_by_label("A label is missing?").fill(hostile)
    page.get_by_role("button", name="Add it").click()
    page.locator("#added", has_text="added and saved").wait_for()
    ask(page, hostile)
    assert hostile in words(page, "towers")
    page.get_by_role("tab", name="Labels").click()
    page.get_by_role("searchbox").fill("onerror")
    page.locator("#list li", has_text="<img src=x").wait_for()
    assert page.locator("img").count() == 0 and page.evaluate("window.hacked") is None


def test_the_token_is_asked_for_once(show: Callable[..., Any], folders: tuple[Path, Path]) -> None:
    with serving(folders[1], token="a-token-of-the-test") as running:
        page = show(running)
        page.get_by_label("This service needs a token").fill("a-token-of-another")
        page.get_by_role("button", name="Enter").click()
        page.locator("#trouble", has_text="token").wait_for()
        page.get_by_label("This service needs a token").fill("a-token-of-the-test")
        page.get_by_role("button", name="Enter").click()
        page.locator("#served", has_text="10 labels").wait_for()
        page.get_by_role("textbox", name="Text", exact=True).fill("castle")
        page.locator("#columns .word").first.wait_for()
        assert not page.locator("#door").is_visible() and not page.locator("#trouble").is_visible()


def test_it_waits_while_the_service_is_busy_and_says_when_it_is_gone(
    show: Callable[..., Any], running: Running
) -> None:
    page = show(running)
    page.locator("#first option").first.wait_for(state="attached")
    busy = {"status": 429, "headers": {"Retry-After": "1"}, "body": '{"error": "full"}'}
    page.route("**/predict", lambda route: route.fulfill(**busy), times=2)
    page.get_by_role("textbox", name="Text", exact=True).fill("castle")
    page.locator("#trouble", has_text="busy; trying again in 1 second").wait_for()
    page.locator("#columns .word").first.wait_for()
    assert not page.locator("#trouble").is_visible()
    page.route("**/predict", lambda route: route.fulfill(status=422, body='{"error": "too odd"}'))
    page.get_by_role("textbox", name="Text", exact=True).fill("dragon")
    page.locator("#trouble", has_text="too odd").wait_for()
