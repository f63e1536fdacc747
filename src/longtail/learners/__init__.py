"""Base methods (learners), one file each. `longtail.catalogue` lists them by name.

A learner is a frozen dataclass of settings whose `fit` returns a scorer. Learners import `linear`, `nn` and `search`,
never `tail`. Start reading at `centroid.py`, the shortest that learns.
"""
