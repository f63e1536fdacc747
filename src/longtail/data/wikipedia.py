"""Wikipedia's category graph as a hierarchy, from the SQL dump files of any wiki.

Needs the dumps of `category`, `page` and `categorylinks`, and for dumps since 2025 also `linktarget`, from
https://dumps.wikimedia.org (`enwiki-20230301-category.sql.gz` ...). They are read as a stream, without MySQL. A node is
a category: its id is its title; its name and text are the title with spaces.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from longtail.arrays import AnyArray, Bools, Ints, Longs
from longtail.data.hierarchy import Hierarchy
from longtail.data.opening import reading
from longtail.data.wikipedia_sql import SqlRows, SqlTable, open_table
from longtail.errors import DataError, counted

CATEGORY_NAMESPACE = 14
UNKNOWN = -1
TABLES = ("category", "page", "categorylinks", "linktarget")

# Categories for the maintenance of English Wikipedia, which are not topics. Regular expressions, searched in the name
# with spaces. They are narrow on purpose: "Articles of association" is a topic.
META = (
    r"^(Wikipedia|Wikipedians|WikiProject|Wikidata)\b",
    r"\b(WikiProject|Wikipedians|Wikipedia sockpuppets)\b",
    r"^(All |Lists of )?[Aa]rticles (with|without|needing|lacking|containing|contradicting|having|using|that|to be|"
    r"requiring|requested|incorporating|covered|created|sourced|tagged|prone|slanted|marked|nominated|in need|"
    r"for|from|by quality|by importance|missing|imported|copied|undergoing|proposed|moved|linked)\b",
    r"^All (accuracy disputes|BLP|NPOV|Wikipedia|category|copied|dead-?end|disambiguation|free|list|non-free|"
    r"orphaned|pages|portals|redirect|self-published|set index|stub|uncategorized|unreferenced|unassessed)\b",
    r"^Pages (with|without|using|that|containing|where|calling|including|transcluding|missing|needing|lacking|"
    r"tagged|automatically|incorrectly|to import|in non-existent|which use)\b",
    r"^Categories (for|by|requiring|needing|with|without|that|using|to be|lacking|which|not in|populated)\b",
    r"^(Hidden|Tracking|Maintenance|Container|Template|Monthly|Clean-?up|Backlog|Empty|Redirect|Noindexed|"
    r"Disambiguation|Stub|Soft redirected|Wikipedia|Diffusing|Non-diffusing) categor(y|ies)\b",
    r"^(CS1|Webarchive|Commons category|Commons link|Short description|Coordinates (on|not on) Wikidata|"
    r"EngvarB|Harv and Sfn|Infobox|Infoboxes|Interlanguage link|Lang and lang-xx)\b",
    r"^Use (dmy|mdy|ymd|list-defined|shortened|Harvard)\b",
    r"^Use [\w ]*English\b",
    r"^User (templates|pages|scripts|talk|categories|boxes|[a-z]{2,3}(-[0-5N])?$)",
    r"^(Userboxes|Userspace|Users (by|who|with))\b",
    r"^Templates? ",
    r" (templates|template redirects|navigational boxes|user templates|userboxes|infoboxes)$",
    r"^Redirects (from|to|with|connected|of|that|in|for)\b",
    r"^(Printworthy|Unprintworthy|Avoided double) redirects\b",
    r"^Disambiguation pages\b",
    r" (disambiguation pages|redirects)$",
    r"^Stubs?$| stubs$",
    r"-(Class|importance) .*\b(articles|pages)$",
    r"^(Accuracy disputes|BLP articles|NPOV disputes|Orphaned articles|Unreferenced BLPs|Dead-end pages|"
    r"Failed verification|Self-published work|Vague or ambiguous|Uncategorized|Underpopulated)\b",
    r"^(AfC|AfD|AFC|AFD|Declined AfC|Draft articles|Drafts about|Non-free|Fair use|Featured (articles|lists|"
    r"pictures|portals|topics)|Good articles|Candidates for (speedy|deletion))\b",
)


def read_wikipedia(source: str | Path | Sequence[str | Path], *, meta: Sequence[str] = META) -> Hierarchy:
    """Reads categories and their parent categories.

    Args:
        source: a folder with the dump files of one wiki and day, or the files themselves.
        meta: regular expressions; categories whose name matches one are left out.

    Returns:
        The hierarchy.

    Raises:
        DataError: a dump is missing or damaged, or a pattern is not a regular expression.
    """
    meta_name = _pattern(meta)
    paths = _find(source)
    with reading(paths["categorylinks"]):
        return _read(paths, meta_name)


def _read(paths: dict[str, Path], meta_name: re.Pattern[str]) -> Hierarchy:
    tables = {name: open_table(path, name) for name, path in paths.items()}
    links = tables["categorylinks"]
    by_target = "cl_target_id" in links.columns
    if by_target and "cl_to" not in links.columns and "linktarget" not in tables:
        raise DataError(
            "these links name their category by cl_target_id, so linktarget.sql.gz of the same day is needed",
            links.path,
        )
    titles: dict[bytes, int] = {}
    for batch in tables["category"].batches(("cat_title",)):
        for title in batch.strings("cat_title", np.arange(len(batch))):
            titles.setdefault(title, len(titles))
    pages = _Lookup(tables["page"], ("page_id", "page_namespace", "page_title"), titles, new=True)
    targets = (
        _Lookup(tables["linktarget"], ("lt_id", "lt_namespace", "lt_title"), titles)
        if by_target and "linktarget" in tables
        else None
    )
    child, parent, dropped = _edges(links, titles, pages, targets)
    notes = []
    if dropped:
        unlisted = "between categories that the dump does not list"
        notes.append(f"{counted(dropped, f'link {unlisted} was', f'links {unlisted} were')} dropped")
    return _without_meta(titles, child, parent, meta_name, _wiki(links.path), notes)


class _Lookup:
    """Maps the ids of a table's categories to nodes."""

    def __init__(
        self, table: SqlTable, columns: tuple[str, str, str], titles: dict[bytes, int], new: bool = False
    ) -> None:
        keys, nodes = array("q"), array("i")
        key, namespace, title = columns
        for batch in table.batches(columns):
            rows = np.flatnonzero(batch.integers(namespace) == CATEGORY_NAMESPACE)
            keys.extend(batch.integers(key)[rows].tolist())
            for name in batch.strings(title, rows):
                nodes.append(titles.setdefault(name, len(titles)) if new else titles.get(name, UNKNOWN))
        unordered = np.asarray(keys, dtype=np.int64)
        order = np.argsort(unordered, kind="stable")
        self.keys: Longs = unordered[order]
        self.nodes: Ints = np.asarray(nodes, dtype=np.int32)[order]

    def __call__(self, keys: Longs) -> Ints:
        """(keys,) the node of each id; -1 where it has none."""
        if len(self.keys) == 0:
            return np.full(len(keys), UNKNOWN, dtype=np.int32)
        place = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        return np.where(self.keys[place] == keys, self.nodes[place], np.int32(UNKNOWN))


def _edges(
    links: SqlTable, titles: dict[bytes, int], pages: _Lookup, targets: _Lookup | None
) -> tuple[Ints, Ints, int]:
    """Children, parents, and the number of links to or from a category that the dump does not list."""
    named = "cl_to" in links.columns
    columns = ("cl_from", "cl_type", *(["cl_to"] if named else []), *(["cl_target_id"] if targets else []))
    children: list[AnyArray] = [np.zeros(0, dtype=np.int32)]
    parents: list[AnyArray] = [np.zeros(0, dtype=np.int32)]
    for batch in links.batches(columns):
        rows = np.flatnonzero(batch.equal("cl_type", b"subcat"))
        children.append(pages(batch.integers("cl_from")[rows]))
        parents.append(_parents(batch, rows, titles, targets, named))
    child, parent = np.concatenate(children), np.concatenate(parents)
    known: Bools = (child != UNKNOWN) & (parent != UNKNOWN)
    return child[known], parent[known], int((~known).sum())


def _parents(batch: SqlRows, rows: AnyArray, titles: dict[bytes, int], targets: _Lookup | None, named: bool) -> Ints:
    """The category that each link points to: by title where it has one, else by link target."""
    if not named:
        assert targets is not None
        return targets(batch.integers("cl_target_id")[rows])
    names = batch.strings("cl_to", rows)
    parents = np.array([titles.get(name, UNKNOWN) for name in names], dtype=np.int32)
    empty = np.array([not name for name in names], dtype=np.bool_)
    if empty.any():
        if targets is None:
            raise DataError(
                "some links have no cl_to, so linktarget.sql.gz of the same day is needed",
                batch.path,
                batch.line,
            )
        parents[empty] = targets(batch.integers("cl_target_id")[rows][empty])
    return parents


def _without_meta(
    titles: dict[bytes, int], child: Ints, parent: Ints, meta: re.Pattern[str], wiki: str, notes: list[str]
) -> Hierarchy:
    """The hierarchy without categories whose name matches the pattern."""
    ids: list[str] = []
    names: list[str] = []
    new_node = np.full(len(titles), UNKNOWN, dtype=np.int32)
    for title, node in titles.items():
        text = title.decode("utf-8", "backslashreplace")
        name = text.replace("_", " ")
        if not meta.search(name):
            new_node[node] = len(ids)
            ids.append(text)
            names.append(name)
    child, parent = new_node[child], new_node[parent]
    kept: Bools = (child != UNKNOWN) & (parent != UNKNOWN)
    if len(ids) < len(titles):
        left_out = counted(len(titles) - len(ids), "meta category was", "meta categories were")
        notes.append(f"{left_out} left out with {counted(int((~kept).sum()), 'link')}")
    return Hierarchy(
        name=wiki, ids=ids, names=names, texts=names, child=child[kept], parent=parent[kept], notes=tuple(notes)
    )


def _pattern(meta: Sequence[str]) -> re.Pattern[str]:
    for pattern in meta:
        try:
            re.compile(pattern)
        except re.error as error:
            raise DataError(f"the meta pattern {pattern!r} is not a regular expression: {error}") from None
    return re.compile("|".join(f"(?:{pattern})" for pattern in meta) or r"(?!)")


def _find(source: str | Path | Sequence[str | Path]) -> dict[str, Path]:
    """The dump file of each table."""
    if isinstance(source, str | Path):
        folder = Path(source)
        if not folder.is_dir():
            raise DataError("no such folder; give the folder with the SQL dump files of one wiki", folder)
        files = sorted(folder.iterdir())
    else:
        files = [Path(path) for path in source]
    found: dict[str, Path] = {}
    for path in files:
        name = re.search(r"(?:^|-)(\w+)\.sql(?:\.gz|\.xz)?$", path.name)
        if name is None or name[1] not in TABLES:
            continue
        if name[1] in found:
            raise DataError(f"is a second dump of {name[1]} beside {found[name[1]].name}; keep one", path)
        found[name[1]] = path
    missing = [table for table in TABLES[:3] if table not in found]
    if missing:
        where = str(source) if isinstance(source, str | Path) else ", ".join(str(path) for path in files)
        raise DataError(f"no dump of {missing[0]} ({missing[0]}.sql.gz) in {where or 'the files given'}")
    return found


def _wiki(path: Path) -> str:
    """ "enwiki-20230301" of "enwiki-20230301-categorylinks.sql.gz"."""
    return path.name.partition(".")[0].rpartition("-")[0] or "wikipedia"
