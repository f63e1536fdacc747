"""The search for settings: `longtail tune`, and `longtail.tune` from Python.

Start reading at `search.py`: `tune` asks Optuna for settings, trains, judges and stops in time.

    search_space.py   ranges and choices in a recipe: `parabel(cost=0.5..4 log, trees=1|3)`
    objective.py      what is maximised: a weighted sum of measures such as `P@1 + PSP@5`
    judge.py          trains a recipe and judges it on valid or by folds of train, never on test
    trial_jobs.py     trials as jobs: on processes, by a scheduler, on a Ray cluster
    workers.py        several recipes at a time, each in a process of its own
    study.py          Optuna: its sampler, its pruner, its storage in a file
    found.py          what came out: the trials, the best recipe, the Pareto front, as JSON
    tuning_page.py    the HTML page: history, importance, every setting against the objective

May import everything but serve, export and cli. Optuna is the extra `tune`.
"""
