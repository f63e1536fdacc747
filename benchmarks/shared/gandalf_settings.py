"""What `gpu/gandalf.py` trains: nets, tables of the paper, settings, and the epochs in which label rows take part."""

from __future__ import annotations

NETS = ("astec", "decaf", "eclare", "inceptionxml", "inceptionxml-lf")
READERS = ("decaf", "eclare")  # their classifiers read label texts as they read rows
EACH_NET = ("table3", "table4", "figure2", "reached")  # parts with all nets
BEST = "gandalf(soft_scale=0.3, repeats=2)"  # chosen on valid: the best PSP@5 whose P@1 is not below plain
LITTLE = "gandalf(soft_scale=0.1)"  # the same for nets that already read label texts
TABLE2 = {
    "D, the rows as given": "",
    "Z, label rows alone": " + gandalf(rows_only=true)",
    "G, both": " + gandalf",
    "U(G, N), as many of both as given": " + gandalf(budget=true)",
    "Z¹ and D, `rows`": " + rows",
    "σ(S) instead of co-occurrence": ' + gandalf(graph="symmetric")',
}
TABLE6 = {
    "plain": "",
    "synonyms": " + synonyms",
    "mixup": " + mixup",
    "labelmixup": " + labelmixup",
    "bow": " + bow",
    "rows": " + rows",
    "gandalf": " + gandalf",
    BEST: f" + {BEST}",
}
TEXTS = ("", " + rows", " + gandalf(self_only=true, repeats=2)")  # most settings have the texts of one of these
SHARES = (0.25, 0.5, 0.75)
EPOCHS = {
    "astec": (10, 15, 20, 30),
    "decaf": (10, 15, 20, 30),
    "eclare": (5, 10, 15, 30),
    "inceptionxml": (15, 20, 30),
    "inceptionxml-lf": (15, 20, 30),
}
AT = {"inceptionxml": 20, "astec": 15}  # epochs of the runs that compare settings of gandalf
BOTH = (
    "rows",
    "gandalf",
    "gandalf(soft_scale=0.3)",
    "gandalf(soft_scale=0.3, repeats=2)",
    "gandalf(self_only=true, repeats=2)",
    "gandalf(soft_scale=0.5, min_cooccurrence=3)",
    "gandalf(prior_count=2, soft_scale=0.3)",
)
MORE = (  # on astec alone
    "gandalf(repeats=2)",
    "gandalf(min_cooccurrence=3)",
    "gandalf(soft_scale=0.1)",
    "gandalf(soft_scale=0.5, min_cooccurrence=3, repeats=2)",
    "gandalf(self_only=true, repeats=4)",
    "gandalf(soft_scale=0.2)",
    "gandalf(soft_scale=0.5)",
    "gandalf(prior_count=2)",
    "gandalf(soft_scale=0.1, repeats=2)",
    "gandalf(soft_scale=0.2, repeats=2)",
    "gandalf(soft_scale=0.5, repeats=2)",
    "gandalf(prior_count=2, soft_scale=0.3, repeats=2)",
    "gandalf(prior_count=2, soft_scale=0.5)",
    "gandalf(prior_count=5, soft_scale=0.5)",
    "gandalf(soft_scale=0.3, min_cooccurrence=3)",
    "gandalf(threshold=0.5)",
    "gandalf(threshold=0.5, soft_scale=0.5)",
    "gandalf(max_soft_targets=3)",
    "gandalf(soft_scale=0.2, repeats=4)",
    "gandalf(prior_count=2, soft_scale=0.2, repeats=4)",
    "gandalf @first half",
    "gandalf(soft_scale=0.3) @first half",
    "gandalf(repeats=2) @first half",
    "gandalf @last half",
    "gandalf @every second",
)
GENTLE = (  # on astec and eclare, with their own number of epochs
    "rows",
    "gandalf",
    "gandalf(soft_scale=0.3, repeats=2)",
    "gandalf(soft_scale=0.3)",
    "gandalf(soft_scale=0.1)",
    "gandalf(min_cooccurrence=3)",
    "gandalf(soft_scale=0.3, min_cooccurrence=3)",
    "gandalf(threshold=0.5, soft_scale=0.5)",
    "gandalf(label_share=0.5, label_selection='tail', soft_scale=0.3)",
    "gandalf(repeats=2) @first half",
    "gandalf(repeats=2) + rows @then rows",
    "gandalf(soft_scale=0.5, repeats=2) + rows @then rows",
)
THEN = "then rows"  # label rows of gandalf in the first half of the epochs, those of `rows` in the second
WHEN = {  # label rows from one share of the epochs to another, and the probability of each in an epoch
    "first half": (0.0, 0.5, 1.0),
    "last half": (0.5, 1.0, 1.0),
    "every second": (0.0, 1.0, 0.5),
}
