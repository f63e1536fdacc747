"""Trees over labels (Parabel, Bonsai, XReg; DiSMEC and ProXML as one node) and over examples (FastXML, PfastreXML).

- `label_clusters`: labels clustered into a tree. `train_tree`: the classifiers of its nodes; `node_rows`: the rows of a
  node; `hard_negatives`: rows that reach a node by mistake.
- `beam_search`: `LabelForest` and its search; `beam_kernels`, `dense_kernels` (weights of an encoder's vector) and
  `beam_best`: the Numba kernels under it.
- `label_forest`: trains several trees; the scorer. `tree_plan`: memory and time. `classifier_norms`: for reports.
- `instance_tree`: one tree over examples; `instance_forest`: many, and their search.

Imports `linear.solvers`, `linear.features` and `linear.csr_arrays`. Start reading at `label_forest`, then `train_tree`.
"""
