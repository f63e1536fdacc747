"""Tail methods, one file each; the name of a method in a recipe is the name of its file.

    augment         rows, gandalf, broader, bow, mixup, labelmixup, synonyms: more training rows
    wrap, teacher   taug, lever, ensemble, parts: a learner around the learner
    label tower     dexa: trained vectors beside the labels' texts
    head penalty    glas, l2tie: terms on the classifier rows
    rerank          rerank, centroid, ranknet, calibrate, ancestors: a new order of the candidates

They may import `linear`, `nn`, `search`, `metrics`, `data` and `seams`, never a learner or each other. A recipe brings
learner and methods together. Start reading with `longtail.seams`, which has the protocols, then `rerank.py`, the
shortest method.
"""
