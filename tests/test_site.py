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


@pytest.mark.parametrize("added", [("lost.md", "# Lost\n"), ("data.md", "[nowhere](nowhere.md)\n")])
def test_a_lost_page_or_link_fails_the_build(added: tuple[str, str], tmp_path: Path) -> None:
    shutil.copytree(ROOT / "docs", tmp_path / "docs")
    for name in ("mkdocs.yml", "README.md"):
        shutil.copy(ROOT / name, tmp_path / name)
    with (tmp_path / "docs" / added[0]).open("a") as file:
        file.write(added[1])
    done = built(tmp_path, tmp_path / "site")
    assert done.returncode != 0 and added[0] in done.stderr
