"""Claim: building from a dump of Wikipedia takes a small multiple of unpacking it, and both cores unpack.

    python benchmarks/build_seealso.py [MEGABYTES]     # of XML; default 20
    python benchmarks/build_seealso.py 2000 --streams one

Generates a pages-articles dump in bzip2, as many streams (multistream) or as one, builds it on two cores, and prints
minutes, pages a second, peak memory over all processes, and how long unpacking alone takes.
"""

from __future__ import annotations

import bz2
import tempfile
from pathlib import Path

import numpy as np

from shared.building import measured_build, phrases, vocabulary
from shared.command import parser_for
from shared.timing import timed

PAGES = 100  # of a stream, as in Wikipedia's dumps
HEAD = b'<mediawiki xmlns="http://www.mediawiki.org/xml/export-0.11/" xml:lang="en">\n'


def write_dump(path: Path, size: int, one_stream: bool) -> int:
    """Pages of about 3 kB: one in three a redirect, one in five of the others with a section; returns how many."""
    rng = np.random.default_rng(0)
    pool = list(phrases(20_000, vocabulary(50_000), 8, 8, 0))
    written, number = 0, 0
    compressor = bz2.BZ2Compressor(9)
    with path.open("wb") as file:
        file.write(compressor.compress(HEAD) if one_stream else bz2.compress(HEAD))
        while written < size:
            pages = []
            for _ in range(PAGES):
                number += 1
                pages.append(page(rng, number, pool))
            xml = b"".join(pages)
            written += len(xml)
            file.write(compressor.compress(xml) if one_stream else bz2.compress(xml))
        foot = b"</mediawiki>\n"
        file.write(compressor.compress(foot) + compressor.flush() if one_stream else bz2.compress(foot))
    return number


def page(rng: np.random.Generator, number: int, pool: list[bytes]) -> bytes:
    head = b"  <page>\n    <title>Page %d</title>\n    <ns>0</ns>\n    <id>%d</id>\n" % (number, number)
    if number % 3 == 0:
        return head + b'    <redirect title="Page %d" />\n  </page>\n' % max(1, number - 1)
    drawn = [pool[one] for one in rng.integers(0, len(pool), int(rng.integers(20, 150)))]
    text = b"{{Infobox|a={{b}}}}'''Page %d''' is [[Page 1|" % number + b"]]. ".join(drawn[:3]) + b"\n".join(drawn[3:])
    if number % 5 == 0:
        others = rng.integers(1, number + 1, 3).tolist()
        text += b"\n== See also ==\n" + b"".join([b"* [[Page %d]]\n" % one for one in others]) + b"== References ==\n"
    return head + b'    <revision>\n      <text xml:space="preserve">%s</text>\n    </revision>\n  </page>\n' % text


def unpack(path: Path) -> int:
    size = 0
    with bz2.open(path) as file:
        while piece := file.read(1 << 20):
            size += len(piece)
    return size


def main() -> None:
    parser = parser_for(__doc__)
    parser.add_argument("megabytes", type=int, nargs="?", default=20, help="of XML")
    parser.add_argument("--streams", choices=("many", "one"), default="many", help="of the bzip2 file")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "xxwiki-20240101-pages-articles.xml.bz2"
        pages = write_dump(path, given.megabytes * 1_000_000, given.streams == "one")
        measured_build(["seealso", str(path), "--out", f"{folder}/built"], pages, "pages")
        print(f"unpacking alone, on one core: {timed(lambda: unpack(path)).cpu:.0f} s of the processor")


if __name__ == "__main__":
    main()
