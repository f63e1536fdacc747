"""Encoders that learn: texts to tokens to vectors, and what trains them.

Importing this package loads no torch; its modules do. Whoever enters calls `longtail.nn.extra.require` first, so
that a machine without the extra gets the line that installs it.
"""
