"""The pictures of the README and of the page on evaluation, taken from the demo's report.

make demo && .venv/bin/python docs/take_picture.py demo/report.html docs
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

SECTIONS = ("bins", "tradeoff", "norms")

report, folder = Path(sys.argv[1]).resolve(), Path(sys.argv[2])
(folder / "pictures").mkdir(exist_ok=True)
browser_path = shutil.which("chromium") or shutil.which("google-chrome")
with sync_playwright() as playwright:
    browser = playwright.chromium.launch(executable_path=browser_path, args=["--no-sandbox", "--disable-gpu"])
    page = browser.new_page(viewport={"width": 1120, "height": 900}, color_scheme="light")
    page.goto(report.as_uri())
    top = page.locator("#table").bounding_box()
    end = page.locator("#norms").bounding_box()
    assert top and end
    area = {"x": 0, "y": top["y"] - 10, "width": 1120, "height": end["y"] - top["y"] - 60}
    page.screenshot(path=folder / "report.png", clip=area, full_page=True)
    for name in SECTIONS:
        page.locator(f"#{name}").screenshot(path=folder / "pictures" / f"{name}.png")
    browser.close()
