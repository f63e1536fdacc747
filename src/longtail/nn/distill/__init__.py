"""Distillation: soft labels for a student, from the vectors of a trained teacher (LEVER).

    soft_labels  start reading here: nearest labels and documents of each label, as soft targets
    student_choice  which soft labels a student learns from, and how good it is on valid
    relevance    from a cosine to the probability that a pair is right: linear, logistic or isotonic

Neither loads torch before it searches. May import nn.dual, nn.training, search, metrics, and what lies below nn.
"""
