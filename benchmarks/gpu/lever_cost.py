"""Claim: soft labels take at most 3% of the student's training time at the size of yso.

    python benchmarks/gpu/lever_cost.py DATA --encoder FOLDER [--teacher-epochs 10] [--kept cost.jsonl]
                                        [--student "renee(encoder='ENCODER', measure_every=0)"] [--rows N]

Trains the student with LEVER once, nothing beside it, with all threads. The teacher is trained in the same run, for few
epochs: how good it is makes no difference to the time. Prints what the stages of soft labels and of the student took,
those within a stage behind it, and the share of soft labels in the training of the student.
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data")
    parser.add_argument("--encoder", default="minilm")
    parser.add_argument("--student", default="renee(encoder='ENCODER', measure_every=0)")
    parser.add_argument("--teacher-epochs", type=int, default=10)
    parser.add_argument("--rows", type=int)
    parser.add_argument("--kept", type=Path)
    options = parser.parse_args()

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
