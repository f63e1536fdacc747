"""Solvers: small optimisation problems, mostly as Numba kernels.

- `coordinate_descent`: linear classifiers of a tree node's children, squared hinge or log loss; `prefetch` hides its
  memory latency, `pruning` drops small weights afterwards.
- `lasso`: one-vs-all classifiers with an L1 penalty (ProXML). `l1_logistic`: the separator of an instance tree's node.
- `ranknet_kernels`: forward, backward and loss of the RankNet re-ranker; `ranknet_matrix`: its form with one matrix.
- `logistic`: Newton's method for a few weights; `candidate_probability` and `score_scale` calibrate scores with it.
- `numba_compile`: options of the kernels.

Imports nothing of the other rooms of `linear`. Start reading at `coordinate_descent`.
"""
