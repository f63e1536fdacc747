"""`longtail neighbours`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from cli_calls import call

from longtail.data import Corpus
from longtail.tail.gandalf import Gandalf


def test_shows_the_shares_of_a_labels_rows(data: Path, tiny: Corpus) -> None:
    done = call("neighbours", data, "L4", "-k", "3", "--json")
    assert done.code == 0 and done.err == ""
    shown = done.json
    targets = tiny.train.targets.toarray()
    own = targets[:, 4] > 0
    together = targets[own].sum(axis=0)
    assert shown["label"] == {"id": "L4", "text": "a engine", "rows": int(tiny.labels.counts[4])}
    assert len(shown["neighbours"]) == 3
    for one in shown["neighbours"]:
        row = tiny.labels.row_of[one["id"]]
        assert one["together"] == together[row] and one["weight"] == pytest.approx(together[row] / own.sum(), abs=1e-6)
    weights = [one["weight"] for one in shown["neighbours"]]
    assert weights == sorted(weights, reverse=True)
    assert weights[0] == pytest.approx(np.delete(together, 4).max() / own.sum(), abs=1e-6)


@pytest.mark.parametrize("graph", ["cooccurrence", "walk", "symmetric"])
def test_weights_are_what_gandalf_trains_on(graph: str, data: Path, tiny: Corpus) -> None:
    shown = call("neighbours", data, "L2", "--graph", graph, "--threshold", "0.1", "-k", "50", "--json").json
    targets = Gandalf(graph=graph).soft_targets(tiny.train.targets)[[2]].toarray()[0]  # type: ignore[arg-type]
    targets[2] = 0
    found = {one["id"]: one["weight"] for one in shown["neighbours"]}
    assert found == {f"L{row}": pytest.approx(float(targets[row]), abs=1e-6) for row in np.flatnonzero(targets)}


def test_table_and_label_by_text(data: Path) -> None:
    done = call("neighbours", data, "A  Castle")
    assert done.code == 0 and "a castle (L2)" in done.out and "examples with both" in done.out
    words = call("neighbours", data, "a castle", "--graph", "bow")
    assert words.code == 0 and "a apple" in words.out


def test_figure(data: Path, tmp_path: Path) -> None:
    done = call("neighbours", data, "L0", "-k", "4", "--svg", tmp_path / "bars.svg")
    assert done.code == 0 and "bars.svg" in done.err
    root = ElementTree.parse(tmp_path / "bars.svg").getroot()
    bars = list(root.iter("{http://www.w3.org/2000/svg}rect"))[1:]  # the first is the ground
    assert len(bars) == 4
    widths = [float(bar.attrib["width"]) for bar in bars]
    assert widths == sorted(widths, reverse=True) and widths[0] > 0
    shown = call("neighbours", data, "L0", "-k", "4", "--json").json["neighbours"]
    assert widths[1] / widths[0] == pytest.approx(shown[1]["weight"] / shown[0]["weight"], abs=0.01)


def test_what_is_refused(data: Path, tmp_path: Path) -> None:
    assert "did you mean 'a guitar'?" in call("neighbours", data, "a gitar").error
    assert "did you mean 'a guitar'?" in call("neighbours", data, "guitar").error
    assert "did you mean 'cooccurrence'?" in call("neighbours", data, "L1", "--graph", "coocurrence").error
    assert "-k must be at least 1" in call("neighbours", data, "L1", "-k", "0").error
    assert "is a folder" in call("neighbours", data, "L1", "--svg", tmp_path).error
    assert "no label has the id or the text 'xyzzy'" in call("neighbours", data, "xyzzy").error


def test_the_counts_are_of_the_examples_that_the_weights_come_from(rows: list[dict[str, Any]]) -> None:
    """Not those held out as valid, nor one with very many labels."""
    many = {**rows[0], "id": "long", "labels": ["L0", "L1", *(f"other {number}" for number in range(120))]}
    Path("all.jsonl").write_text("".join(json.dumps(row) + "\n" for row in [*rows, many]))
    done = call("neighbours", "all.jsonl", "L0", "-k", "200", "--json")
    assert done.err.count("note: 1 example with more than 100 labels is not counted, as in gandalf\n") == 1
    shown = done.json
    assert not any(one["id"].startswith("other") for one in shown["neighbours"])
    assert shown["label"]["rows"] < sum("L0" in row["labels"] for row in rows)
    for one in shown["neighbours"]:
        assert one["weight"] == pytest.approx(one["together"] / shown["label"]["rows"], abs=1e-5)


def test_a_figure_that_cannot_be_written(data: Path) -> None:
    done = call("neighbours", data, "L0", "--svg", "/proc/x.svg")
    assert done.code == 2
    assert done.err.startswith("error: /proc/x.svg: cannot be written")
