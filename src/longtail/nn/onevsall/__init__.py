"""One-vs-all classifiers: one weight vector per label, trained over all labels in every step, with a text encoder.

Start reading at `head.py`. Files:

- `head.py`: the classifiers and their update, one chunk of labels at a time, without a gradient of all labels
- `plain_head.py`, `fused_head.py`: the work on one chunk, in plain torch and as Triton kernels for a GPU
- `batch_targets.py`: the sparse soft targets of a batch, sorted by label; `head_top.py`: the top k labels of vectors
- `stochastic_rounding.py`: rounding to bf16 and fp8; `penalties.py`: terms on the classifiers (glas, l2tie)
- `head_shards.py`: several processes, each with a range of the labels, and their checkpoints
- `recorded_head.py`: a step as a CUDA graph, with the numbers of `step_numbers.py`; `positive_loss.py`: what is logged
- `onevsall_task.py`: the step of encoder and head for the training loop; `onevsall_fit.py`: texts to a trained model
- `onevsall_settings.py`, `onevsall_scorer.py`: settings and memory plan; the model that predicts (neither loads torch)

May import `nn/training`, `nn/encoders`, `nn/dual` and `nn/kernels`, and the rooms below `nn` (`tests/test_house.py`).
"""
