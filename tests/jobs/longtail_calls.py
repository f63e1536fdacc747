"""Shards to predict, and the command called on them."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parents[1] / "cli"))
from cli_calls import Done as Done
from cli_calls import call as call

WORDS = ("large", "cat", "that", "roars", "small", "cart", "wheels", "river", "stone", "bird", "sings", "old")


def shards_of(folder: Path, shards: int, rows: int) -> Path:
    """A folder of JSON lines, each shard with texts of its own."""
    folder.mkdir()
    for shard in range(shards):
        with (folder / f"part-{shard}.jsonl").open("w", encoding="utf-8") as file:
            for row in range(rows):
                words = " ".join(WORDS[(shard * 7 + row * step) % len(WORDS)] for step in (1, 2, 5, 7))
                file.write(json.dumps({"id": f"{shard}-{row}", "text": words}) + "\n")
    return folder


def answers_of(path: Path) -> list[Any]:
    """The answers of a shard."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def tensors_of(model: Path) -> dict[str, bytes]:
    """The files of a model that hold what was learned."""
    found = {path.name: path.read_bytes() for path in model.iterdir() if path.suffix in (".safetensors", ".jsonl")}
    assert any(name.endswith(".safetensors") for name in found)
    return found
