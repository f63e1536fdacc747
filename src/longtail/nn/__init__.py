"""Neural networks over texts. Each room names what it holds:

encoders    texts -> tokens -> vectors: tokenizers, word-vector nets, transformers, `TextEncoder`
training    the training loop, its checkpoints and history; devices, precision, seeds
dual        dual encoders: documents and labels as vectors, found by nearest-neighbour search
onevsall    one classifier for each label over all labels, trained in chunks of labels
label_tree  nets over a tree of labels, or a learned graph of clusters and labels
hashed      labels hashed into buckets, with a classifier for each bucket
pool        losses over a pool of labels shared by a batch
shallow     word-vector nets with sampled or shortlisted labels
distill     soft labels from a teacher model
kernels     Triton kernels for training on a GPU

`encoders`, `training` and `kernels` import none of the other rooms. Importing this package loads no torch; its modules
do. Entry points call `longtail.nn.extra.require` first, so that a machine without torch raises an error with the
`pip install` line. Start with `encoders/build.py` and `training/loop.py`.
"""

import os

# Intel's MKL sums a matrix product in an order that depends on the number of threads, unless this is set before its
# first product. Without this a model's bytes would depend on the threads; see `training/thread_invariant.py`.
os.environ.setdefault("MKL_CBWR", "AUTO,STRICT")
