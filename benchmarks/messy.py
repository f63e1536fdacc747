"""Data with the faults that people's data has, for the guides: messy.csv, and a drawer of books with its vocabulary.

    python benchmarks/messy.py FOLDER [--rows 20000] [--books 300]

Writes FOLDER/messy.csv and FOLDER/drawer, and prints how many rows of the CSV have each fault. The tests run the pages
"From a messy CSV" and "From a drawer of books to subjects" on this data.
"""

from __future__ import annotations

from pathlib import Path

from shared.command import parser_for
from shared.messy import write_csv, write_drawer


def main() -> None:
    parser = parser_for(__doc__)
    parser.add_argument("folder", type=Path, help="folder to write into")
    parser.add_argument("--rows", type=int, default=20_000, help="rows of the CSV")
    parser.add_argument("--books", type=int, default=300, help="books of the drawer")
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    faults = write_csv(given.folder / "messy.csv", given.rows)
    write_drawer(given.folder / "drawer", given.books)
    print(f"{given.folder}/messy.csv: {given.rows:,} rows")
    for fault, number in faults.items():
        print(f"  {fault}: {number:,}")


if __name__ == "__main__":
    main()
