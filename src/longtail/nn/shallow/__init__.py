"""Shallow nets: word vectors, a small encoder and one classifier per label (Astec, DECAF, ECLARE, InceptionXML).

Start reading at `shallow_task.py`. Files:

- `shallow_settings.py`, `shallow_fit.py`: shared settings and memory plan; from texts to a trained net
- `shallow_task.py`: the training step; `cuda_graph_step.py`: the same step recorded as a CUDA graph
- `fixed_size_batches.py`: batches whose arrays all have the same size, as a recording needs them
- `pretrained_word_vectors.py`: files of word vectors such as GloVe's
- `label_head.py`, `sparse_adam.py`: classifiers, chunk by chunk; Adam that updates only the rows a step used
- `label_mixtures.py`, `walk_graph.py`: classifiers made from label texts; the label graph of random walks
- `label_pool.py`, `shortlists.py`: the labels that a batch is compared with, where there are too many for all
- `shallow_scorer.py`: the model that predicts (loads torch only to encode texts)

The networks themselves are `nn/encoders/word_vector_encoders.py`. May import `nn/training`, `nn/encoders`, `nn/dual`,
`nn/onevsall` and `nn/kernels`, and the rooms below `nn`.
"""
