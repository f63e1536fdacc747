"""Every builder, stopped after each thing that it finishes, goes on to what an undisturbed build writes."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from longtail.data.builders.clicks import ClickSettings, build_clicks
from longtail.data.builders.output import Built
from longtail.data.builders.passages import build_passages, find_files
from longtail.data.builders.prefixes import PrefixSettings, build_prefixes
from longtail.data.builders.seealso import SeeAlsoSettings, build_seealso
from longtail.data.labels import Propensity

WORDS = ("cheap", "nike", "shoes", "new", "york", "times", "map", "of", "rome")
Build = Callable[[Path], Built]


def phrases(number: int) -> list[str]:
    rng = random.Random(0)
    return [" ".join(rng.choices(WORDS, k=rng.randint(1, 3))) for _ in range(number)]


def prefixes(folder: Path) -> Build:
    log = folder / "log.txt"
    days = ["2006-03-01", "2006-05-31"]
    lines = [f"{row}\t{query}\t{days[row % 5 == 0]} 07:17:12\t\t" for row, query in enumerate(phrases(300))]
    log.write_text("\n".join(["AnonID\tQuery\tQueryTime\tItemRank\tClickURL", *lines]))
    return lambda out: build_prefixes([log], out, PrefixSettings(), propensity=Propensity(), accepted=True)


def clicks(folder: Path) -> Build:
    log, titles = folder / "log.tsv", folder / "titles.tsv"
    log.write_text("".join(f"{query}\td{len(query)}\n" for query in phrases(300)))
    titles.write_text("".join(f"d{number}\ttitle {number}\n" for number in range(30)))
    return lambda out: build_clicks(log, out, ClickSettings(), titles=titles, propensity=Propensity())


def passages(folder: Path) -> Build:
    (folder / "qrels").mkdir()
    lines = [json.dumps({"_id": str(row), "text": text}) for row, text in enumerate(phrases(60))]
    for name in ("corpus", "queries"):
        (folder / f"{name}.jsonl").write_text("\n".join(lines))
    for split, first in (("train", 0), ("test", 30)):
        (folder / "qrels" / f"{split}.tsv").write_text("".join(f"{first + row}\t{row}\t1\n" for row in range(30)))
    return lambda out: build_passages(find_files(folder), out, propensity=Propensity())


def dump(folder: Path) -> Build:
    path = folder / "wiki.xml"
    page = "<page><title>{0}</title><ns>0</ns><text>{0}\n== See also ==\n* [[{1}]]\n* [[{2}]]</text></page>\n"
    pages = [page.format(row, (7 * row + 3) % 60, (row + 1) % 60) for row in range(60)]
    path.write_text("".join(["<mediawiki>", *pages, "</mediawiki>"]))
    return lambda out: build_seealso(path, out, SeeAlsoSettings(), propensity=Propensity())


def manuals(folder: Path) -> Build:
    (folder / "man" / "man1").mkdir(parents=True)
    page = ".SH NAME\np{0} \\- text\n.SH SEE ALSO\n.BR p{1} (1), p{2}(1)\n"
    for row in range(60):
        text = page.format(row, (7 * row + 3) % 60, (row + 1) % 60)
        (folder / "man" / "man1" / f"p{row}.1").write_text(text)
    return lambda out: build_seealso(folder / "man", out, SeeAlsoSettings(), manpages=True, propensity=Propensity())


class Killed(BaseException):
    """The process ended."""


@contextmanager
def killed_after_one(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The process ends as soon as a file or a stage of the unfinished build has got its name."""
    rename = Path.rename

    def once(self: Path, target: Path) -> Path:
        done = rename(self, target)
        if any(part.endswith(".building") for part in target.parts):
            raise Killed
        return done

    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", once)
        yield


def content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.glob("*.gz"))}


def test_two_processes_write_the_same_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stages of many files, and texts looked up from each process; the processes take most of this test's time."""
    monkeypatch.setattr("longtail.data.builders.buckets.BUCKET", 2_000)
    for source in (prefixes, clicks):
        (folder := tmp_path / source.__name__).mkdir()
        build = source(folder)
        one = build(folder / "one")
        with monkeypatch.context() as patch:
            patch.setattr(f"longtail.data.builders.{source.__name__}.processes_for", lambda size: 2)
            two = build(folder / "two")
        assert one.counts == two.counts and content(folder / "one") == content(folder / "two")


@pytest.mark.parametrize("source", [prefixes, clicks, passages, dump, manuals], ids=lambda source: source.__name__)
def test_stopped_after_every_step(
    source: Callable[[Path], Build], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("longtail.data.builders.buckets.BUCKET", 2_000)  # several files of a stage
    build = source(tmp_path)
    whole = build(tmp_path / "whole")
    stops, built = 0, None
    while built is None:
        assert stops < 400
        try:
            with killed_after_one(monkeypatch):
                built = build(tmp_path / "stopped")
        except Killed:
            stops += 1
            assert not (tmp_path / "stopped").exists()
    assert stops >= 3 and built.counts == whole.counts and built.notes == whole.notes
    assert content(tmp_path / "stopped") == content(tmp_path / "whole")
    assert not (tmp_path / ".stopped.building").exists()
