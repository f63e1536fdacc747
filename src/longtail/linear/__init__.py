"""Sparse features and the kernels over them."""
