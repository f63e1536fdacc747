"""What several benchmarks share: the command line, tables, data splits, timing, worker processes, figures.

Every file directly in `benchmarks/` and `benchmarks/gpu/` is a script; what they import from each other is here.
No module here imports torch or numba when it is loaded, so `--help` answers at once; `command`, `tables` and `timing`
need only the standard library, so they also run in the virtual environments of other tools.
"""
