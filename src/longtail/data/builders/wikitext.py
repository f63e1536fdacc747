"""Wiki markup: the links of a section, and plain text."""

from __future__ import annotations

import html
import re

READ = 40_000  # letters of an article's markup that are made plain: more than a learner reads
COMMENT = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)
HEADING = re.compile(r"^==(?!=).*$", re.MULTILINE)
LINK = re.compile(r"\[\[([^\[\]|#]*)(?:#[^\[\]|]*)?(?:\|[^\[\]]*)?\]\]")
ANNOTATED = re.compile(r"\{\{\s*(?:annotated link|al)\s*\|\s*(?:1\s*=\s*)?([^|{}#]+)", re.IGNORECASE)
REFERENCE = re.compile(
    r"<ref\b[^>]*?/>|<ref\b.*?</ref\s*>|<(math|gallery|timeline|code)\b.*?</\1\s*>", re.DOTALL | re.I
)
TEMPLATE = re.compile(r"\{\{[^{}]*\}\}")
TABLE = re.compile(r"^\s*:*\{\|.*?^\s*\|\}", re.DOTALL | re.MULTILINE)
FILE = re.compile(r"\[\[\s*(?:file|image|category)\s*:(?:[^\[\]]|\[\[[^\[\]]*\]\])*\]\]", re.IGNORECASE)
SHOWN = re.compile(r"\[\[(?:[^\[\]|]*\|)?([^\[\]|]*)\]\]")
ADDRESS = re.compile(r"\[(?:https?:|//)\S*\s*([^\]]*)\]")
TAG = re.compile(r"</?[a-zA-Z][^<>]*>")
MARKS = re.compile(r"'{2,}|^=+\s*|\s*=+\s*$|^[*#:;]+\s*|__[A-Z]+__", re.MULTILINE)
DISAMBIGUATION = re.compile(r"\{\{\s*(?:disambig\w*|dab|hndis|geodis|[\w \-]*disambiguation[\w \-]*)\s*[|}]", re.I)
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
    """Cuts a section out of an article: from its heading to the next heading of level 2.

    Args:
        markup: of the article.
        section: the pattern of the heading's line, see `heading`.

    Returns:
        The article without the section, and the section; "" where there is none.
    """
    found = section.search(markup)
    if found is None:
        return markup, ""
    following = HEADING.search(markup, found.end())
    end = following.start() if following else len(markup)
    return markup[: found.start()] + markup[end:], markup[found.end() : end]


def heading(name: str) -> re.Pattern[str]:
    """The pattern of a heading of level 2.

    Args:
        name: of the section, such as "See also".

    Returns:
        A pattern that takes any case and spacing, and comments behind the heading.
    """
    words = r"\s+".join(map(re.escape, name.split()))
    return re.compile(rf"^==[ \t]*{words}[ \t]*==[ \t]*(?:<!--.*?-->[ \t]*)*\r?$", re.IGNORECASE | re.MULTILINE)


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
    text = REFERENCE.sub(" ", COMMENT.sub(" ", markup[:READ]))
    for _ in range(12):  # templates within templates
        text, found = TEMPLATE.subn(" ", text)
        if not found:
            break
    text = FILE.sub(" ", TABLE.sub(" ", text))
    text = ADDRESS.sub(r"\1", SHOWN.sub(r"\1", text))
    text = MARKS.sub("", TAG.sub(" ", text))
    return " ".join(html.unescape(text).split()[:words])


def is_disambiguation(title: str, markup: str) -> bool:
    """Whether a page only tells meanings apart.

    Args:
        title: of the page.
        markup: of the page.

    Returns:
        True for such a page.
    """
    return title.endswith("(disambiguation)") or DISAMBIGUATION.search(markup) is not None
