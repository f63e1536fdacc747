"""Triton kernels for training on a GPU, each in one pass over memory.

embedding_and_pooling.py, attention.py, layer_norm.py, activation.py  what lies between a transformer's matrix products
dropout_mask.py    dropout whose mask is computed from a seed and never stored
adam_rows.py       Adam on some rows of a table
block_products.py  products with the runs of weights of clusters
weighted_bag.py    weighted sums of word vectors
sigmoid.py         scores plus bias to probabilities

Imported only where Triton is installed and a GPU is used. `nn/encoders/transformer.py`, `nn/shallow/sparse_adam.py`,
`nn/encoders/word_vector_encoders.py`, `nn/shallow/label_head.py` and `nn/label_tree/candidate_blocks.py` hold the same
in plain torch. They import nothing of longtail but each other. Start with layer_norm.py.
"""
