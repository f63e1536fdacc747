"""Which right labels could be found from the text of a row: where label rows and soft targets can help. Needs no GPU.

    python benchmarks/gpu/gandalf_reached.py DATA [DATA ...]

Sorts the right labels of the test split by what the text of their row holds: all words of the label, some, only the
text of a label linked to it, or nothing. Prints for each kind, for rare labels and for the others, how many there are
and their share of all inverse propensities. `gandalf.py --part reached` prints how many of them models find.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import longtail
from shared.command import parser_for
from shared.gandalf_reached import KINDS, kinds


def main() -> None:
    parser = parser_for(__doc__)
    parser.add_argument("data", nargs="+", help="names or folders of data sets")
    options = parser.parse_args()
    from longtail.metrics.propensity import inverse_propensity

    for data in options.data:
        given = longtail.load(data)
        _, labels, kind, rare = kinds(given)
        weights = inverse_propensity(given.labels)[labels]
        for who, of in (("rare", rare), ("others", ~rare)):
            for number, name in enumerate(KINDS):
                some = of & (kind == number)
                share = 100 * weights[some].sum() / weights.sum()
                print(f"{given.name}, {who}: {name}: {some.sum():,} labels, {share:.1f}% of the weight")


if __name__ == "__main__":
    main()
