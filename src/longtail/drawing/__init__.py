"""Words and pictures for people: what reports, cards, training histories and benchmarks draw with.

- `words.py`: numbers, sizes, times and texts as a person reads them
- `markup.py`: HTML and SVG elements, escaped by construction; start reading here
- `axes.py`: scales, ticks, and labels that do not overlap

Imports nothing else of the package.
"""
