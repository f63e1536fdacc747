"""Limits on what a file may ask for. Each is far above real data, and the error that a file meets names it.

A file of a few bytes can declare billions of labels or unpack to gigabytes. Sizes that a file declares are therefore
believed only up to what its content can back, and everything without a natural end has one here.
"""

from __future__ import annotations

from pathlib import Path

from longtail.errors import DataError

# Lines and texts.
MAX_LINE = 1 << 26  # bytes; the Bible has 4.4 million
MAX_FIELD = 1 << 25  # characters of a field of a CSV or TSV file, which may have line ends in it
MAX_WHOLE = 1 << 24  # bytes of a file that is one JSON object or one TOML document
MAX_LIST = 1 << 20  # characters of a list of labels as Python prints it; a list in JSON may be as long as its line
MAX_DEPTH = 100  # levels of lists and objects inside each other that are always read; far deeper ones never are
MAX_DIGITS = 1000  # characters of a number in a matrix
MAX_COLUMNS = 100_000  # columns of a table
EXCEL_ROWS, EXCEL_COLUMNS = 1 << 20, 1 << 14  # of a sheet, as Excel has it
MAX_COUNT = 18  # digits of a count or of a place in a file, which are numbers of 64 bits

# Compressed files and archives.
MAX_RATIO = 200  # bytes unpacked for each byte packed; texts reach 10, columns of equal numbers 100
RATIO_FROM = 1 << 26  # bytes unpacked before that ratio counts
XZ_MEMORY = 1 << 28  # bytes that unpacking .xz may take; `xz -9` asks for 65 million
MAX_MEMBERS = 16  # arrays in a .npz file; a sparse matrix has five

# Sizes that a header declares.
INDEX_LIMIT = 2**31 - 1  # rows, columns and labels are numbered in 32 bits
FREE_LABELS = 4_000_000  # labels believed without an entry for them; the largest public label set has 2.8 million
FREE_COLUMNS = 1 << 26  # features, likewise; hashed features have 2^18 to 2^24
PER_ENTRY = 64  # beyond those: labels or features for each entry of the data set
FREE_ROWS = 1 << 20  # rows or values of a Parquet file believed whatever its size
ROWS_PER_BYTE = 8  # beyond those: rows or values for each byte of the file
BATCH_BYTES = 1 << 28  # of the values of a Parquet file that are held at once
MAX_FOOTER = 1 << 26  # bytes of the description at the end of a Parquet file

# Memory.
ASK_FROM = 1 << 26  # bytes; less is taken without asking how much memory is free
RESERVE = 1 << 28  # bytes that must stay free while a file is read
CHECK_EVERY = 1 << 25  # bytes read between two checks of the free memory


def check_declared(labels: int, features: int, entries: int, path: Path | None) -> None:
    """Checks that a data set has not far more labels or features than entries: each takes memory later.

    Args:
        labels: how many its headers declare, or the largest label number.
        features: likewise.
        entries: of all its targets and features.
        path: where the sizes were read, for the message.

    Raises:
        DataError: there are too many to be believed.
    """
    for what, number, free in (("labels", labels, FREE_LABELS), ("features", features, FREE_COLUMNS)):
        limit = max(free, PER_ENTRY * entries)
        if number > limit:
            raise DataError(
                f"declares {number:,} {what} for {entries:,} entries of targets and features; at most {limit:,} are "
                "believed; correct the header or the numbers",
                path,
            )
