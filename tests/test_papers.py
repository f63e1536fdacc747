"""Every part names its papers, and a recipe cites exactly those of its parts."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from longtail import catalogue, papers
from longtail.nn import extra


def keys(recipe: str) -> list[str]:
    return [re.match(r"@\w+\{(\w+),", entry)[1] for entry in papers.bibtex(recipe)]  # type: ignore[index]


def test_every_part_of_the_catalogue_has_its_papers() -> None:
    """A new part: add its papers to longtail/papers.py."""
    assert set(catalogue.LEARNERS) <= set(papers.LEARNERS)
    assert set(catalogue.TAIL_METHODS) <= set(papers.TAIL_METHODS)
    named = {key for found in (*papers.LEARNERS.values(), *papers.TAIL_METHODS.values()) for key in found}
    assert named | {"platt1999probabilistic", *papers.MINILM} == set(papers._ENTRIES)


def test_entries_are_whole() -> None:
    for key, entry in papers._ENTRIES.items():
        assert re.match(rf"@(inproceedings|article|incollection|misc)\{{{key},\n", entry)
        assert entry.count("{") == entry.count("}"), key
        named = () if entry.startswith("@misc") else ("author",)  # a blind submission has no authors
        for field in (*named, "title", "year"):
            assert f"  {field} = {{" in entry, (key, field)
        year = re.search(r"year = \{(\d{4})\}", entry)
        assert year is not None and year[1] in key


@pytest.mark.parametrize(
    ("recipe", "expected"),
    [
        ("parabel", ["prabhu2018parabel"]),
        ("parabel + rerank + ranknet", ["prabhu2018parabel", "submission2020improving"]),
        ("pfastrexml + centroid", ["jain2016extreme"]),
        ("dpr(encoder='minilm')", ["karpukhin2020dense", "reimers2019sentence", "wang2020minilm"]),
        ("parabel + ensemble(encoder='bm25')", ["prabhu2018parabel", "buvanesh2024enhancing", "robertson2009bm25"]),
        ("renee(encoder='bag', warm='dpr(encoder=\"bag\")')", ["jain2023renee", "karpukhin2020dense"]),
        ("centroid + calibrate", ["rocchio1971relevance", "zadrozny2002transforming"]),
        ('centroid + calibrate(curve="platt")', ["rocchio1971relevance", "platt1999probabilistic"]),
    ],
)
def test_exactly_the_papers_of_the_parts(recipe: str, expected: list[str]) -> None:
    assert keys(recipe) == expected


def test_a_teacher_is_cited_too() -> None:
    if "lever" not in catalogue.TAIL_METHODS:
        pytest.skip("no tail method with a teacher in this release")
    assert keys("parabel + lever(teacher='dpr(encoder=\"bag\")')") == [
        "prabhu2018parabel",
        "buvanesh2024enhancing",
        "karpukhin2020dense",
    ]
    assert keys("parabel + lever")[2:] == keys(catalogue.tail_class("lever")().teacher)
    assert keys("parabel + lever(teacher='some/folder')") == ["prabhu2018parabel", "buvanesh2024enhancing"]


@pytest.mark.parametrize("folder", [None, Path("weights")])
def test_the_encoder_that_auto_finds_is_cited(folder: Path | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extra, "minilm_folder", lambda: folder)
    assert keys("dpr") == ["karpukhin2020dense", *(papers.MINILM if folder else ())]
    # and what a model was trained with counts, not what is found here
    assert papers.bibtex("dpr", "bag") == papers.bibtex("dpr(encoder='bag')")
    assert papers.bibtex("dpr", "minilm") == papers.bibtex("dpr(encoder='minilm')")


def test_a_file_that_is_gone_is_no_matter() -> None:
    assert keys("astec(vectors='gone.txt')") == keys("astec")
