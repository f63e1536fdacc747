"""Names of labels found in texts, and the probability that a found label is right.

- `names`: the names of labels as sequences of terms, and a trie that finds them in texts.
- `learned_names`: words and pairs of words of training texts that go with a label.
- `match_facts`: what is known of a label that was found in a text: how often, where, by which name.
- `lexical_scorer`: the names, the facts of labels and boosted trees as one model.

May import `arrays`, `data`, `errors`, `linear/features`, `linear/fusion`, `linear/solvers`, `seams` and `threads`.
Start reading at `lexical_scorer`.
"""
