"""A learned combination of members: from their candidates to the probability that each is right.

Start reading at `combiner.py`, which learns and predicts. Files:

- `candidates.py`: the best labels of all members, joined into one list of candidates a row
- `candidate_numbers.py`: what the trees see of a candidate: scores and places, frequency, reliability, agreement
- `label_phrases.py`: what a text says of a label: the share of its words, the whole phrase, where
- `reliability.py`: how often a label was right where it was proposed, counted out of fold
- `boosted_trees.py`: gradient-boosted trees as plain arrays: LightGBM grows them, our own kernel walks them
- `combiner.py`: the trees over these numbers; `fuse_scorer.py`: the members and the combiner as one model
- `sides.py`: two models with labels of their own, head and tail, as one ranking

May import `arrays`, `data`, `errors`, `linear/features`, `linear/solvers`, `predictions`, `progress`, `seams` and
`threads`; no learner: members are passed in.
"""
