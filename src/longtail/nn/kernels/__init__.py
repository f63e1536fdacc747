"""Triton kernels for training on a GPU: what lies between an encoder's matrix products, and how rows of a table move, in
one pass each.

Loaded only where triton is installed and a GPU is used; `longtail.nn.transformer` and `longtail.nn.frugal.rows` hold the
same in plain torch.
"""
