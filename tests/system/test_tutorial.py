"""The tutorial is followed word by word: its commands run in one shell, and print what it says they print.

Then the how-tos whose commands need no other host, in the same shell and on the same server: they end well.
What is on all other pages is understood by the program (tests/unit/docs/test_pages.py).
"""

import os
import re
import shlex
import subprocess
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.system.forked import program, shared
from tests.unit.docs.pages import Command, blocks, commands
from tests.unit.docs.typed import shell
from zbackup.features.init.plan.placement import _log_apart

PROJECT = Path(__file__).resolve().parents[2]
TUTORIAL = PROJECT / "docs" / "tutorial" / "first-recovery.md"
IMAGE = Path("/var/tmp/practice.img")
MARK = "=== end of step "

BLOCK = re.compile(r"^```bash\n(?P<commands>.*?)^```\n(?:\n```text\n(?P<output>.*?)^```\n)?", re.M | re.S)

# What differs from run to run and from machine to machine. Everything else must be as written.
VARIES = (
    (re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"), "UUID"),
    (re.compile(r"/\S*/mysqld\b(?!\.)"), "mysqld"),
    (re.compile(r"\d+(\.\d+)?( B| KiB| MiB)\b"), "SIZE"),
    (re.compile(r"\d+ min \d+ s\b|\d+(\.\d+)? (ms|s)\b"), "TIME"),
    (re.compile(r"\d+"), "0"),
    (re.compile(r"[ ]+"), " "),
)

CLEAN_UP = """
export ZBACKUP_CONFIG=/practice/zbackup.toml
for clone in before-drop base; do zbackup clone destroy $clone --yes; done
kill $(cat /practice/run/pid) && sleep 5
zpool destroy -f practice
rm -f /var/tmp/practice.img
"""


HOW_TOS = {
    "retention-policy.md": 5,
    "monitoring-and-alerts.md": 2,
    "troubleshooting.md": 2,
    "restore-drills.md": 2,
    "README.md": 2,
    "undo-a-transaction.md": 3,
    "protect-a-host.md": 2,
    "coming-from.md": 2,
    "upgrade.md": 3,
    "change-what-is-protected.md": 4,
}
"""Pages in their order, and how many of their commands are run at least."""

LEFT_OUT = re.compile(
    r"notify --test|acknowledge|offsite|--at |^init|--to 10:02|--skip|--server|NAME$|\bdocs\b|"
    r"--to-label|check shop --drill|\blook$"
)
"""What needs more than there is here: a problem, channels, a destination, minutes, or a MongoDB (`docs`).
And what starts a server that another story starts anyway, and types the line: a MySQL starts at the
price of three MariaDBs."""

INSTEAD = (
    ("clone destroy", "clone destroy --yes"),
    ("status --plugin", "status --plugin || test $? -le 2"),
    ("--before-drop shop.orders --table", "--yes --before-drop shop.orders --table"),
    ("undo 4d8d17e9-c6a7-11f0-9d2c-525400123456:6484", 'undo --yes "$gtid"'),
    ("--to -5m", "--to now"),
    ("tank/mysql@autosnap_2026-05-03_04:00:00_hourly", "practice/mysql@autosnap_1 --name base"),
)
"""Nobody is there to be asked, and the pages' days are over."""

SQL = "mysql -u root -S /practice/run/sql.sock -N -e"
_OWN = {"mysql -u root -p -e": SQL, "'...'": "'a new one'"}
_ALTER = shell("change-what-is-protected.md", 'mysql -u root -p -e "ALTER', _OWN)
ROWS = f'test "$({SQL} "SELECT GROUP_CONCAT(item ORDER BY id) FROM shop.orders")" = apple,pear,plum\n'
LAST = "[line['transaction']['gtid'] for line in map(json.loads, sys.stdin) if 'transaction' in line][-1]"
FIND = f'python3 -c "import json, sys; print({LAST})"'
UPDATED = "zbackup log shop --table shop.orders --kind update --since -1h --json"

BEFORE = {
    "README.md": f'{{account}}{SQL} "DROP TABLE shop.orders"\n',
    "undo-a-transaction.md": f"""{ROWS}{SQL} "UPDATE shop.orders SET item = 'oops'"
gtid=$({UPDATED} | {FIND})
""",
    # A pause outlives the instance, and others of its name come after it.
    "troubleshooting.md": "zbackup resume shop\n",
    "protect-a-host.md": ROWS,
    "coming-from.md": "zfs snapshot -r practice/mysql@autosnap_1\n",
    "change-what-is-protected.md": f"""{_ALTER}
echo -n 'a new one' > /practice/password
""",
}
"""What happened before somebody opens the page, and what the page before has put right."""


@dataclass(frozen=True, slots=True)
class Step:
    """Commands of the tutorial, and what they print if it says so."""

    commands: str
    output: str | None


def steps() -> list[Step]:
    return [Step(found["commands"], found["output"]) for found in BLOCK.finditer(TUTORIAL.read_text())]


def alike(text: str) -> list[str]:
    """The lines without what varies, and without the signs of life of long work."""
    for pattern, instead in VARIES:
        text = pattern.sub(instead, text)
    lines = [line.strip() for line in text.strip().splitlines()]
    return [line for line in lines if not (line.startswith("zbackup: ") and line.endswith(", for TIME"))]


def page_of(command: Command) -> str:
    return Path(command.where).name.partition(":")[0]


def of_how_tos() -> list[Command]:
    """The commands of those pages, in their order, as they are run here."""
    pages = list(HOW_TOS)
    found = [c for c in commands() if c.whole and page_of(c) in HOW_TOS and "contrib" not in c.where]
    found.sort(key=lambda c: pages.index(page_of(c)))
    return [c for c in found if not LEFT_OUT.search(shlex.join(c.words))]


def account() -> str:
    """Make the account that writes to production, and add it to the configuration, as the pages say."""
    pages = [
        PROJECT / "docs/how-to" / f"{name}.md" for name in ("restore-a-dropped-table", "undo-a-transaction")
    ]
    found = [block for page in pages for block in blocks(page)]
    granted = "".join(block.text for block in found if block.kind == "sql").replace("'...'", "'for copies'")
    (table,) = [block.text for block in found if block.kind == "toml" and "copy_back" in block.text]
    table = table.replace("/etc/zbackup/shop-copy.password", "/practice/copies")
    return (
        f"{SQL} {shlex.quote(granted)}\n"
        "install -m 600 /dev/null /practice/copies\necho -n 'for copies' > /practice/copies\n"
        f"printf '\\n%s' {shlex.quote(table)} >> /practice/zbackup.toml\n"
    )


def guided() -> str:
    """The commands of the how-tos as one script, each page after what led to it."""
    script, page = [], ""
    for command in of_how_tos():
        if page_of(command) != page:
            page = page_of(command)
            script.append(BEFORE.get(page, "").replace("{account}", account()))
        script.append(f"{in_shell(command)} || {{ echo {shlex.quote(str(command))}; exit 1; }}\n")
    return "".join(script)


def in_shell(command: Command) -> str:
    """The command's line with what has to be another here."""
    line = f"zbackup {shlex.join(command.words)}"
    for written, instead in INSTEAD:
        line = line.replace(written.replace('"', "'"), instead)
    return line


def removed() -> str:
    """The end of it all: clones are destroyed, and then all backups, as the page says."""
    here = {"tank/mysql": "practice/mysql"}
    lines = (
        shell(
            "change-what-is-protected.md",
            "zfs list -H -o name -t snapshot -r tank/mysql | grep @zbackup-",
            here,
        ),
        shell(
            "change-what-is-protected.md",
            "zfs list -H -o name -t snapshot -r tank/mysql | grep @zbackup- |",
            here,
        ),
    )
    clones = "zbackup clone destroy base --yes\n"
    left = "! zfs list -H -o name -t snapshot -r practice/mysql | grep @zbackup-\n"
    return clones + "".join(f"{line}\n" for line in lines) + left


def test_the_log_is_where_init_advises() -> None:
    """No directory of the server's user leads to its mountpoint: he could put a link there."""
    created = next(
        line for line in TUTORIAL.read_text().splitlines() if line.endswith("practice/mysql/binlog")
    )
    assert created.replace("zfs create", "zfs create -u") in _log_apart("practice/mysql", "/practice/mysql")


@pytest.fixture
def unused_names() -> Iterator[None]:
    """The tutorial's pool and file do not exist before, nor after."""
    pools = subprocess.run(["zpool", "list", "-H", "-o", "name"], capture_output=True, text=True, check=True)
    assert "practice" not in pools.stdout.split()
    assert not IMAGE.exists()
    yield
    if IMAGE.exists():
        subprocess.run(["bash", "-c", CLEAN_UP], check=False)


@pytest.fixture
def quick(tmp_path: Path) -> Path:
    """The directory of a zbackup that is there at once, for the many commands of the how-tos."""
    return program(shared(), tmp_path).parent


def test_every_step_of_the_tutorial_works_and_prints_what_it_says(unused_names: None, quick: Path) -> None:
    """The how-tos come before the end, which removes everything."""
    marked = [f"{step.commands}\necho '{MARK}{number}'\n" for number, step in enumerate(steps())]
    marked.insert(-1, f"own=$PATH\nPATH={quick}:$PATH\n{guided()}{removed()}PATH=$own\nhash -r\n")
    done = subprocess.run(
        ["bash", "-c", "exec 2>&1\nset -eu\n" + "".join(marked)],
        cwd=PROJECT,
        env=os.environ | {"TZ": "Etc/UTC"},
        capture_output=True,
        text=True,
        check=False,
        timeout=560,
    )
    printed = re.split(rf"^{MARK}\d+\n", done.stdout, flags=re.M)
    for step, output in zip(steps(), printed, strict=False):
        if step.output is not None:
            assert alike(output) == alike(step.output), f"after\n{step.commands}\nit printed\n{output}"
    assert done.returncode == 0, f"stopped in\n{steps()[len(printed) - 1].commands}\n{printed[-1]}"


def test_the_commands_of_the_how_tos_are_found() -> None:
    run = Counter(map(page_of, of_how_tos()))
    assert {page: run[page] >= least for page, least in HOW_TOS.items()} == dict.fromkeys(HOW_TOS, True), run


def test_the_outputs_are_found() -> None:
    assert sum(step.output is not None for step in steps()) == 9
