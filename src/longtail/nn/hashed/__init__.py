"""Labels hashed into buckets, several times over: classifiers of buckets in place of classifiers of labels.

Start reading at `bucket_tables.py`. Files:

- `bucket_tables.py`: the bucket of each label in each repetition, and the targets of buckets (no torch)
- `bucket_sums.py`: the best labels by the sum of their buckets' scores (no torch)
- `hashed_fit.py`: texts to a trained model; all but the buckets is `nn/onevsall`'s
- `net_jobs.py`: a net for each repetition, trained in jobs (no torch)
- `hashed_scorer.py`: the model that predicts (no torch)

May import `nn/onevsall`, `nn/training` and `nn/encoders`, and the rooms below `nn` (`tests/test_house.py`).
"""
