"""The pictures of the README, of the page on evaluation and of the page on serving, and the figures that they show.

    python docs/take_pictures.py              # a minute on two idle cores
    python docs/take_pictures.py tradeoff     # only this section of the report; the figures must be those of before

Runs the comparison of `make demo`, photographs its report, serves two models and photographs their page. What was shown
goes to docs/pictures/pictures.json, which `tests/test_pictures.py` holds against the documents and a fresh training.
"""

from __future__ import annotations

import hashlib
import json
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

ROOT = Path(__file__).parent.parent
PICTURES = ROOT / "docs" / "pictures"
LONGTAIL = [sys.executable, "-m", "longtail"]
SECTIONS = ("bins", "tradeoff", "norms")  # of the report, a picture each
MEASURES = tuple(f"{name}@{k}" for name in ("P", "PSP", "C") for k in (1, 3, 5))
WIDTH = 1200  # of a page, in pixels
# The first picture of the README: the table of all documents at its full width, without its notes.
ONE_TABLE = """() => {
    document.body.style.maxWidth = "none";
    document.querySelectorAll("#table > .box ~ *").forEach(one => one.remove());
}"""
TEXT = "a large cat with a mane that lives in Africa"
SERVED = {"parabel": "parabel + rerank", "bm25": "bm25"}


def demo_recipes() -> list[str]:
    """The recipes that `make demo` compares."""
    command = re.search(r"longtail compare wordnet (.*?) --report", (ROOT / "Makefile").read_text(), re.DOTALL)
    assert command is not None
    return shlex.split(command[1].replace("\\\n", " "))


def main() -> None:
    """Take the pictures that are named, or all."""
    PICTURES.mkdir(exist_ok=True)
    names = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        chromium = shutil.which("chromium") or shutil.which("google-chrome")
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page(viewport={"width": WIDTH, "height": 900}, color_scheme="light")
        shown = compared(Path(folder), page, names)
        if not names:
            served(Path(folder), page)
        browser.close()
    files = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(PICTURES.glob("*.png"))}
    (PICTURES / "pictures.json").write_text(json.dumps({"recipes": shown, "files": files}, indent=1) + "\n")


def compared(folder: Path, page: Page, names: list[str]) -> list[dict[str, object]]:
    """The demo, and the pictures of its report; returns what its table says.

    With names, pictures of these sections alone. They show no times, so the times of the earlier run are kept.
    """
    report = folder / "report.html"
    command = [*LONGTAIL, "compare", "wordnet", *demo_recipes(), "--report", str(report), "--json"]
    results = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)["results"]
    page.goto(report.as_uri())
    if names:
        before: list[dict[str, object]] = json.loads((PICTURES / "pictures.json").read_text())["recipes"]
        figures = [[{one: row[one] for one in ("recipe", *MEASURES)} for row in rows] for rows in (before, results)]
        if figures[0] != figures[1] or not set(names) <= set(SECTIONS):
            sys.exit(f"take all pictures: the figures have changed, or {names} are not of {SECTIONS}")
        for name in names:
            page.locator(f"#{name}").screenshot(path=PICTURES / f"{name}.png")
        return before
    page.evaluate(ONE_TABLE)
    top, end = page.locator("#table").bounding_box(), page.locator("#norms").bounding_box()
    assert top and end
    area = {"x": 0, "y": top["y"] - 10, "width": WIDTH, "height": end["y"] - top["y"] - 60}
    page.screenshot(path=PICTURES / "report.png", clip=area, full_page=True)  # type: ignore[arg-type]
    page.reload()
    for name in SECTIONS:
        page.locator(f"#{name}").screenshot(path=PICTURES / f"{name}.png")
    return [{name: one[name] for name in ("recipe", *MEASURES, "train_seconds")} for one in results]


def served(folder: Path, page: Page) -> None:
    """Two models side by side on the page of the service."""
    for name, recipe in SERVED.items():
        subprocess.run([*LONGTAIL, "train", "wordnet", recipe, "--out", str(folder / name)], check=True)
    models = [f"{name}={folder / name}" for name in SERVED]
    command = [*LONGTAIL, "serve", *models, "--examples", "wordnet", "--port", "0"]
    service = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        assert service.stderr is not None
        address = next(found[0] for line in service.stderr if (found := re.search(r"http://127.0.0.1:\d+", line)))
        page.goto(address)
        page.get_by_label("beside").select_option("bm25")
        page.get_by_label("Text", exact=True).fill(TEXT)
        page.locator("summary").first.click()
        page.wait_for_timeout(500)
        page.screenshot(path=PICTURES / "serving.png", full_page=True)
    finally:
        service.terminate()
        service.wait()


if __name__ == "__main__":
    main()
