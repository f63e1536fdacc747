"""Models in forms that other programs read.

Start reading at `parts.py`, which takes a model apart for all of them.

    parts.py                    the encoder and the label vectors of a model; the folder of an export
    numpy.py                    label vectors and ids as plain files
    sentence_transformers.py    a folder that sentence-transformers loads
    onnx.py                     the encoder, and classifiers of small label sets, as an ONNX graph
    database.py                 label vectors in PostgreSQL, and a model that searches there

One file per form, each with `export(model, folder)`. May import data, search, nn, model and what they import.
"""
