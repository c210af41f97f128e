"""The product's sources, read and parsed once for all tests of them."""

import ast
import gc
from functools import cache
from pathlib import Path

HOUSE = Path(__file__).parents[2]


@cache
def sources() -> dict[str, ast.Module]:
    """Return all modules of the product, by their paths. Nobody changes them.

    They are half a million objects: the garbage collector neither runs meanwhile nor looks at them later.
    """
    files = sorted((HOUSE / "zbackup").rglob("*.py"))
    gc.disable()
    found = {str(file.relative_to(HOUSE)): ast.parse(file.read_text()) for file in files}
    gc.freeze()
    gc.enable()
    return found
