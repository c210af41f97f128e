"""The table of exit statuses, made from the errors themselves."""

import inspect

from zbackup.cli.tables import aligned
from zbackup.model import errors

# Those that no error class stands for.
_OTHER = {0: "done", 130: "interrupted (Ctrl-C)"}


def meanings() -> dict[int, list[tuple[str, str]]]:
    """Exit status -> the errors that end with it, each with the first sentence of its description."""
    found: dict[int, list[tuple[str, str]]] = {}
    for name, kind in vars(errors).items():
        if inspect.isclass(kind) and issubclass(kind, errors.ZbackupError):
            sentence = " ".join((kind.__doc__ or "").split()).split(". ")[0].rstrip(".")
            found.setdefault(kind.exit_status, []).append((name, sentence))
    return dict(sorted(found.items()))


def table() -> str:
    """Number and meaning, one line each: the most general error of each number speaks for it."""
    rows = {status: kinds[0][1] for status, kinds in meanings().items()} | _OTHER
    return aligned([[f"  {status}", rows[status]] for status in sorted(rows)], right=(0,))
