"""Wikipedia's category graph out of small dumps in the real format: old, new and in between."""

from __future__ import annotations

import gzip
import random
from pathlib import Path

import pytest

from longtail.data.hierarchy import Hierarchy, build
from longtail.data.wikipedia import META, read_wikipedia
from longtail.errors import DataError

CREATE = {
    "category": """CREATE TABLE `category` (
  `cat_id` int(10) unsigned NOT NULL AUTO_INCREMENT,
  `cat_title` varbinary(255) NOT NULL DEFAULT '',
  `cat_pages` int(11) NOT NULL DEFAULT 0,
  `cat_subcats` int(11) NOT NULL DEFAULT 0,
  `cat_files` int(11) NOT NULL DEFAULT 0,
  PRIMARY KEY (`cat_id`),
  UNIQUE KEY `cat_title` (`cat_title`),
  KEY `cat_pages` (`cat_pages`)
) ENGINE=InnoDB AUTO_INCREMENT=255889213 DEFAULT CHARSET=binary;""",
    "page": """CREATE TABLE `page` (
  `page_id` int(8) unsigned NOT NULL AUTO_INCREMENT,
  `page_namespace` int(11) NOT NULL DEFAULT 0,
  `page_title` varbinary(255) NOT NULL DEFAULT '',
  `page_is_redirect` tinyint(1) unsigned NOT NULL DEFAULT 0,
  `page_is_new` tinyint(1) unsigned NOT NULL DEFAULT 0,
  `page_random` double unsigned NOT NULL DEFAULT 0,
  `page_touched` binary(14) NOT NULL,
  `page_links_updated` varbinary(14) DEFAULT NULL,
  `page_latest` int(8) unsigned NOT NULL DEFAULT 0,
  `page_len` int(8) unsigned NOT NULL DEFAULT 0,
  `page_content_model` varbinary(32) DEFAULT NULL,
  `page_lang` varbinary(35) DEFAULT NULL,
  PRIMARY KEY (`page_id`),
  UNIQUE KEY `page_name_title` (`page_namespace`,`page_title`)
) ENGINE=InnoDB DEFAULT CHARSET=binary;""",
    "old": """CREATE TABLE `categorylinks` (
  `cl_from` int(8) unsigned NOT NULL DEFAULT 0,
  `cl_to` varbinary(255) NOT NULL DEFAULT '',
  `cl_sortkey` varbinary(230) NOT NULL DEFAULT '',
  `cl_timestamp` timestamp NOT NULL DEFAULT current_timestamp() ON UPDATE current_timestamp(),
  `cl_sortkey_prefix` varbinary(255) NOT NULL DEFAULT '',
  `cl_collation` varbinary(32) NOT NULL DEFAULT '',
  `cl_type` enum('page','subcat','file') NOT NULL DEFAULT 'page',
  PRIMARY KEY (`cl_from`,`cl_to`),
  KEY `cl_sortkey` (`cl_to`,`cl_type`,`cl_sortkey`,`cl_from`)
) ENGINE=InnoDB DEFAULT CHARSET=binary;""",
    "both": """CREATE TABLE `categorylinks` (
  `cl_from` int(8) unsigned NOT NULL DEFAULT 0,
  `cl_to` varbinary(255) NOT NULL DEFAULT '',
  `cl_sortkey` varbinary(230) NOT NULL DEFAULT '',
  `cl_timestamp` timestamp NOT NULL DEFAULT current_timestamp() ON UPDATE current_timestamp(),
  `cl_sortkey_prefix` varbinary(255) NOT NULL DEFAULT '',
  `cl_collation` varbinary(32) NOT NULL DEFAULT '',
  `cl_type` enum('page','subcat','file') NOT NULL DEFAULT 'page',
  `cl_collation_id` smallint(5) unsigned NOT NULL DEFAULT 0,
  `cl_target_id` bigint(20) unsigned DEFAULT NULL,
  PRIMARY KEY (`cl_from`,`cl_to`)
) ENGINE=InnoDB DEFAULT CHARSET=binary;""",
    "new": """CREATE TABLE `categorylinks` (
  `cl_from` int(8) unsigned NOT NULL DEFAULT 0,
  `cl_sortkey` varbinary(230) NOT NULL DEFAULT '',
  `cl_timestamp` timestamp NOT NULL DEFAULT current_timestamp() ON UPDATE current_timestamp(),
  `cl_sortkey_prefix` varbinary(255) NOT NULL DEFAULT '',
  `cl_type` enum('page','subcat','file') NOT NULL DEFAULT 'page',
  `cl_collation_id` smallint(5) unsigned NOT NULL DEFAULT 0,
  `cl_target_id` bigint(20) unsigned NOT NULL,
  PRIMARY KEY (`cl_from`,`cl_target_id`)
) ENGINE=InnoDB DEFAULT CHARSET=binary;""",
    "linktarget": """CREATE TABLE `linktarget` (
  `lt_id` bigint(20) unsigned NOT NULL AUTO_INCREMENT,
  `lt_namespace` int(11) NOT NULL,
  `lt_title` varbinary(255) NOT NULL,
  PRIMARY KEY (`lt_id`),
  UNIQUE KEY `lt_namespace_title` (`lt_namespace`,`lt_title`)
) ENGINE=InnoDB DEFAULT CHARSET=binary;""",
}
SORTKEY = b"'\xdc\x8d),(7,\\'x\\',\\'subcat\\'),(\x04\xff\\\\'"  # binary, with what looks like the end of a tuple

# title: page id (None: a category with members but without a page of its own)
PAGES = {
    "Sports": 100,
    "Ball_games": 101,
    "Football": 102,
    "Football_(\\'soccer\\'),_\\\"the\\\"_game": 103,
    "Fußball": 104,
    "Team_sports": None,
    "Wikipedia_missing_topics": 105,
    "Articles_with_short_description": 106,
    "Articles_of_association": 107,
}
LINKS = [  # (child, parent, kind)
    ("Ball_games", "Sports", "subcat"),
    ("Football", "Ball_games", "subcat"),
    ("Football", "Team_sports", "subcat"),
    ("Football_(\\'soccer\\'),_\\\"the\\\"_game", "Football", "subcat"),
    ("Fußball", "Football_(\\'soccer\\'),_\\\"the\\\"_game", "subcat"),
    ("Football", "Wikipedia_missing_topics", "subcat"),
    ("Articles_with_short_description", "Wikipedia_missing_topics", "subcat"),
    ("Articles_of_association", "Sports", "subcat"),
    (9, "Football", "page"),  # an article
    (8, "Football", "file"),
    (77777, "Football", "subcat"),  # a page the dump does not list
]
TARGET = {title: 5000 + place for place, title in enumerate(PAGES)}
EXPECTED = {
    ("Ball_games", "Sports"),
    ("Football", "Ball_games"),
    ("Football", "Team_sports"),
    ("Football_('soccer'),_\"the\"_game", "Football"),
    ("Fußball", "Football_('soccer'),_\"the\"_game"),
    ("Articles_of_association", "Sports"),
}


def dump(folder: Path, table: str, create: str, rows: list[bytes]) -> Path:
    path = folder / f"xxwiki-20230301-{table}.sql.gz"
    half = len(rows) // 2
    inserts = [
        b"INSERT INTO `%s` VALUES %s;\n" % (table.encode(), b",".join(part)) for part in (rows[:half], rows[half:])
    ]
    head = f"-- MySQL dump 10.19\n\nDROP TABLE IF EXISTS `{table}`;\n{create}\n\nLOCK TABLES `{table}` WRITE;\n"
    path.write_bytes(gzip.compress(head.encode() + b"".join(inserts) + b"UNLOCK TABLES;\n-- Dump completed\n"))
    return path


def link(schema: str, child: str | int, parent: str, kind: str, place: int) -> bytes:
    source = child if isinstance(child, int) else PAGES[child]
    title, target = parent.encode(), b"%d" % TARGET[parent]
    middle = b"'2014-11-20 17:57:05',''"
    collation = b"'uca-default-u-kn'"
    if schema == "old":
        return b"(%d,'%s',%s,%s,%s,'%s')" % (source, title, SORTKEY, middle, collation, kind.encode())
    if schema == "new":
        return b"(%d,%s,%s,'%s',1,%s)" % (source, SORTKEY, middle, kind.encode(), target)
    if place % 2:  # already moved to its target
        title, collation = b"", b"''"
    else:
        target = b"NULL"
    return b"(%d,'%s',%s,%s,%s,'%s',1,%s)" % (source, title, SORTKEY, middle, collation, kind.encode(), target)


def wiki(folder: Path, schema: str) -> Path:
    folder.mkdir(exist_ok=True)
    titles = [title.encode() for title in PAGES]
    dump(folder, "category", CREATE["category"], [b"(%d,'%s',5,-1,0)" % (n, t) for n, t in enumerate(titles[:-1], 1)])
    rest = b"0,0,0.778582929065,'20230228183633',NULL,1136,4,'wikitext',NULL"
    pages = [b"(9,0,'Football',%s)" % rest, b"(8,6,'Football.jpg',%s)" % rest]
    pages += [b"(%d,14,'%s',%s)" % (page, t.encode(), rest) for t, page in PAGES.items() if page]
    dump(folder, "page", CREATE["page"], pages)
    rows = [link(schema, *given, place) for place, given in enumerate(LINKS)]
    dump(folder, "categorylinks", CREATE[schema], rows)
    if schema != "old":
        targets = [b"(%d,14,'%s')" % (TARGET[title], title.encode()) for title in reversed(PAGES)]
        dump(folder, "linktarget", CREATE["linktarget"], [*targets, b"(1,0,'Football')", b"(2,14,'Never_made')"])
    return folder


def edges(hierarchy: Hierarchy) -> set[tuple[str, str]]:
    return {(hierarchy.ids[a], hierarchy.ids[b]) for a, b in zip(hierarchy.child, hierarchy.parent, strict=True)}


@pytest.mark.parametrize("schema", ["old", "both", "new"])
def test_every_schema_gives_the_same_graph(tmp_path: Path, schema: str) -> None:
    hierarchy = read_wikipedia(wiki(tmp_path, schema))
    assert hierarchy.name == "xxwiki-20230301"
    assert edges(hierarchy) == EXPECTED
    assert "Football ('soccer'), \"the\" game" in hierarchy.names
    assert list(hierarchy.texts) == list(hierarchy.names)
    assert "Articles of association" in hierarchy.names  # not in `category`: only a page
    assert not any("Wikipedia" in name or "short description" in name for name in hierarchy.names)
    assert hierarchy.notes == (
        "1 link between categories that the dump does not list was dropped",
        "2 meta categories were left out with 2 links",
    )


@pytest.mark.parametrize("schema", ["old", "both", "new"])
def test_built(tmp_path: Path, schema: str) -> None:
    corpus = build(read_wikipedia(wiki(tmp_path, schema)))
    found = {}
    for split in (corpus.train, corpus.valid, corpus.test):
        for row, name in enumerate(split.ids):
            found[name] = {corpus.labels.ids[column] for column in split.targets[[row]].indices}
    assert found["Fußball"] == {"Football_('soccer'),_\"the\"_game", "Football", "Ball_games", "Team_sports"}
    assert found["Football"] == {"Ball_games", "Sports", "Team_sports"}
    assert corpus.notes[0].startswith("1 link between")


def test_files_given_one_by_one(tmp_path: Path) -> None:
    wiki(tmp_path, "new")
    assert edges(read_wikipedia(sorted(tmp_path.iterdir()))) == EXPECTED


def test_patterns_can_be_set(tmp_path: Path) -> None:
    wiki(tmp_path, "old")
    everything = read_wikipedia(tmp_path, meta=())
    assert len(everything) == len(PAGES)
    assert len(edges(everything)) == 8
    fewer = read_wikipedia(tmp_path, meta=(*META, "^Ball games$"))
    assert edges(fewer) == {edge for edge in EXPECTED if "Ball_games" not in edge}
    with pytest.raises(DataError, match=r"the meta pattern '\(' is not a regular expression"):
        read_wikipedia(tmp_path, meta=("(",))


@pytest.mark.parametrize(
    "name",
    [
        "Wikipedia missing topics",
        "Wikipedians interested in football",
        "WikiProject Football articles",
        "Articles with short description",
        "All articles with unsourced statements",
        "All stub articles",
        "Pages using infobox person",
        "CS1 errors: dates",
        "Webarchive template wayback links",
        "Hidden categories",
        "Tracking categories",
        "Categories for renaming",
        "Template documentation",
        "Football templates",
        "Redirects from moves",
        "Football stubs",
        "User en-4",
        "User templates",
        "Use dmy dates from March 2023",
        "Use British English from May 2014",
        "Commons category link is on Wikidata",
        "C-Class football articles",
        "Low-importance physics articles",
    ],
)
def test_meta_names(tmp_path: Path, name: str) -> None:
    assert _kept(tmp_path, name) == []


@pytest.mark.parametrize(
    "name",
    [
        "Articles of association",
        "Articles about the Beatles",
        "Categories in category theory",
        "Category theory",
        "Templars",
        "User interfaces",
        "Use of force",
        "Living people",
        "Pages (servants)",
        "Stubai Alps",
        "C-Class catamarans",
        "Redirected walking",
        "Hidden Figures",
        "Football",
    ],
)
def test_names_that_stay(tmp_path: Path, name: str) -> None:
    assert _kept(tmp_path, name) == [name]


def _kept(folder: Path, name: str) -> list[str]:
    """The nodes of a wiki with one category."""
    dump(folder, "category", CREATE["category"], [b"(1,'%s',5,1,0)" % name.replace(" ", "_").encode()] * 2)
    rest = b"0,0,0.5,'20230228183633',NULL,1136,4,'wikitext',NULL"
    dump(folder, "page", CREATE["page"], [b"(9,0,'Football',%s)" % rest] * 2)
    dump(folder, "categorylinks", CREATE["old"], [link("old", 9, "Football", "page", 0)] * 2)
    return list(read_wikipedia(folder).names)


def test_what_is_missing(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no such folder"):
        read_wikipedia(tmp_path / "nowhere")
    with pytest.raises(DataError, match=r"no dump of category \(category.sql.gz\)"):
        read_wikipedia(tmp_path)
    with pytest.raises(DataError, match=r"no dump of category .* in the files given"):
        read_wikipedia([])
    new = wiki(tmp_path / "new", "new")
    (new / "xxwiki-20230301-linktarget.sql.gz").unlink()
    with pytest.raises(DataError, match=r"categorylinks.sql.gz: .*linktarget.sql.gz of the same day is needed"):
        read_wikipedia(new)
    both = wiki(tmp_path / "both", "both")
    (both / "xxwiki-20230301-linktarget.sql.gz").unlink()
    with pytest.raises(DataError, match=r"categorylinks.sql.gz:\d+: some links have no cl_to"):
        read_wikipedia(both)


def test_two_days_in_one_folder(tmp_path: Path) -> None:
    wiki(tmp_path, "old")
    again = (tmp_path / "xxwiki-20230301-page.sql.gz").read_bytes()
    (tmp_path / "xxwiki-20230401-page.sql.gz").write_bytes(again)
    with pytest.raises(DataError, match="is a second dump of page"):
        read_wikipedia(tmp_path)


@pytest.mark.parametrize("table", ["category", "page", "categorylinks", "linktarget"])
def test_a_truncated_file(tmp_path: Path, table: str) -> None:
    path = wiki(tmp_path, "new") / f"xxwiki-20230301-{table}.sql.gz"
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(DataError, match=rf"{table}.sql.gz: "):
        read_wikipedia(tmp_path)
    path.write_bytes(b"")
    with pytest.raises(DataError, match=rf"{table}.sql.gz: "):
        read_wikipedia(tmp_path)


@pytest.mark.parametrize("schema", ["old", "new"])
def test_damage_is_always_a_data_error(tmp_path: Path, schema: str) -> None:
    """Bytes changed, cut or doubled at random: read, or refused in our own words."""
    paths = sorted(wiki(tmp_path, schema).iterdir())
    dice = random.Random(0)
    refused = 0
    for _ in range(300):
        path = dice.choice(paths)
        whole = path.read_bytes()
        damaged = bytearray(gzip.decompress(whole))
        for _ in range(dice.randint(1, 3)):
            start = dice.randrange(len(damaged))
            end = min(len(damaged), start + dice.choice([0, 1, 1, 1, 40]))
            damaged[start:end] = dice.choice([b"", b"'", b"\\", b"(", b")", b",", b";", b"\xff", b"NULL"])
        path.write_bytes(gzip.compress(damaged, 1))
        try:
            read_wikipedia(tmp_path)
        except DataError as error:
            assert ".sql.gz" in str(error) or "id" in str(error)
            refused += 1
        path.write_bytes(whole)
    assert refused > 50
