"""The page in a real browser: it opens from disk, loads nothing from the network, fits, reads and works."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from report_sample import sample_corpus, sample_result, with_dial

from browsing import CONTRAST
from longtail.comparison import judged
from longtail.report.page import render, write
from longtail.report.result import joined

SIZES = [(1280, 900), (390, 844)]
SECTIONS = (
    "table",
    "bins",
    "norms",
    "tradeoff",
    "dial",
    "calibration",
    "cost",
    "versus",
    "never",
    "examples",
    "data",
    "repeat",
)


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A plain report, and one with everything a user could write to break it."""
    folder = tmp_path_factory.mktemp("reports")
    plain, hostile = sample_corpus(), sample_corpus(rows=80, hostile=True, words=300)
    norms = np.sqrt(np.maximum(plain.labels.counts, 1)).astype(np.float32)
    few = [
        sample_result("bm25", plain, skill=0.3, seed=0),
        sample_result("centroid", plain, skill=0.8, seed=1),
        sample_result("centroid + rerank", plain, skill=0.9, rare=True, seed=2),
    ]
    few[:2] = [replace(few[0], row_norms=norms), replace(few[1], row_norms=np.sqrt(norms))]
    # With two seeds, intervals and tests, as `compare --seeds 2` leaves them.
    few[1] = joined(
        [few[1], replace(sample_result("centroid", plain, skill=0.8, seed=4), seeds=(1,), row_norms=few[1].row_norms)]
    )
    few = [replace(one, clean=one.measures) for one in judged(few, plain)]
    many = [
        sample_result(f'<script>window.hacked = {seed}</script> "it\'s" + ' + "x" * 9 * seed, hostile, seed=seed)
        for seed in range(8)
    ]
    many = [replace(one, row_norms=(seed + 1) * norms) for seed, one in enumerate(many)]
    few[:2] = [with_dial(one, plain) for one in few[:2]]
    many = [with_dial(one, hostile) for one in many]
    written = {}
    for name, results, corpus in (("plain", few, plain), ("hostile", many, hostile), ("one", few[:1], plain)):
        written[name] = folder / f"{name}.html"
        command = 'longtail compare sample "bm25" "<script>window.hacked = 9</script>"'
        warnings = ["5 of 120 test examples <b>also</b> stand in train"] if name == "plain" else []
        page = render(results, corpus, command=command, versions={"longtail": "0.1.0"}, warnings=warnings)
        write(written[name], page)
    return written


@pytest.fixture
def show(browser: Any, reports: dict[str, Path]) -> Iterator[Callable[..., Any]]:
    """Opens a report; when the test ends, nothing may have gone wrong or been asked of the network."""
    opened: list[Any] = []
    trouble: list[str] = []
    requests: list[str] = []

    def open_report(name: str, size: tuple[int, int] = (1280, 900), scheme: str = "light") -> Any:
        context = browser.new_context(viewport={"width": size[0], "height": size[1]}, color_scheme=scheme)
        opened.append(context)
        page = context.new_page()
        page.on("console", lambda message: trouble.append(message.text))
        page.on("pageerror", lambda error: trouble.append(str(error)))
        page.on("dialog", lambda dialog: (trouble.append(dialog.message), dialog.dismiss()))
        page.on("request", lambda request: requests.append(request.url))
        page.goto(reports[name].as_uri())
        return page

    yield open_report
    for context in opened:
        context.close()
    assert trouble == []
    known = {path.as_uri() for path in reports.values()}
    assert all(url.partition("#")[0] in known or url.startswith("data:") for url in requests), requests


@pytest.mark.parametrize("name", ["plain", "hostile", "one"])
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_section_shows_and_nothing_sticks_out(
    show: Callable[..., Any], name: str, size: tuple[int, int], scheme: str
) -> None:
    page = show(name, size, scheme)
    wide = page.evaluate("[document.documentElement.scrollWidth, document.body.scrollWidth]")
    assert max(wide) <= size[0]
    for section in SECTIONS:
        if section not in ("tradeoff", "versus") or name != "one":
            assert page.locator(f"#{section}").is_visible()
    assert page.locator("table.results").is_visible()
    assert page.locator("#cards article").count() >= 5
    for chart in page.locator("#bins svg.chart:visible, #norms svg.chart:visible, #dial svg.chart:visible").all():
        box = chart.bounding_box()
        assert box["x"] >= 0 and box["x"] + box["width"] <= size[0] and box["height"] > 150
    # sections are as wide as the page, not squeezed or pushed out by what is in them
    assert page.evaluate("[...document.querySelectorAll('section')].every((one) => one.scrollWidth <= innerWidth)")
    assert page.evaluate("window.hacked") is None


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_all_text_has_enough_contrast(show: Callable[..., Any], scheme: str) -> None:
    page = show("plain", scheme=scheme)
    page.evaluate("document.querySelector('details').open = true")
    ratio, where, seen = page.evaluate(CONTRAST)
    assert seen > 200
    assert ratio >= 4.5, where


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_lines_of_all_recipes_stand_out(show: Callable[..., Any], scheme: str) -> None:
    """Names at line ends take the line's colour, so lines are held to the contrast of text."""
    page = show("hostile", scheme=scheme)
    page.evaluate("""() => document.querySelectorAll('.results tbody .who').forEach((who) => {
        who.querySelector('bdi').className = who.querySelector('.swatch').getAttribute('class').split(' ')[1];
        who.querySelector('bdi').style.color = 'var(--ink)';
    })""")
    inks = page.evaluate("[...document.querySelectorAll('.who bdi')].map((one) => getComputedStyle(one).color)")
    assert len(set(inks[:8])) == 8
    ratio, where, _ = page.evaluate(CONTRAST)
    assert ratio >= 4.5, where


def test_theme_follows_the_system_and_the_button(show: Callable[..., Any]) -> None:
    page = show("plain", scheme="dark")
    ground = "getComputedStyle(document.documentElement).backgroundColor"
    dark = page.evaluate(ground)
    button = page.get_by_role("button", name="Switch to the light theme")
    button.click()
    light = page.evaluate(ground)
    assert sum(map(int, light[4:-1].split(","))) > 600 > sum(map(int, dark[4:-1].split(",")))
    assert page.get_by_role("button", name="Switch to the dark theme").is_visible()
    page.wait_for_timeout(500)  # the browser writes what was chosen down a moment later
    page.reload()
    assert page.evaluate(ground) == light  # what was chosen stays
    page.emulate_media(media="print")
    assert page.evaluate(ground) == light


def test_print_fits_the_paper(show: Callable[..., Any]) -> None:
    page = show("plain", (700, 1000))
    page.emulate_media(media="print")
    assert page.evaluate("document.documentElement.scrollWidth") <= 700
    assert not page.locator("#controls").is_visible() and page.locator("table.results").is_visible()


def test_system_change_is_followed_while_open(show: Callable[..., Any]) -> None:
    page = show("plain", scheme="light")
    page.emulate_media(color_scheme="dark")
    page.locator("html[data-theme=dark]").wait_for(state="attached")  # the page's policy forbids polling by eval
    assert page.get_by_role("button", name="Switch to the light theme").is_visible()


def test_search_narrows_the_examples(show: Callable[..., Any]) -> None:
    page = show("plain")
    cards, found = page.locator("#cards article"), page.locator("#found")
    assert "120 of 120 examples" in found.inner_text()
    assert cards.count() == 10
    page.get_by_role("button", name="Show more").click()
    assert cards.count() == 20

    page.get_by_role("searchbox").fill("ISLAND 48")  # case does not matter; every word must be there
    matching = int(found.inner_text().split()[0])
    assert 0 < matching < 60
    assert cards.count() == min(matching, 10)
    for text in cards.all_inner_texts():
        assert "island" in text.lower() and "48" in text

    page.get_by_role("searchbox").fill("no such word anywhere")
    assert cards.count() == 0
    assert "No example matches" in found.inner_text()
    page.get_by_role("searchbox").fill("")
    assert cards.count() == 10


def test_filters_choose_examples(show: Callable[..., Any]) -> None:
    page = show("plain")
    found = page.locator("#found")
    page.get_by_text("Tail hits", exact=True).click()
    tail = int(found.inner_text().split()[0])
    assert 0 < tail < 120
    for card in page.locator("#cards article").all():
        assert (
            card.locator(".tops li.hit .tag", has_text="tail")
            .or_(card.locator(".tops li.hit .tag", has_text="unseen"))
            .count()
        )
    page.get_by_text("Recipes differ", exact=True).click()
    for card in page.locator("#cards article").all():
        hits = [
            sorted(column.locator("li.hit .word").all_inner_texts()) for column in card.locator(".tops > .top").all()
        ]
        assert len(hits) == 3 and any(one != hits[0] for one in hits)
    page.get_by_text("All", exact=True).click()
    assert "120 of 120" in found.inner_text()


def test_one_recipe_has_nothing_to_differ_from(show: Callable[..., Any]) -> None:
    page = show("one")
    assert page.get_by_text("Recipes differ").count() == 0
    assert page.locator("#cards article .top").count() == 10


def test_hits_and_bands_are_marked(show: Callable[..., Any]) -> None:
    page = show("plain")
    card = page.locator("#cards article", has=page.locator(".tops li.hit")).first
    true = set(card.locator(".truth .word").all_inner_texts())
    hits = card.locator(".tops li.hit")
    assert set(hits.locator(".word").all_inner_texts()) <= true
    assert all("✓" in text for text in hits.all_inner_texts())
    missed = card.locator(".tops li:not(.hit) .word").all_inner_texts()
    assert not true & set(missed)
    assert set(card.locator(".tag").all_inner_texts()) <= {"head", "torso", "tail", "unseen"}


def test_column_help_by_pointer_and_by_keyboard(show: Callable[..., Any]) -> None:
    page = show("plain")
    tip = page.locator("#tip")
    assert not tip.is_visible()
    page.get_by_role("button", name="PSP@3", exact=True).first.hover()
    assert "how rare their labels are" in tip.inner_text() and "top 3" in tip.inner_text()
    page.mouse.move(5, 5)
    assert not tip.is_visible()
    page.get_by_role("button", name="C@5", exact=True).first.focus()
    assert "labels with a test positive" in tip.inner_text()
    page.keyboard.press("Escape")
    assert not tip.is_visible()


def test_help_by_tap_stays_on_a_phone_screen(show: Callable[..., Any]) -> None:
    page = show("plain", (390, 844))
    page.get_by_role("button", name="P@1", exact=True).first.click()
    box = page.locator("#tip").bounding_box()
    assert box["x"] >= 0 and box["x"] + box["width"] <= 390


def test_recipe_names_stay_in_sight_when_the_table_scrolls(show: Callable[..., Any]) -> None:
    page = show("plain", (390, 844))
    box = page.locator("#table .box").first
    assert box.evaluate("(one) => one.scrollWidth > one.clientWidth")
    name = page.locator("#table tbody th").first
    before = name.bounding_box()["x"]
    box.evaluate("(one) => { one.scrollLeft = 300; }")
    assert name.bounding_box()["x"] == before
    assert name.bounding_box()["width"] < 200  # and leave room for the figures


def test_copy_takes_the_exact_command(show: Callable[..., Any]) -> None:
    page = show("plain")
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.locator("#copy").click()
    page.locator("#copy", has_text="Copied").wait_for()
    expected = 'longtail compare sample "bm25" "<script>window.hacked = 9</script>"'
    assert page.evaluate("navigator.clipboard.readText()") == expected


def test_hostile_texts_are_shown_as_they_are_and_do_not_run(show: Callable[..., Any]) -> None:
    page = show("hostile")
    page.get_by_role("searchbox").fill("onerror")
    assert "<img src=" in page.locator("#cards").inner_text()
    page.get_by_role("searchbox").fill("script")
    assert "</script><script>" in page.locator("#cards").inner_text()
    assert page.locator("img").count() == 0
    page.wait_for_timeout(50)
    assert page.evaluate("window.hacked") is None
    assert page.evaluate("document.querySelectorAll('script').length") == 4


def test_columns_sort_by_click_and_by_keyboard(show: Callable[..., Any]) -> None:
    page = show("plain")
    table = page.locator("table.results").first

    def order() -> list[str]:
        return [row.get_attribute("data-recipe") for row in table.locator("tbody tr").all()]

    def values(column: int) -> list[float]:
        return [
            float(cell.get_attribute("data-value")) for cell in table.locator(f"tbody td:nth-child({column})").all()
        ]

    assert order() == ["0", "1", "2"]
    button = table.get_by_role("button", name="Sort by PSP@5")
    button.click()
    assert values(7) == sorted(values(7), reverse=True)
    assert table.locator("th[aria-sort]").get_attribute("aria-sort") == "descending"
    button.focus()
    page.keyboard.press("Enter")
    assert values(7) == sorted(values(7))
    button.click()
    assert order() == ["0", "1", "2"] and table.locator("th[aria-sort]").count() == 0
    table.get_by_role("button", name="Sort by train").click()  # less is better
    assert values(11) == sorted(values(11))
    # examples keep the colours of their recipes
    page.get_by_role("searchbox").fill("river")
    shown = page.locator(".card .top").first
    assert "s0" in shown.locator(".swatch").first.get_attribute("class")


def test_data_of_figures_can_be_saved(show: Callable[..., Any], tmp_path: Path) -> None:
    page = show("plain")
    links = page.locator("a.csv")
    names = {link.get_attribute("download") for link in links.all()}
    assert {"results.csv", "contribution-by-frequency.csv", "coverage-by-frequency.csv", "P1-against-PSP1.csv"} <= names
    assert {"train-seconds.csv", "classifier-norms.csv", "calibration.csv", "labels-by-training-examples.csv"} <= names
    for name in ("won-and-lost", "never-predicted"):
        with page.expect_download() as saved:
            page.locator(f'a[download="{name}.csv"]').click()
        saved.value.save_as(tmp_path / f"{name}.csv")
    won = list(csv.DictReader((tmp_path / "won-and-lost.csv").open(encoding="utf-8")))
    shown = page.locator("#versus-lists .won").first.locator("li").count()
    first, second = (page.locator(f"#versus-{one} option:checked").inner_text() for one in ("first", "second"))
    assert shown == sum(row["recipe"] == first and row["not found by"] == second for row in won)
    never = list(csv.DictReader((tmp_path / "never-predicted.csv").open(encoding="utf-8")))
    assert {row["recipe"] for row in never} == {"bm25", "centroid", "centroid + rerank"}
    assert all(0 <= int(row["never predicted"]) <= int(row["labels"]) for row in never)
    figures = page.locator("figure").filter(has=page.locator("svg.chart, .bars"))
    for figure in figures.all():  # in its caption, or right below it
        assert figure.evaluate(
            "(one) => !!(one.querySelector('.csv') ?? one.nextElementSibling?.querySelector('.csv'))"
        )
    with page.expect_download() as saved:
        page.locator('a[download="results.csv"]').click()
    saved.value.save_as(tmp_path / "results.csv")
    rows = list(csv.DictReader((tmp_path / "results.csv").open(encoding="utf-8")))
    assert [row["recipe"] for row in rows if row["measure"] == "P@1"] == ["bm25", "centroid", "centroid + rerank"]
    (precision,) = (row for row in rows if row["recipe"] == "centroid" and row["measure"] == "P@1")
    assert float(precision["low"]) < float(precision["value"]) < float(precision["high"])
    assert precision["verdict"] == "better" and float(precision["deviation"]) >= 0


@pytest.mark.parametrize("size", SIZES)
def test_won_and_lost_labels_of_any_two(show: Callable[..., Any], size: tuple[int, int]) -> None:
    page = show("plain", size)
    lists = page.locator("#versus-lists .won")
    assert lists.count() == 2 and "bm25 finds" in lists.first.inner_text()
    page.locator("#versus-first").select_option(label="centroid + rerank")
    assert "centroid + rerank finds" in lists.first.inner_text() and "centroid finds" in lists.last.inner_text()
    assert lists.last.locator("li").count() >= 1  # rare labels alone leave the head to the other
    page.locator("#versus-second").select_option(label="centroid + rerank")
    assert "Choose two different recipes" in page.locator("#versus-lists").inner_text()


def test_significance_warnings_and_clean_documents_are_shown(show: Callable[..., Any]) -> None:
    page = show("plain")
    assert "<b>also</b> stand in train" in page.locator(".warnings").inner_text()
    cell = page.locator('table.results tr[data-recipe="1"] td').first
    assert "▲" in cell.inner_text() and "±" in cell.inner_text()
    cell.locator(".delta").hover()
    assert page.locator("#tip").inner_text().startswith("better: +")
    cell.locator(".value").hover()
    assert "95% interval" in page.locator("#tip").inner_text()
    assert page.locator("table.clean tbody tr").count() == 3
    assert page.locator("#bins svg.chart:visible .error").count() > 0  # of the recipe with two seeds
    assert page.locator("#tradeoff svg.chart:visible .error").count() == 12
