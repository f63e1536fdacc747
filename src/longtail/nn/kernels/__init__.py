"""Triton kernels for training on a GPU, in one pass each: what lies between an encoder's matrix products, and how rows
of a table move.

Loaded only where triton is installed and a GPU is used; `nn.transformer` and `nn.frugal.rows` hold the same in torch.
"""
