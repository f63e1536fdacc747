"""A package of somebody else: a learner and a tail method, one file each."""
