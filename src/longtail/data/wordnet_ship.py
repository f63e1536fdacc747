"""Makes the WordNet data set that ships with longtail, the same bytes every time.

    python -m longtail.data.wordnet_ship /usr/share/wordnet src/longtail/data/wordnet

Documents and labels are those of `longtail build hierarchy wordnet`. They are compressed more, `load` holds out valid,
and the facts name the source and the licence.
"""

from __future__ import annotations

import json
import lzma
import sys
import tempfile
from pathlib import Path

from longtail.data.files import chunks, whole_object
from longtail.data.hierarchy import build
from longtail.data.wordnet_files import read_wordnet
from longtail.data.write import write_folder
from longtail.errors import LongtailError

# The whole file fits into this window; a larger one would only take memory when the data set is loaded.
PACKING = [{"id": lzma.FILTER_LZMA2, "preset": 9 | lzma.PRESET_EXTREME, "dict_size": 1 << 24}]
FACTS = {
    "source": "WordNet 3.0, noun and verb synsets with their hypernyms up to depth 3",
    "licence": "WordNet 3.0 licence, https://wordnet.princeton.edu/license-and-commercial-use",
}


def write_shipped(database: str | Path, out: str | Path) -> None:
    """Writes the files that `load("wordnet")` reads.

    Args:
        database: the folder of WordNet's database files.
        out: the folder to write into.
    """
    out = Path(out)
    with tempfile.TemporaryDirectory() as temporary:
        folder = write_folder(build(read_wordnet(database), valid_share=0), Path(temporary) / "wordnet")
        out.mkdir(parents=True, exist_ok=True)
        for path in folder.glob("*.jsonl.gz"):
            lines = b"".join(piece for _, piece in chunks(path))
            if lines:  # an empty valid file would count as a valid split
                packed = lzma.compress(lines, format=lzma.FORMAT_XZ, filters=PACKING)
                (out / path.with_suffix(".xz").name).write_bytes(packed)
        facts = whole_object(folder / "corpus.json") | FACTS
    (out / "corpus.json").write_text(json.dumps(facts, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    try:
        write_shipped(*sys.argv[1:])
    except (LongtailError, TypeError) as error:
        sys.exit(f"{error}\nusage: python -m longtail.data.wordnet_ship DATABASE_FOLDER OUT_FOLDER")
