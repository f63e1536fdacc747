"""Triton kernels for training on a GPU: what lies between an encoder's matrix products, in one pass each.

Loaded only where triton is installed and a GPU is used; `longtail.nn.transformer` holds the same in plain torch.
"""
