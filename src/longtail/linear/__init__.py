"""Sparse features, the solvers over them, and label trees. NumPy, SciPy and Numba; no PyTorch.

- `features/`: texts to tf-idf vectors, sparse top-k search, text augmentation.
- `solvers/`: linear classifiers, calibration, RankNet.
- `trees/`: trees over labels (Parabel, Bonsai, XReg) and over examples (FastXML), beam search.
- `graph/`: label co-occurrence and random walks.
- `csr_arrays`: csr matrices as the kernels take them.
- `operation_counts`: how many numbers a training touches, for benchmarks.

May import `arrays`, `data`, `errors`, `memory`, `plan`, `progress`, `seams`, `selection` and `threads`; never
`learners`, `tail` or `nn`. Arrows inside: solvers <- features <- trees; graph stands alone.
Start reading at `trees.train_tree`, which trains most of the linear learners.
"""
