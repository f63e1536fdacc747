"""What `gandalf.py` tries: nets, tables of the paper, settings, and epochs in which label rows are there."""

from __future__ import annotations

NETS = ("astec", "decaf", "eclare", "inceptionxml", "inceptionxml-lf")
READERS = ("decaf", "eclare")  # their classifiers read label texts in the way that they read rows
EACH_NET = ("table3", "table4", "figure2", "reached")  # parts with all nets
KS = (1, 3, 5)
BEST = "gandalf(scale=0.3, times=2)"  # as chosen on valid: the most PSP@5 on both where P@1 is not lower than plain
LITTLE = "gandalf(scale=0.1)"  # the same on nets that read label texts already
TABLE2 = {
    "D, the rows as given": "",
    "Z, label rows alone": " + gandalf(rows_only=true)",
    "G, both": " + gandalf",
    "U(G, N), as many of both as given": " + gandalf(budget=true)",
    "Z¹ and D, `rows`": " + rows",
    "σ(S) instead of co-occurrence": ' + gandalf(graph="symmetric")',
}
TABLE6 = {
    "plain": "", "synonyms": " + synonyms", "mixup": " + mixup", "labelmixup": " + labelmixup", "bow": " + bow",
    "rows": " + rows", "gandalf": " + gandalf", BEST: f" + {BEST}",
}  # fmt: skip
TEXTS = ("", " + rows", " + gandalf(self_only=true, times=2)")  # most ways have the texts of one of these
SHARES = (0.25, 0.5, 0.75)
EPOCHS = {
    "astec": (10, 15, 20, 30), "decaf": (10, 15, 20, 30), "eclare": (5, 10, 15, 30), "inceptionxml": (15, 20, 30),
    "inceptionxml-lf": (15, 20, 30),
}  # fmt: skip
AT = {"inceptionxml": 20, "astec": 15}  # epochs in which settings of gandalf are tried
BOTH = (
    "rows", "gandalf", "gandalf(scale=0.3)", "gandalf(scale=0.3, times=2)", "gandalf(self_only=true, times=2)",
    "gandalf(scale=0.5, least=3)", "gandalf(doubt=2, scale=0.3)",
)  # fmt: skip
MORE = (  # on astec alone
    "gandalf(times=2)", "gandalf(least=3)", "gandalf(scale=0.1)", "gandalf(scale=0.5, least=3, times=2)",
    "gandalf(self_only=true, times=4)", "gandalf(scale=0.2)", "gandalf(scale=0.5)", "gandalf(doubt=2)",
    "gandalf(scale=0.1, times=2)", "gandalf(scale=0.2, times=2)", "gandalf(scale=0.5, times=2)",
    "gandalf(doubt=2, scale=0.3, times=2)", "gandalf(doubt=2, scale=0.5)", "gandalf(doubt=5, scale=0.5)",
    "gandalf(scale=0.3, least=3)", "gandalf(threshold=0.5)", "gandalf(threshold=0.5, scale=0.5)", "gandalf(most=3)",
    "gandalf(scale=0.2, times=4)", "gandalf(doubt=2, scale=0.2, times=4)", "gandalf @first half",
    "gandalf(scale=0.3) @first half", "gandalf(times=2) @first half", "gandalf @last half", "gandalf @every second",
)  # fmt: skip
GENTLE = (  # on astec and eclare, in their own epochs
    "rows", "gandalf", "gandalf(scale=0.3, times=2)", "gandalf(scale=0.3)", "gandalf(scale=0.1)", "gandalf(least=3)",
    "gandalf(scale=0.3, least=3)", "gandalf(threshold=0.5, scale=0.5)", "gandalf(share=0.5, which='tail', scale=0.3)",
    "gandalf(times=2) @first half", "gandalf(times=2) + rows @then rows",
    "gandalf(scale=0.5, times=2) + rows @then rows",
)  # fmt: skip
THEN = "then rows"  # label rows of gandalf in the first half of the epochs, those of rows after
WHEN = {  # label rows from one share of the epochs to another, and the chance of each in an epoch
    "first half": (0.0, 0.5, 1.0),
    "last half": (0.5, 1.0, 1.0),
    "every second": (0.0, 1.0, 0.5),
}
