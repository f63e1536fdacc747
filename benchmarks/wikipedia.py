"""Claim: reading a `categorylinks` dump takes about twice as long as unpacking it.

    python benchmarks/wikipedia.py [LINKS]     # default 1,000,000 links, about 110 MB unpacked

Generates a dump, reads it packed and unpacked, and compares with only unpacking it. Prints MB per second of each and
the ratio to the floor.
"""

from __future__ import annotations

import gzip
import tempfile
from functools import partial
from pathlib import Path

import numpy as np

from shared.command import parser_for
from shared.timing import timed

CREATE = b"""CREATE TABLE `categorylinks` (
  `cl_from` int(8) unsigned NOT NULL DEFAULT 0,
  `cl_to` varbinary(255) NOT NULL DEFAULT '',
  `cl_sortkey` varbinary(230) NOT NULL DEFAULT '',
  `cl_timestamp` timestamp NOT NULL,
  `cl_sortkey_prefix` varbinary(255) NOT NULL DEFAULT '',
  `cl_collation` varbinary(32) NOT NULL DEFAULT '',
  `cl_type` enum('page','subcat','file') NOT NULL DEFAULT 'page',
  PRIMARY KEY (`cl_from`,`cl_to`)
) ENGINE=InnoDB DEFAULT CHARSET=binary;
"""
LINKS_A_LINE = 8_000  # mysqldump ends a statement after about a megabyte


def write_dump(path: Path, rows: int, seed: int = 0) -> int:
    """Links with binary sort keys, one in ten from a subcategory; returns the bytes before packing."""
    rng = np.random.default_rng(seed)
    parents = (1_000_000 * rng.random(rows) ** 2).astype(int)
    keys = rng.integers(128, 256, (rows, 24), dtype=np.uint8)
    size = len(CREATE)
    with gzip.open(path, "wb", compresslevel=6) as file:
        file.write(CREATE)
        for start in range(0, rows, LINKS_A_LINE):
            tuples = [
                b"(%d,'Category_number_%d','%s),(\\'','2014-11-20 17:57:05','','uca-default-u-kn','%s')"
                % (row, parents[row], keys[row].tobytes(), b"page" if row % 10 else b"subcat")
                for row in range(start, min(rows, start + LINKS_A_LINE))
            ]
            statement = b"INSERT INTO `categorylinks` VALUES " + b",".join(tuples) + b";\n"
            file.write(statement)
            size += len(statement)
    return size


def read(path: Path) -> int:
    """Sub-categories and their parents, as `longtail build hierarchy wikipedia` reads them."""
    from longtail.data.wikipedia_sql import open_table

    found = 0
    for batch in open_table(path, "categorylinks").batches(("cl_from", "cl_to", "cl_type")):
        rows = np.flatnonzero(batch.equal("cl_type", b"subcat"))
        batch.integers("cl_from")
        found += len(batch.strings("cl_to", rows))
    return found


def unpack(path: Path) -> int:
    with gzip.open(path) as file:
        while file.read(1 << 20):
            pass
    return 0


def main() -> None:
    parser = parser_for(__doc__)
    parser.add_argument("links", type=int, nargs="?", default=1_000_000, help="links of the dump")
    rows = parser.parse_args().links
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "xxwiki-categorylinks.sql.gz"
        size = write_dump(path, rows) / 1e6
        read(path)  # compiles
        seconds, _, found = timed(partial(read, path))
        floor = timed(partial(unpack, path)).seconds
        plain = path.with_suffix("")
        plain.write_bytes(gzip.decompress(path.read_bytes()))
        bare = timed(partial(read, plain)).seconds
    print(f"dump       {rows:,} links, {size:.0f} MB unpacked; {found:,} from sub-categories")
    print(f"longtail   {size / seconds:.0f} MB/s from .sql.gz, {size / bare:.0f} MB/s from .sql")
    print(f"floor      {size / floor:.0f} MB/s for unpacking alone")
    print(f"ratio      {seconds / floor:.2f} times the floor")


if __name__ == "__main__":
    main()
