"""Claim: soft labels take at most 3% of the student's training time at the size of yso.

    python benchmarks/gpu/lever_cost.py DATA --encoder FOLDER [--teacher-epochs 10] [--kept cost.jsonl]
        [--student "renee(encoder='ENCODER', validate_every=0)"] [--rows N]
    python benchmarks/gpu/lever_cost.py --neighbours 1300000 384

Trains the student with LEVER once, alone on the machine, with all threads. The teacher is trained in the same run for
few epochs, because its quality does not change the time. Prints the seconds of every stage of soft labels and of the
student, stages within a stage after it, and the share of soft labels in the training of the student. `--neighbours`
times instead the search for the nearest labels of so many random vectors.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from shared.command import parser_for
from shared.splits import splits
from shared.tables import append_lines, header, row
from shared.timing import Stages, gpu_peak, reset_gpu

SOFT = ("finding soft labels", "joining soft labels")
TEACHER = "dpr(encoder='ENCODER', anchors='labels', epochs=EPOCHS, validate_every=0)"


def neighbours(labels: int, dimension: int, number: int = 16) -> None:
    """Seconds and memory of the nearest labels of all labels; exact, in single precision and by shortlists in half."""
    import numpy as np
    import torch

    from longtail.search.soft import index_of, other_labels

    rng = np.random.default_rng(0)
    centres = rng.standard_normal((max(labels // 50, 1), dimension), dtype=np.float32)
    vectors = centres[rng.integers(0, len(centres), labels)]
    for begin in range(0, labels, 1 << 16):  # drawn in pieces: there may be millions
        piece = vectors[begin : begin + (1 << 16)]
        piece += 0.7 * rng.standard_normal(piece.shape, dtype=np.float32)
        piece /= np.linalg.norm(piece, axis=1, keepdims=True)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    some = np.sort(rng.choice(labels, min(labels, 2000), replace=False))
    true = index_of(vectors, labels, "exact", device, "fp32").top(vectors[some], number)[0]
    print(header(["search", "s", "GiB beyond the vectors", "neighbours that are the exact ones"]))
    for precision in ("bf16", "fp32"):
        reset_gpu()
        begin_at = time.perf_counter()
        near = other_labels(index_of(vectors, labels, "exact", device, precision), vectors, number - 1)
        seconds = time.perf_counter() - begin_at
        extra = gpu_peak() - 4 * vectors.size if device == "cuda" else 0
        found = np.concatenate([some[:, None], near.rows[some]], axis=1)
        same = np.mean([len(np.intersect1d(*pair)) for pair in zip(found, true, strict=True)]) / number
        cells = [f"{precision} on {device}", f"{seconds:.1f}", f"{extra / 2**30:.2f}", f"{100 * same:.3f}%"]
        print(row(cells), flush=True)


def main() -> None:
    parser = parser_for(__doc__)
    parser.add_argument("data", nargs="?", help="folder of a data set")
    parser.add_argument(
        "--neighbours", nargs=2, type=int, metavar=("LABELS", "DIMENSION"), help="only time this search"
    )
    parser.add_argument("--encoder", default="minilm", help="name or folder")
    parser.add_argument("--student", default="renee(encoder='ENCODER', validate_every=0)", help="recipe")
    parser.add_argument("--teacher-epochs", type=int, default=10, help="epochs of the teacher")
    parser.add_argument("--rows", type=int, help="only the first rows of each split, to try the script")
    parser.add_argument("--kept", type=Path, help="file of the seconds")
    options = parser.parse_args()
    if options.neighbours:
        neighbours(*options.neighbours)
        return

    import longtail
    from longtail.metrics.calibration import Teaching
    from longtail.progress import collecting, listening
    from longtail.threads import thread_count

    train, valid, test = splits(options.data, options.rows)
    teacher = TEACHER.replace("ENCODER", options.encoder).replace("EPOCHS", str(options.teacher_epochs))
    recipe = f'{options.student.replace("ENCODER", options.encoder)} + lever(teacher="{teacher}", guard=false)'
    watch = Stages(show=True)
    print(f"{len(train):,} rows, {len(train.labels):,} labels, {thread_count()} threads: {options.student} + lever")
    with collecting() as facts, listening(watch):
        model = longtail.Recipe.parse(recipe).fit(train, valid)
    seconds = next(fact for fact in facts if isinstance(fact, Teaching)).seconds
    outer = [(names[0], spent) for names, spent in watch.done if len(names) == 1]
    joined = sum(spent for name, spent in outer if name == SOFT[1])
    soft, student = joined + sum(spent for name, spent in outer if name == SOFT[0]), seconds["student"] - joined
    print(header(["stage", "s", "of the student's training"]))
    lines = [(" / ".join(names), spent) for names, spent in watch.done if names[0] in SOFT or len(names) == 1]
    lines += [("soft labels, all", soft), ("the student, all", student)]
    for name, spent in lines:
        print(row([name, f"{spent:.2f}", f"{100 * spent / student:.1f}%"]), flush=True)
    measures = longtail.evaluate(model.predict(test.rows, 5, test.excluded), test)
    print(", ".join(f"{name} {measures[name]:.1f}" for name in ("P@1", "PSP@1", "PSP@5", "C@5")))
    if options.kept:
        options.kept.unlink(missing_ok=True)
        append_lines(options.kept, {"recipe": recipe, "stages": lines})


if __name__ == "__main__":
    main()
