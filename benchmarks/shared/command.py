"""The command line of a benchmark: its description is the docstring of the script."""

from __future__ import annotations

import argparse


def parser_for(docstring: str | None) -> argparse.ArgumentParser:
    """A parser whose `--help` begins with the docstring, line breaks and indented commands kept."""
    return argparse.ArgumentParser(description=docstring, formatter_class=argparse.RawDescriptionHelpFormatter)
