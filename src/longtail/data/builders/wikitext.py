"""Wiki markup: the links of a section, and plain text."""

from __future__ import annotations

import html
import re

# No pattern may read a text again from each of its places: quantifiers have limits, or give nothing back (*+), and what
# has a beginning and an end is cut out by `_without`.
READ = 40_000  # letters of an article's markup that are made plain: more than a learner reads
COMMENT = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)
REMARK = r"<!--(?:(?!-->).)*+-->"  # matches in one way only: two ways for each of n comments would be 2^n ways
HEADING = re.compile(r"^==(?!=).*$", re.MULTILINE)
LINK = re.compile(r"\[\[([^\[\]|#]*)(?:#[^\[\]|]*)?(?:\|[^\[\]]*)?\]\]")
ANNOTATED = re.compile(r"\{\{\s*(?:annotated link|anl|al)\s*\|\s*(?:1\s*=\s*)?([^|{}#]+)", re.IGNORECASE)
EMPTY = re.compile(r"<ref\b[^<>]{0,1000}/>", re.IGNORECASE)
SPANS = [
    (re.compile(rf"<{name}\b", re.IGNORECASE), re.compile(rf"</{name}\s{{0,20}}>", re.IGNORECASE))
    for name in ("ref", "math", "gallery", "timeline", "code")
]
TABLE = (re.compile(r"^[ \t]*+:*+\{\|", re.MULTILINE), re.compile(r"^[ \t]*+\|\}", re.MULTILINE))
TEMPLATE = re.compile(r"\{\{[^{}]*\}\}")
FILE = re.compile(r"\[\[\s*(?:file|image|category)\s*:(?:[^\[\]]|\[\[[^\[\]]*\]\])*\]\]", re.IGNORECASE)
SHOWN = re.compile(r"\[\[(?:[^\[\]|]*\|)?([^\[\]|]*)\]\]")
ADDRESS = re.compile(r"\[(?:https?:|//)[^\s\]]{0,2000}+\s{0,20}+([^\]\n]{0,1000}+)\]")
TAG = re.compile(r"</?[a-zA-Z][^<>]*>")
MARKS = re.compile(
    r"'{2,}|^=+\s*|(?<!\s)\s++=++[^\S\n]*+$|(?<![=\s])=++[^\S\n]*+$|^[*#:;]+\s*|__[A-Z]+__", re.MULTILINE
)
DISAMBIGUATION = re.compile(
    r"\{\{\s{0,20}+(?:disambig\w{0,50}|dab|hndis|geodis|[\w \-]{0,100}disambiguation[\w \-]{0,100})\s{0,20}[|}]", re.I
)
LISTS = ("List of ", "Lists of ", "Outline of ", "Index of ", "Timeline of ")


def title_of(target: str) -> str:
    """The title that a link leads to.

    Args:
        target: as it is written, without what follows # or |.

    Returns:
        Single spaces, the first letter large; "" for a link into the same page.
    """
    words = " ".join(target.replace("_", " ").split()).removeprefix(":").strip()
    return words[:1].upper() + words[1:]


def without_section(markup: str, section: re.Pattern[str]) -> tuple[str, str]:
    """Cuts a section out of an article, from its heading to the next heading of level 2, and others of the same name.

    Args:
        markup: of the article.
        section: the pattern of the heading's line, see `heading`.

    Returns:
        The article without the section, and the section; "" where there is none.
    """
    rest, cut, at = list[str](), list[str](), 0
    while found := section.search(markup, at):
        following = HEADING.search(markup, found.end())
        rest.append(markup[at : found.start()])
        at = following.start() if following else len(markup)
        cut.append(markup[found.end() : at])
    return "".join([*rest, markup[at:]]), "".join(cut)


def heading(name: str) -> re.Pattern[str]:
    """The pattern of a heading of level 2.

    Args:
        name: of the section, such as "See also".

    Returns:
        A pattern that takes any case and spacing, and comments behind the heading.
    """
    words = r"\s+".join(map(re.escape, name.split()))
    return re.compile(rf"^==[ \t]*{words}[ \t]*==[ \t]*+(?:{REMARK}[ \t]*+)*+\r?$", re.IGNORECASE | re.MULTILINE)


def links_of(section: str) -> list[str]:
    """The titles that the list items of a section lead to.

    Args:
        section: markup. Templates hide links; only those of an annotated link are taken.

    Returns:
        Titles, in order; other namespaces are among them.
    """
    found: list[str] = []
    for line in COMMENT.sub("", section).splitlines():
        if line.lstrip()[:1] in ("*", "#", ":") and line.strip():
            places = [(match.start(), match[1]) for pattern in (LINK, ANNOTATED) for match in pattern.finditer(line)]
            found.extend(title_of(target) for _, target in sorted(places))
    return [title for title in found if title]


def plain(markup: str, words: int) -> str:
    """The beginning of an article without markup.

    Args:
        markup: of the article.
        words: how many to keep.

    Returns:
        Words, separated by single spaces.
    """
    text = EMPTY.sub(" ", COMMENT.sub(" ", markup[:READ]))
    for span in SPANS:
        text = _without(text, *span)
    for _ in range(12):  # templates within templates
        text, found = TEMPLATE.subn(" ", text)
        if not found:
            break
    text = FILE.sub(" ", _without(text, *TABLE))
    text = ADDRESS.sub(r"\1", SHOWN.sub(r"\1", text))
    text = MARKS.sub("", TAG.sub(" ", text))
    return " ".join(html.unescape(text).split()[:words])


def _without(text: str, opening: re.Pattern[str], closing: re.Pattern[str]) -> str:
    """The text without what stands from each opening to the closing after it. The first that is not closed ends it."""
    parts: list[str] = []
    at = 0
    while (begin := opening.search(text, at)) and (end := closing.search(text, begin.end())):
        parts.append(text[at : begin.start()])
        at = end.end()
    return " ".join([*parts, text[at:]])


def is_disambiguation(title: str, markup: str) -> bool:
    """Whether a page only tells meanings apart.

    Args:
        title: of the page.
        markup: of the page.

    Returns:
        True for such a page.
    """
    return title.endswith("(disambiguation)") or DISAMBIGUATION.search(markup) is not None
