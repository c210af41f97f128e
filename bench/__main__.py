"""Measure everything and write the tables into docs/reference/benchmarks.md: `make bench`.

`python -m bench SECTION...` measures those alone. What follows a section's name and begins with a dash is for
that section: `python -m bench disaster --server mysql-9.7 --gib 3`.
"""

import argparse
import shlex
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from bench import (
    archive,
    copying,
    disaster,
    fleet,
    log,
    mongodb_replay,
    replay,
    retention,
    s3,
    shippers,
    web,
)
from bench.guest import end_in_order, in_a_guest
from bench.report import circumstances, write

IN_THE_LAB: Mapping[str, Mapping[str, int]] = {
    "standstill": {"rounds": 10},
    "restoring": {"rounds": 3, "transactions": 12_000},
    "cloning": {"rounds": 5, "doublings": 18},
    "idle daemon": {"instances": 100},
    "shipping": {"rounds": 3, "mib": 1024},
}
"""What is run in a guest, its options and what they are if nothing is said. Its module is called as it is."""

Section = Callable[[Sequence[str]], int]


def sections() -> Mapping[str, Section]:
    """All there are, in the order in which they are measured. Each is given its own options."""
    return {
        "replay": replay.main,
        "mongodb-replay": mongodb_replay.main,
        "log": log.main,
        "retention": without_options(retention.main),
        "web": without_options(web.main),
        "fleet": without_options(fleet.main),
        "s3": s3.main,
        "copy": copying.main,
        "archive": archive.main,
        **{section: partial(in_the_lab, section) for section in IN_THE_LAB},
        "disaster": disaster.main,
    }


def without_options(measure: Callable[[], int]) -> Section:
    """A section that has none."""

    def section(options: Sequence[str]) -> int:
        if options:
            sys.exit(f"this section takes no options: {' '.join(options)}")
        return measure()

    return section


def split(words: Sequence[str]) -> dict[str, list[str]]:
    """Sections and their options. Ends with a message where there is no such section, or none for options."""
    at = next((n for n, word in enumerate(words) if word.startswith("-")), len(words))
    names, options = list(words[:at]), list(words[at:])
    if unknown := set(names) - sections().keys():
        sys.exit(f"there is no {', '.join(sorted(unknown))}, but {', '.join(sections())}")
    if options and len(names) != 1:
        sys.exit(f"say for which one section this is: {' '.join(options)}")
    return dict.fromkeys(names or sections(), options)


def main(words: Sequence[str]) -> int:
    """Run the measurements that need ZFS in the lab, one after the other, and the others on this machine."""
    end_in_order()
    return max([sections()[name](options) for name, options in split(words).items()])


def lab_parser(section: str) -> argparse.ArgumentParser:
    """The options of what runs in a guest."""
    options = argparse.ArgumentParser(prog=f"python -m bench {shlex.quote(section)}")
    for name, usual in IN_THE_LAB[section].items():
        options.add_argument(f"--{name}", type=int, default=usual, help=f"default: {usual}")
    return options


def in_the_lab(section: str, options: Sequence[str]) -> int:
    """Run its module in a guest, and take over the table it leaves; returns its exit status."""
    numbers = [str(number) for number in vars(lab_parser(section).parse_args(options)).values()]
    # The other tools are fetched outside of the guest: it has no network.
    more = [str(shippers.fetch())] if section == "shipping" else []
    disks = ["8G", "8G"] if section == "shipping" else ["8G"]
    with tempfile.TemporaryDirectory(prefix="zbench-") as directory:
        out = Path(directory) / "table.md"
        module = f"bench.{section.replace(' ', '_')}"
        status = in_a_guest(module, [str(out), *numbers, *more], directory, disks, "30m")
        if out.exists():
            write(section, f"{circumstances('make bench')}; {out.read_text()}")
        return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
