"""Graphs over labels, from the labels that examples have in common.

- `cooccurrence`: how often labels occur together (Gandalf, GLaS); `cooccurrence_kernels`: the Numba kernels under it.
- `random_walks`: how often a random walk over examples and labels meets another label; also links labels that never
  occur together.
- `ancestors`: labels above others in the hierarchy of a vocabulary (broader, ancestors); `ancestor_kernels`: its
  kernel.

Imports `linear.csr_arrays` and no other room of `linear`. Start reading at `cooccurrence`.
"""
