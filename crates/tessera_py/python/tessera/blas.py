"""python -m tessera.blas PROGRAM [ARGUMENTS]: runs a program on Tessera's level 3 of BLAS."""

from __future__ import annotations

import os
import sys

from ._library import blas_library


def environment(before: dict[str, str]) -> dict[str, str]:
    """The environment in which a program gets the library before its own."""
    preloaded = [blas_library(), *before.get("LD_PRELOAD", "").split()]
    return {**before, "LD_PRELOAD": " ".join(preloaded)}


def main(arguments: list[str]) -> int:
    """Runs a program in this process' place; returns only where it cannot."""
    if not arguments or arguments[0] in ("-h", "--help"):
        print(__doc__, file=sys.stdout if arguments else sys.stderr)
        return 0 if arguments else 2
    if " " in blas_library():
        print(f"error: LD_PRELOAD takes no path with a space: {blas_library()}", file=sys.stderr)
        return 2
    try:
        os.execvpe(arguments[0], arguments, environment(dict(os.environ)))
    except OSError as error:
        print(f"error: {arguments[0]}: {error.strerror}", file=sys.stderr)
        return 127


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
