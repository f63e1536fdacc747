"""Tail methods, one file each. `longtail.catalogue` lists them by name."""
