"""Trains the nets and memories that `fuse.py` combines, and keeps their answers for valid and test.

    python benchmarks/gpu/fuse_nets.py gutenberg [tibkat] --encoder FOLDER --out FOLDER [--epochs N] [--limit SECONDS]
        [--rows N] [--chains 0 1 ...]

A chain is some recipes one after the other, of which later ones start from earlier ones or remember with their
encoders; the chains of a data set train side by side on one GPU, so seconds compare only with each other. In the
recipes *L3* stands for the encoder of --encoder. The answers are written as `fuse.py --keep` keeps them, packed in a
few files of --out: unpack them into the folder of --keep and give `fuse.py` the recipes as members. Prints P@1, PSP@5
and nDCG@20 on valid and test and the seconds of every recipe. `--rows 500 --epochs 1 --encoder bag` tries it without a
GPU.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
import time
import traceback
import zipfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from shared.command import parser_for
from shared.fuse_answers import answered, answers_path
from shared.splits import splits
from shared.tables import table
from shared.workers import worker_pool

NGAME, DEXA, UNIDEC = "ngame(encoder='L3')", "ngame(encoder='L3') + dexa", "unidec(encoder='L3')"
TEACHER = "dpr(encoder='L3', anchors='labels', epochs=60)"
LONGER = "ngame(encoder='L3', epochs=15) + dexa", "unidec(encoder='L3', epochs=15)"  # on longer texts
CHAINS = {
    "gutenberg": [
        [NGAME, f'memory("{NGAME}")', f"renee(encoder='L3', init_from=\"{NGAME}\") + rows"],
        [UNIDEC, f'memory("{UNIDEC}")'],
        [TEACHER, f"renee(encoder='L3') + lever(teacher=\"{TEACHER}\", guard=false)"],
        [DEXA, f'memory("{DEXA}")'],
        ["depsl(encoder='L3')", "memory(\"depsl(encoder='L3')\")"],
    ],
    "tibkat": [
        *([one, f'memory("{one}")'] for one in LONGER),
        ["renee(encoder='L3', epochs=15) + rows"],
    ],
}
PLACES = 40  # labels of a row that are kept
PACKED = 14_000_000  # bytes of a file of --out
SHOWN = ("P@1", "PSP@1", "PSP@5", "nDCG@20", "C@5")


def chain(data: str, rows: int | None, recipes: list[str], options: argparse.Namespace, until: float) -> Any:
    """Train the recipes of a chain and keep their answers; a recipe that fails ends it.

    Args:
        data: folder of a data set.
        rows: of each split; none: all.
        recipes: in their order.
        options: of the command.
        until: the time by `time.monotonic` after which none is started.

    Returns:
        Lines of the table, and the files of answers.
    """
    import longtail

    train, valid, test = splits(data, rows)
    lines, files, saved = [], [], {}
    with tempfile.TemporaryDirectory() as folder:
        for number, recipe in enumerate(recipes):
            if time.monotonic() > until:
                lines.append([f"`{recipe}`", "not started: the time was up"])
                break
            begun = time.perf_counter()
            try:
                model = longtail.Recipe.parse(written(recipe, saved, options)).fit(train, valid)
                seconds = time.perf_counter() - begun
                saved[recipe] = str(Path(folder) / str(number))
                model.save(saved[recipe])
                kept = answered(model, seconds, valid, test, PLACES)
                path = answers_path(options.out / "answers", Path(data).name, recipe)
                path.parent.mkdir(parents=True, exist_ok=True)
                write(path, kept)
            except Exception:
                lines.append([f"`{recipe}`", traceback.format_exc(limit=-2).strip().replace("\n", " ")[-400:]])
                break
            files.append(path)
            lines.append([f"`{recipe}`", f"{seconds:.1f}", *measures(kept, valid, test)])
            print(" ".join(lines[-1]), flush=True)
    return lines, files


def written(recipe: str, saved: dict[str, str], options: argparse.Namespace) -> str:
    """The recipe as it is trained: with folders of saved models and of the encoder, and the epochs asked for."""
    whole = saved.get(recipe, recipe)
    for known, folder in sorted(saved.items(), key=lambda one: -len(one[0])):
        whole = whole.replace(f'"{known}"', f'"{folder}"')
    if options.epochs:
        whole = re.sub(r", epochs=\d+", "", whole).replace("encoder='L3'", f"encoder='L3', epochs={options.epochs}")
    return whole.replace("encoder='L3'", f"encoder='{options.encoder}'")


def write(path: Path, kept: dict[str, Any]) -> None:
    import numpy as np

    np.savez_compressed(path, **kept)


def measures(kept: dict[str, Any], valid: Any, test: Any) -> list[str]:
    """The measures that are shown, on valid and test."""
    from longtail import evaluate
    from longtail.predictions import Predictions

    shown = []
    for split, data in (("valid", valid), ("test", test)):
        found = Predictions(data.labels, kept[f"{split}_labels"], kept[f"{split}_scores"]).without(data.excluded)
        values = evaluate(found.top(20), data, ks=(1, 5, 20)).values
        shown += [f"{values[name]:.2f}" for name in SHOWN]
    return shown


def pack(files: list[Path], out: Path, data: str) -> None:
    """Put answers together in as few files as there may be."""
    packs: list[list[Path]] = []
    for path in sorted(files, key=lambda one: -one.stat().st_size):
        size = path.stat().st_size
        home = next((some for some in packs if sum(one.stat().st_size for one in some) + size <= PACKED), None)
        if home is None:
            packs.append([path])
        else:
            home.append(path)
    for number, some in enumerate(packs):
        with zipfile.ZipFile(out / f"{data}-answers-{number}.zip", "w", zipfile.ZIP_STORED) as packed:
            for path in some:
                packed.write(path, path.name)
    for path in files:
        path.unlink()


def main() -> None:
    parser = parser_for(__doc__)
    parser.add_argument("data", nargs="+", help="folders of data sets, named gutenberg or tibkat")
    parser.add_argument("--encoder", required=True, help="name or folder")
    parser.add_argument("--out", type=Path, required=True, help="folder of the answers")
    parser.add_argument("--epochs", type=int, default=0, help="of every net; 0: each learner's default")
    parser.add_argument("--chains", nargs="*", type=int, help="numbers of the chains to train; all by default")
    parser.add_argument("--rows", type=int, help="only the first rows of each split, to try the script")
    parser.add_argument("--limit", type=float, default=240, help="seconds after which no training starts")
    options = parser.parse_args()
    until = time.monotonic() + options.limit
    for data in options.data:
        name = Path(data).name
        todo = [one for place, one in enumerate(CHAINS[name]) if options.chains is None or place in options.chains]
        with worker_pool(len(todo), [data], options.rows, [options.encoder]) as pool:
            waiting = [pool.apply_async(chain, (data, options.rows, one, options, until)) for one in todo]
            found = [one.get() for one in waiting]
        pack([path for _, files in found for path in files], options.out, name)
        heads = ["recipe", "s", *(f"valid {one}" for one in SHOWN), *SHOWN]
        body = [[*line, *[""] * (len(heads) - len(line))] for lines, _ in found for line in lines]
        print(f"\n{name}\n\n{table(heads, body)}\n", flush=True)


if __name__ == "__main__":
    main()
