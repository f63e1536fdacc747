"""Nets over a tree of labels: clusters are scored first, then the labels of the best ones.

Start reading at `label_levels.py`, then `level_heads.py`. Files:

- `label_levels.py`: the clusters of each level, and the runs of children below them (no torch)
- `candidate_blocks.py`: scores of the children of each example's clusters, one small product a cluster
- `level_heads.py`: the classifiers of every level: training loss, and beam search
- `tree_settings.py`: settings that these learners share (no torch)
- `tree_task.py`, `tree_fit.py`: the training task, and texts to a trained model
- `tree_scorer.py`: the model that predicts (loads torch only to predict)
- `cluster_graph.py`, `graph_*.py`: labels in several clusters, by a learned graph (ELIAS)

May import `nn/training` and `nn/encoders`, and the rooms below `nn` (`tests/test_house.py`).
"""
