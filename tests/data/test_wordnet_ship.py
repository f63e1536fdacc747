"""Making the shipped set: the same bytes every time, and the rows that `build` gives."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from longtail.data.hierarchy import build
from longtail.data.read import load
from longtail.data.wordnet_files import read_wordnet
from longtail.data.wordnet_ship import write_shipped


def database(folder: Path) -> Path:
    """Fifty kinds of a thing, some with kinds of their own, in WordNet's format."""
    lines = ["00000001 03 n 01 thing 0 000 | that which is  "]
    for kind in range(2, 52):
        above = 1 if kind < 12 else kind - 10
        lines.append(f"{kind:08} 03 n 02 kind_{kind} 0 sort_{kind} 0 001 @ {above:08} n 0000 | the kind “{kind}”  ")
    (folder / "data.noun").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (folder / "data.verb").write_text("00000001 29 v 01 do 0 000 01 + 02 00 | act  \n", encoding="utf-8")
    return folder


def test_shipped_is_what_was_built(tmp_path: Path) -> None:
    write_shipped(database(tmp_path), tmp_path / "out")
    loaded, built = load(tmp_path / "out"), build(read_wordnet(tmp_path))
    assert loaded.name == "wordnet"
    assert loaded.labels == built.labels
    for one, other in ((loaded.train, built.train), (loaded.valid, built.valid), (loaded.test, built.test)):
        assert one.ids == other.ids
        assert one.texts == other.texts
        assert (one.targets != other.targets).nnz == 0
        assert (one.excluded is None) == (other.excluded is None)
        if one.excluded is not None:
            assert (one.excluded != other.excluded).nnz == 0
    facts = json.loads((tmp_path / "out" / "corpus.json").read_text(encoding="utf-8"))
    assert "WordNet 3.0" in facts["source"]


def test_the_same_bytes_twice(tmp_path: Path) -> None:
    database(tmp_path)
    write_shipped(tmp_path, tmp_path / "first")
    command = [sys.executable, "-m", "longtail.data.wordnet_ship", str(tmp_path), str(tmp_path / "second")]
    subprocess.run(command, check=True)
    first, second = (
        {path.name: path.read_bytes() for path in (tmp_path / name).iterdir()} for name in ("first", "second")
    )
    assert set(first) == {"train.jsonl.xz", "test.jsonl.xz", "labels.jsonl.xz", "exclude.jsonl.xz", "corpus.json"}
    assert first == second


def test_a_wrong_folder_is_one_line(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "longtail.data.wordnet_ship", str(tmp_path), str(tmp_path / "out")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 1
    assert "no data.noun and data.verb" in done.stderr
    assert "Traceback" not in done.stderr
