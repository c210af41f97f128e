"""Small scripts in bin/ that run an unpacked program with the libraries that were unpacked beside it.

A program of another Debian suite needs that suite's C library, and with it that suite's loader. The
scripts `exec`, so that the process they were started as is the server itself.
"""

import shlex
from collections.abc import Sequence
from pathlib import Path


class NoLoader(Exception):
    """A dynamically linked program was unpacked without the C library that starts it."""


def wrapper(program: Path, root: Path, options: Sequence[str], name: Path) -> str:
    """The text of the script `name` that runs `program`, which lies below `root`.

    Raises NoLoader.
    """
    with program.open("rb") as source:
        kind = source.read(2048)
    if kind.startswith(b"#!"):
        command = ["/bin/sh", str(program)]
    elif b"/ld-linux" not in kind:
        command = [str(program)]
    else:
        # sshd starts itself again by its argv[0], which must then be the script and not the bare program.
        argv0 = name if program.name == "sshd" else program
        paths = ":".join(str(path) for path in library_directories(root))
        by = loader(root)
        # Loaders before glibc 2.33 cannot set argv[0].
        named = ["--argv0", str(argv0)] if b"--argv0" in by.read_bytes() else []
        command = [str(by), "--library-path", paths, *named, str(program)]
    return script(command, options)


def script(command: Sequence[str], options: Sequence[str]) -> str:
    """A shell script that becomes `command`, with `options` before the user's own so that those win.

    The exception: an option such as --no-defaults counts only if it is the very first.
    """
    if not options:
        return f'#!/bin/sh\nexec {shlex.join(command)} "$@"\n'
    return (
        "#!/bin/sh\n"
        "first=\n"
        'case "${1-}" in --no-defaults | --defaults-* | --print-defaults) first=$1 && shift ;; esac\n'
        f'exec {shlex.join(command)} ${{first:+"$first"}} {shlex.join(options)} "$@"\n'
    )


def loader(root: Path) -> Path:
    """The dynamic loader of the C library below `root`; raises NoLoader."""
    for pattern in ("lib64/ld-linux-*.so.*", "usr/lib64/ld-linux-*.so.*", "usr/lib/*/ld-linux-*.so.*"):
        for found in sorted(root.glob(pattern)):
            return _inside(root, found)
    raise NoLoader(f"no C library below {root}")


def _inside(root: Path, found: Path) -> Path:
    """Older packages link the loader by an absolute path, which means one below the root here."""
    if found.is_symlink() and (target := found.readlink()).is_absolute():
        return root / target.relative_to("/")
    return found.parent.resolve() / found.name


def library_directories(root: Path) -> list[Path]:
    """Where libraries lie below `root`: Debian's, from before and after the merge of /lib into /usr/lib.

    Else where other systems have them, and where MySQL's packages for those put what they bring themselves.
    """
    debian = ("lib/*-linux-gnu*", "usr/lib/*-linux-gnu*")
    others = ("lib64", "usr/lib64", "usr/lib64/mysql/private")
    return _there(root, debian) or _there(root, others)


def _there(root: Path, patterns: Sequence[str]) -> list[Path]:
    return [path for pattern in patterns for path in root.glob(pattern)]
