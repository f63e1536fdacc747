"""A real browser for the tests of pages; the fixture `browser` is in conftest.py."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from typing import Any

import pytest

ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]

# The contrast of every visible piece of text with the ground under it: the lowest, its text, and how many were seen.
CONTRAST = """() => {
  const canvas = document.createElement('canvas').getContext('2d', {willReadFrequently: true});
  const rgb = (colour) => {
    canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data];
  };
  const light = ([r, g, b]) => [r, g, b].map((v) => v / 255)
    .map((v) => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const ground = (element) => {
    for (; element; element = element.parentElement) {
      const colour = rgb(getComputedStyle(element).backgroundColor);
      if (colour[3] === 255) return colour;
    }
    throw new Error('nothing is painted');
  };
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  let worst = [99, ''], seen = 0;
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    if (!walker.currentNode.textContent.trim() || !element.checkVisibility()) continue;
    if (element.closest('script, noscript, .unseen-text, .apart, .skip')) continue;
    const style = getComputedStyle(element);
    const ink = light(rgb(element.closest('svg') ? style.fill : style.color)), under = light(ground(element));
    const ratio = (Math.max(ink, under) + 0.05) / (Math.min(ink, under) + 0.05);
    seen += 1;
    if (ratio < worst[0]) worst = [ratio, element.className + ': ' + walker.currentNode.textContent.slice(0, 60)];
  }
  return [...worst, seen];
}"""


def launched() -> Iterator[Any]:
    """Debian's Chromium or Google's; skips where there is none, unless one is asked for."""
    found = shutil.which("chromium") or shutil.which("google-chrome") or shutil.which("chromium-browser")
    if found is None:
        if os.environ.get("LONGTAIL_NEEDS_BROWSER"):
            pytest.fail("LONGTAIL_NEEDS_BROWSER is set, but neither chromium nor google-chrome is installed")
        pytest.skip("no chromium or google-chrome to open the page in")
    sync_api = pytest.importorskip("playwright.sync_api")
    with sync_api.sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=found, args=ARGUMENTS)
        yield running
        running.close()
