"""Every part names its papers, and a recipe cites exactly those of its parts."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from longtail import catalogue, papers
from longtail.citations import papers_of
from longtail.nn import extra

PAPERS = {name: paper for name, paper in vars(papers).items() if isinstance(paper, papers.Paper)}


def keys(recipe: str, auto: str | None = None) -> list[str]:
    return [paper.key for paper in papers_of(recipe, auto)]


def test_every_part_of_the_catalogue_names_its_papers() -> None:
    """A new part: papers: ClassVar[tuple[Paper, ...]]."""
    named = set()
    for parts in (catalogue.LEARNERS, catalogue.TAIL_METHODS):
        for name in parts:
            assert parts.load(name).papers or name == "predictions", name  # which are those of another tool
            named |= set(parts.load(name).papers)
    assert named | {papers.SENTENCE_BERT, papers.MINILM} == set(PAPERS.values()), "a paper that no part names"


def test_no_docstring_cites_beside_the_entry() -> None:
    for parts in (catalogue.LEARNERS, catalogue.TAIL_METHODS):
        for name in parts:
            assert "Paper:" not in (parts.load(name).__doc__ or ""), name


def test_entries_are_whole() -> None:
    for name, paper in PAPERS.items():
        entry = paper.bibtex
        assert re.match(rf"@(inproceedings|article|incollection|misc)\{{{paper.key},\n", entry)
        assert entry.count("{") == entry.count("}"), name
        named = () if entry.startswith("@misc") else ("author",)  # a blind submission has no authors
        for field in (*named, "title", "year"):
            assert f"  {field} = {{" in entry, (name, field)
        year = re.search(r"year = \{(\d{4})\}", entry)
        assert (year is not None and year[1] in paper.key and year[1] in paper.citation) or name == "RANKNET_TAUG"


def test_what_is_no_entry_is_refused() -> None:
    for text in ("Doe: Some Title (2026)", "@misc{doe2026,\n  author = {Doe}\n}"):
        with pytest.raises(ValueError, match="BibTeX"):
            papers.Paper(text)


@pytest.mark.parametrize(
    ("recipe", "expected"),
    [
        ("parabel", ["prabhu2018parabel"]),
        ("parabel + rerank + ranknet", ["prabhu2018parabel", "submission2020improving"]),
        ("pfastrexml + centroid", ["jain2016extreme"]),
        ("dpr(encoder='minilm')", ["karpukhin2020dense", "reimers2019sentence", "wang2020minilm"]),
        ("parabel + ensemble(tail_model='bm25')", ["prabhu2018parabel", "buvanesh2024enhancing", "robertson2009bm25"]),
        (
            "renee(encoder='bag', init_from='dpr(encoder=\"bag\")')",
            ["jain2023renee", "zhang2025elmo", "karpukhin2020dense"],
        ),
        ("centroid + calibrate", ["rocchio1971relevance", "zadrozny2002transforming"]),
        ('centroid + calibrate(curve="platt")', ["rocchio1971relevance", "platt1999probabilistic"]),
    ],
)
def test_exactly_the_papers_of_the_parts(recipe: str, expected: list[str]) -> None:
    assert keys(recipe) == expected


def test_a_teacher_is_cited_too() -> None:
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
    assert keys("dpr") == ["karpukhin2020dense", *(("reimers2019sentence", "wang2020minilm") if folder else ())]
    # and what a model was trained with counts, not what is found here
    assert keys("dpr", "bag") == keys("dpr(encoder='bag')")
    assert keys("dpr", "minilm") == keys("dpr(encoder='minilm')")


def test_a_file_that_is_gone_is_no_matter() -> None:
    assert keys("astec(word_vectors='gone.txt')") == keys("astec")
