"""The site builds without a warning, and a page that nobody can find is one."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("mkdocs", reason="mkdocs is not installed")

ROOT = Path(__file__).parent.parent


def built(place: Path, out: Path) -> subprocess.CompletedProcess[str]:
    """As `make docs` builds it."""
    line = next(line for line in (ROOT / "Makefile").read_text().splitlines() if "mkdocs build" in line)
    options = shlex.split(line.partition("mkdocs")[2])
    return subprocess.run(
        [sys.executable, "-m", "mkdocs", *options, "--site-dir", str(out)],
        cwd=place,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
    )


def test_every_page_is_built_and_in_the_list(tmp_path: Path) -> None:
    done = built(ROOT, tmp_path / "site")
    assert done.returncode == 0, done.stderr
    pages = {path.relative_to(ROOT / "docs").with_suffix(".html") for path in (ROOT / "docs").rglob("*.md")}
    assert {*pages, Path("index.html"), Path("methods.html")} <= {
        path.relative_to(tmp_path / "site") for path in (tmp_path / "site").rglob("*.html")
    }


def test_a_lost_page_and_a_lost_link_fail_the_build(tmp_path: Path) -> None:
    """Each is a warning, and each warning fails it."""
    shutil.copytree(ROOT / "docs", tmp_path / "docs")
    for name in ("mkdocs.yml", "README.md"):
        shutil.copy(ROOT / name, tmp_path / name)
    added = {"lost.md": "# Lost\n", "data.md": "[nowhere](nowhere.md)\n"}
    for page, text in added.items():
        with (tmp_path / "docs" / page).open("a") as file:
            file.write(text)
    done = built(tmp_path, tmp_path / "site")
    assert done.returncode != 0 and all(page in done.stderr for page in added)
    assert "Aborted with 2 warnings in strict mode" in done.stdout
