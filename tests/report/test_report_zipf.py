import itertools
import xml.etree.ElementTree as ET

import numpy as np
import pytest

from longtail.data.labels import LabelSet
from longtail.report.zipf import band_sizes, zipf_svg, zipf_text


def labels(counts: list[int]) -> LabelSet:
    return LabelSet(ids=tuple(f"L{row}" for row in range(len(counts))), counts=np.array(counts), train_rows=100)


LONG_TAIL = labels([*(max(1000 // rank, 1) for rank in range(1, 3000)), 0, 0, 0])


def test_text_picture_falls_from_left_to_right() -> None:
    lines = zipf_text(LONG_TAIL, width=60, height=12).splitlines()
    picture = [line.partition("│")[2].ljust(60) for line in lines[:12]]
    assert lines[0].startswith("   1,000 │█")
    tall = [sum(" ▁▂▃▄▅▆▇█".index(row[column]) for row in picture) for column in range(60)]
    assert tall == sorted(tall, reverse=True)
    assert tall[0] == 96 and tall[-1] <= 1
    assert "head" in lines[13] and "torso" in lines[13] and "tail" in lines[13]
    assert lines[14].endswith("label 3,002")
    assert all(len(line) <= 60 + 10 for line in lines)


@pytest.mark.parametrize("counts", [[], [0], [1], [0, 0, 0], [5], [1, 1, 1], [7, 0], [3, 2, 1] * 40])
@pytest.mark.parametrize(("width", "height"), [(60, 12), (10, 3), (1, 1)])
def test_odd_label_sets_have_a_picture_too(counts: list[int], width: int, height: int) -> None:
    text = zipf_text(labels(counts), width, height)
    assert text and "\t" not in text
    for svg in ET.fromstring(f"<body>{zipf_svg(labels(counts))}</body>").iter("svg"):
        assert "nan" not in ET.tostring(svg, "unicode")


def test_svg_shades_the_bands_and_says_their_sizes() -> None:
    tree = ET.fromstring(f"<body>{zipf_svg(LONG_TAIL)}</body>")
    sizes = band_sizes(LONG_TAIL)
    assert sizes.sum() == 3002 and sizes[3] == 3
    svg = next(tree.iter("svg"))
    assert f"{sizes[2]:,} tail labels" in svg.get("aria-label", "")
    shades = [one for one in svg.iter("rect") if "band" in one.get("class", "")]
    assert len(shades) == 4
    edges = [(float(one.get("x", "")), float(one.get("width", ""))) for one in shades]
    for (x, width), (next_x, _) in itertools.pairwise(edges):
        assert x + width == pytest.approx(next_x, abs=0.6)
