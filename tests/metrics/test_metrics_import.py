"""What importing the measures loads."""

from __future__ import annotations

import subprocess
import sys


def test_importing_the_measures_loads_no_compiler() -> None:
    code = "import longtail.metrics, sys; print({'numba', 'torch', 'pandas', 'pyarrow'} & set(sys.modules))"
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert printed.stdout.strip() == "set()"
