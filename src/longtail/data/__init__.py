"""Label sets, data sets, corpora; readers, writers and builders of data sets.

Start reading at `dataset.py` and `labels.py`, then `read.py`, where `load` finds the layout.

    labels.py, dataset.py, corpus.py    `LabelSet`, `Rows` and `Dataset`, `Corpus` with its three splits
    read.py                             `load`: any layout to a `Corpus`
    in_memory.py, frames.py             `corpus`: lists, frames and data sets in memory to a `Corpus`
    folder_layout.py, table.py          JSON lines; CSV, TSV and Parquet
    columns.py, parquet.py              the records of such tables
    repository*.py                      the layouts of the Extreme Classification Repository
    vectors.py, corpus_facts.py         `train.vectors.npy` and `corpus.json` beside the data
    files.py, rows.py                   lines of files, plain or compressed; documents collected while a file is read
    limits.py, opening.py, unpack.py    what a file may ask for; the one place that opens files; .gz and .xz
    numpy_files.py, sparse_files.py     arrays and sparse matrices from files that are not trusted
    store_*.py, mapped_texts.py         columns in files that are mapped into memory, and their writer
    worker_pool.py                      work on several processes, in order
    write.py                            writers of our layout and of the repository's
    hierarchy.py                        data sets from hierarchies, read by edges.py, wordnet_*.py and wikipedia*.py
    published.py                        constants, sizes and recipes of the papers' data sets
    builders/                           a room of its own: data sets from the raw files that are published
    label_rows.py, aligned.py           labels as examples; a data set over the labels of a model
    subsample.py                        evenly spaced rows, for work that needs only some of them
    wordnet/                            the data set that ships with longtail

May import errors, arrays, memory, progress, threads and atomic.
"""

from longtail.data.corpus import Corpus, held_out, make_corpus
from longtail.data.dataset import GIVEN, Dataset, Rows
from longtail.data.labels import LabelSet, Propensity

__all__ = ["GIVEN", "Corpus", "Dataset", "LabelSet", "Propensity", "Rows", "held_out", "make_corpus"]
