"""Where the program is."""

import os
import shutil
import sysconfig
from pathlib import Path

#: Names another program than the one that came with this package.
VARIABLE = "WATCHKEEPER_PROGRAM"


def find() -> str:
    """The program that is named by $WATCHKEEPER_PROGRAM, came with this package, or is on the PATH, in this order."""
    named = os.environ.get(VARIABLE)
    if named:
        return named
    name = "watchkeeper.exe" if os.name == "nt" else "watchkeeper"
    carried = Path(sysconfig.get_path("scripts")) / name
    found = str(carried) if carried.exists() else shutil.which(name)
    if found is None:
        raise FileNotFoundError(f"there is no {name}: install this package's wheel, or set {VARIABLE}")
    return found
