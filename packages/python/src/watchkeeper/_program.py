"""Finds the program."""

import os
import shutil
import sysconfig
from pathlib import Path

#: The variable with the path of another program than the one in this package.
VARIABLE = "WATCHKEEPER_PROGRAM"


def find() -> str:
    """The program: $WATCHKEEPER_PROGRAM, the one in this package, or the one on the PATH, in this order."""
    named = os.environ.get(VARIABLE)
    if named:
        return named
    name = "watchkeeper.exe" if os.name == "nt" else "watchkeeper"
    carried = Path(sysconfig.get_path("scripts")) / name
    found = str(carried) if carried.exists() else shutil.which(name)
    if found is None:
        raise FileNotFoundError(f"{name} was not found: install this package's wheel, or set {VARIABLE}")
    return found
