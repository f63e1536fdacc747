"""Claim: soft labels take at most 3% of the student's training time at the size of yso.

    python benchmarks/gpu/lever_cost.py DATA --encoder FOLDER [--teacher-epochs 10] [--kept cost.jsonl]
                                        [--student "renee(encoder='ENCODER', measure_every=0)"] [--rows N]
    python benchmarks/gpu/lever_cost.py --neighbours 1300000 384

Trains the student with LEVER once, nothing beside it, with all threads. The teacher is trained in the same run, for few
epochs: how good it is makes no difference to the time. Prints what the stages of soft labels and of the student took,
those within a stage behind it, and the share of soft labels in the training of the student. `--neighbours` times the
nearest labels of so many drawn ones instead.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

from splits import splits

SOFT = ("finding soft labels", "joining soft labels")
TEACHER = "dpr(encoder='ENCODER', rows='labels', epochs=EPOCHS, measure_every=0)"


class Watch:
    """Seconds of every stage, with the stages it stands in."""

    def __init__(self) -> None:
        self.open: list[tuple[str, float]] = []
        self.done: list[tuple[tuple[str, ...], float]] = []

    def start(self, name: str, total: int | None) -> int:
        self.open.append((name, time.perf_counter()))
        return len(self.open) - 1

    def advance(self, handle: int, amount: int) -> None: ...

    def finish(self, handle: int) -> None:
        names = tuple(name for name, _ in self.open)
        self.done.append((names, time.perf_counter() - self.open.pop()[1]))
        print(f"{' / '.join(names)}: {self.done[-1][1]:.2f} s", file=sys.stderr, flush=True)

    def note(self, line: str) -> None: ...


def neighbours(labels: int, dimension: int, number: int = 16) -> None:
    """Seconds and memory of the nearest labels of all labels; exact, in single precision and by shortlists in half."""
    import numpy as np
    import torch

    from longtail.search.soft import index_of, other_labels

    chance = np.random.default_rng(0)
    centres = chance.standard_normal((max(labels // 50, 1), dimension), dtype=np.float32)
    vectors = centres[chance.integers(0, len(centres), labels)]
    for begin in range(0, labels, 1 << 16):  # drawn in pieces: there may be millions
        piece = vectors[begin : begin + (1 << 16)]
        piece += 0.7 * chance.standard_normal(piece.shape, dtype=np.float32)
        piece /= np.linalg.norm(piece, axis=1, keepdims=True)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    some = np.sort(chance.choice(labels, min(labels, 2000), replace=False))
    true = index_of(vectors, labels, "exact", device, "fp32").top(vectors[some], number)[0]
    print("| search | s | GiB beyond the vectors | neighbours that are the exact ones |\n| --- | --: | --: | --: |")
    for precision in ("bf16", "fp32"):
        if device == "cuda":
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()
        begin_at = time.perf_counter()
        near = other_labels(index_of(vectors, labels, "exact", device, precision), vectors, number - 1)
        seconds = time.perf_counter() - begin_at
        extra = torch.cuda.max_memory_allocated() - 4 * vectors.size if device == "cuda" else 0
        found = np.concatenate([some[:, None], near.rows[some]], axis=1)
        same = np.mean([len(np.intersect1d(*pair)) for pair in zip(found, true, strict=True)]) / number
        print(f"| {precision} on {device} | {seconds:.1f} | {extra / 2**30:.2f} | {100 * same:.3f}% |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", nargs="?")
    parser.add_argument("--neighbours", nargs=2, type=int, metavar=("LABELS", "DIMENSION"))
    parser.add_argument("--encoder", default="minilm")
    parser.add_argument("--student", default="renee(encoder='ENCODER', measure_every=0)")
    parser.add_argument("--teacher-epochs", type=int, default=10)
    parser.add_argument("--rows", type=int)
    parser.add_argument("--kept", type=Path)
    options = parser.parse_args()
    if options.neighbours:
        neighbours(*options.neighbours)
        return

    import longtail
    from longtail.metrics.calibration import Teaching
    from longtail.progress import hearing, listening
    from longtail.threads import thread_count

    train, valid, test = splits(options.data, options.rows)
    teacher = TEACHER.replace("ENCODER", options.encoder).replace("EPOCHS", str(options.teacher_epochs))
    recipe = f'{options.student.replace("ENCODER", options.encoder)} + lever(teacher="{teacher}")'
    watch = Watch()
    print(f"{len(train):,} rows, {len(train.labels):,} labels, {thread_count()} threads: {options.student} + lever")
    with hearing() as told, listening(watch):
        model = longtail.Recipe.parse(recipe).fit(train, valid)
    seconds = next(fact for fact in told if isinstance(fact, Teaching)).seconds
    outer = [(names[0], spent) for names, spent in watch.done if len(names) == 1]
    joined = sum(spent for name, spent in outer if name == SOFT[1])
    soft, student = joined + sum(spent for name, spent in outer if name == SOFT[0]), seconds["student"] - joined
    print("| stage | s | of the student's training |\n| --- | --: | --: |")
    lines = [(" / ".join(names), spent) for names, spent in watch.done if names[0] in SOFT or len(names) == 1]
    lines += [("soft labels, all", soft), ("the student, all", student)]
    for name, spent in lines:
        print(f"| {name} | {spent:.2f} | {100 * spent / student:.1f}% |", flush=True)
    measures = longtail.evaluate(model.predict(test.rows, 5, test.excluded), test)
    print(", ".join(f"{name} {measures[name]:.1f}" for name in ("P@1", "PSP@1", "PSP@5", "C@5")))
    if options.kept:
        options.kept.write_text(json.dumps({"recipe": recipe, "stages": lines}) + "\n")


if __name__ == "__main__":
    main()
