"""The table of exit statuses, made from the errors themselves."""

import inspect

from zbackup.cli.tables import aligned
from zbackup.model import errors

# Those that no error class stands for.
_OTHER = {0: "Done", 130: "Interrupted (Ctrl-C, SIGTERM or SIGHUP)"}


def meanings() -> dict[int, list[tuple[str, str]]]:
    """Exit status -> the errors that end with it, each with the first sentence of its description."""
    found: dict[int, list[tuple[str, str]]] = {}
    for name, kind in vars(errors).items():
        if inspect.isclass(kind) and issubclass(kind, errors.ZbackupError):
            sentence = " ".join((kind.__doc__ or "").split()).split(". ")[0].rstrip(".")
            found.setdefault(kind.exit_status, []).append((name, sentence))
    return dict(sorted(found.items()))


def table() -> str:
    """Number and meaning: a line for each kind of error, special cases of another left out."""
    rows = []
    for status, kinds in meanings().items():
        general = [text for name, text in kinds if _general(name)]
        rows += [(status, text) for text in general or [text for _, text in kinds]]
    rows += list(_OTHER.items())
    return aligned(
        [[f"  {status}", text] for status, text in sorted(rows, key=lambda row: row[0])], right=(0,)
    )


def _general(name: str) -> bool:
    kind = getattr(errors, name)
    return kind.__base__ in (errors.ZbackupError, Exception)
