"""The tables of `gpu/gandalf.py`, from its stored runs."""

from __future__ import annotations

import statistics
from typing import Any

import numpy as np

from shared.gandalf_reached import reach
from shared.tables import KS, table

Kept = dict[str, list[dict[str, Any]]]  # of each line of a table its runs, one a seed


def mean(runs: list[dict[str, Any]], split: str, name: str) -> float:
    return statistics.mean(run[split][name] for run in runs)


def apart(kept: Kept, split: str, names: list[str]) -> str:
    """How far runs lie from the mean of their seeds."""
    far = [
        abs(run[split][name] - mean(runs, split, name))
        for runs in kept.values() if len(runs) > 1 for run in runs for name in names
    ]  # fmt: skip
    return f"\n\nseeds differ from their mean by {statistics.mean(far):.1f}, at most {max(far):.1f}" if far else ""


def report(part: str, kept: Kept) -> str:
    """The table of a part."""
    if not kept:
        return "no runs yet"
    if part == "figure2":
        parts = [bin_["name"] for bin_ in next(iter(kept.values()))[0]["test bins"]]
        cells = {
            line: [f"{statistics.mean(run['test bins'][place]['contribution'] for run in runs):.2f}"
                   for place in range(len(parts))]
            for line, runs in kept.items()
        }  # fmt: skip
        return table(["points of P@5 from bin", *parts], [[line, *row] for line, row in cells.items()])
    if part == "table5":
        return examples(kept)
    if part == "kept":
        return best_epochs(kept)
    if part == "reached":
        return table(*reach({line: [run["reached"] for run in runs] for line, runs in kept.items()}))
    names = [f"C@{k}" for k in KS] if part == "table4" else [f"{name}@{k}" for name in ("P", "PSP") for k in KS]
    names += [] if part == "table4" else ["C@5"]
    split = "valid" if part in ("epochs", "search", "gentle") else "test"
    lines = [
        [line, str(len(runs)), *(f"{mean(runs, split, name):.1f}" for name in names)] for line, runs in kept.items()
    ]
    text = f"{split} split\n\n" + table(["", "seeds", *names], lines) + apart(kept, split, names)
    if part == "figure3":
        text += "\n\nvalid, by epoch:\n" + "\n".join(_over_epochs(line, runs[0]) for line, runs in kept.items())
    return text


def _over_epochs(line: str, run: dict[str, Any]) -> str:
    names = ("P@1", "PSP@5")
    points = [entry for lines in run["history"] for entry in lines if names[1] in entry]
    return f"{line}: " + ", ".join(
        f"{entry['epoch']}: {entry[names[0]]:.1f} / {entry[names[1]]:.1f}" for entry in points
    )


def best_epochs(kept: Kept) -> str:
    """Of every training, the epoch with the best P@1 on valid beside the one with the best mean of P@1 and PSP@5."""
    names, found = ("P@1", "PSP@1", "PSP@5"), []
    for run in (run for runs in kept.values() for run in runs):
        seen = [entry for entry in run["history"][-1] if "PSP@5" in entry] if run["history"] else []
        if seen:
            first = max(seen, key=lambda entry: entry["P@1"])
            both = max(seen, key=lambda entry: entry["P@1"] + entry["PSP@5"])
            found.append([both[name] - first[name] for name in names])
    other = [gain for gain in found if any(gain)]
    rows = [
        [what, str(len(some)), *(f"{statistics.mean(values):+.2f}" for values in zip(*some, strict=True))]
        for what, some in (("all", found), ("another epoch is best", other)) if some
    ]  # fmt: skip
    return "valid, by the mean of P@1 and PSP@5 instead of P@1\n\n" + table(["trainings", "", *names], rows)


def examples(kept: Kept) -> str:
    """Short texts on which plain and gandalf differ most, wrong labels in brackets."""
    lines = []
    names = sorted({line.split(":")[0] for line in kept})
    for name in names:
        both = [kept.get(f"{name}: {way}") for way in ("plain", "+ gandalf")]
        if None in both:
            continue
        pairs = list(zip(*(runs[0]["examples"] for runs in both if runs), strict=True))
        gains = [len(set(new["rows"]) & set(new["right"])) - len(set(old["rows"]) & set(old["right"])) for old, new in pairs]  # fmt: skip  # noqa: E501
        chosen = [*np.argsort(gains)[::-1][:3].tolist(), int(np.argmin(gains))]  # three gains and the worst loss
        for place in chosen:
            old, new = pairs[place]
            lines.append([name, old["text"], *(_marked(example) for example in (old, new))])
    return table(["", "text", "plain", "+ gandalf"], lines)


def _marked(example: dict[str, Any]) -> str:
    words = [
        word if row in example["right"] else f"[{word}]"
        for word, row in zip(example["found"], example["rows"], strict=True)
    ]
    return ", ".join(words).replace("|", "/")
