"""Commands that nobody wrote: what passes the gate of them is harmless."""

import shlex

from hypothesis import given
from hypothesis import strategies as st

from tests.unit.plan.test_gate import ALL, APPEND, APPENDING, DESTROYING, READ, READING, ROOT, SAFE, allowed
from zbackup.model.record import PREFIX
from zbackup.plan.ship.gate import Power

WORDS = sorted({word for line in APPENDING + READING + DESTROYING for word in shlex.split(line)})
NASTY = [
    *("-F", "-r", "-R", "-f", "-d", "-e", "-p", "-n", "--", "-", "", "-o", "-x", "-i", "-Hpr", "-rHpF"),
    *(
        "tank",
        "tank/backups2/a",
        "tank/backups/../x",
        "tank/backups/a@b",
        "tank/backups@a",
        "tank/backups/a#b",
    ),
    *(
        "mountpoint=/",
        "exec=on",
        "readonly=off",
        "zbackup:condemned=1",
        "all",
        "rollback",
        "rename",
        "\n",
        "é",
    ),
]


commands = st.sampled_from(APPENDING + READING + DESTROYING)
changes, widths = st.integers(1, 3), st.integers(0, 1)
words_put_in = st.sampled_from(WORDS + NASTY) | st.text(max_size=12)
all_powers = st.sampled_from([APPEND, READ, ALL])


@given(st.data())
def test_whatever_is_changed_in_a_command_it_stays_harmless_or_is_refused(data: st.DataObject) -> None:
    words = shlex.split(data.draw(commands))
    for _ in range(data.draw(changes)):
        where = data.draw(st.integers(0, len(words)))
        word = data.draw(words_put_in)
        width = data.draw(widths)
        words[where : where + width] = [word]
    powers = data.draw(all_powers)
    order = allowed(shlex.join(words), powers)
    if order is not None:
        assert list(order.argv) == words
        require_harmless(words, powers)


def require_harmless(words: list[str], powers: frozenset[Power]) -> None:
    """Said once more in other words than the gate's own."""
    if words[0] == "zbackup-log":
        require_harmless_archiving(words, powers)
        return
    assert words[0] == "zfs"
    verb, rest = words[1], words[2:]
    names = [w for w in rest if w.startswith("tank") and "=" not in w]
    assert all(n == ROOT or n.startswith((f"{ROOT}/", f"{ROOT}@", f"{ROOT}#")) for n in names)
    assert not any(".." in n or "%" in n or "," in n or "//" in n or not n.isascii() for n in names)
    assert not {"-F", "-R", "-f", "-d" if verb == "receive" else "-F"} & set(rest)
    settings = {w for w in rest if "=" in w}
    match verb:
        case "list" | "get":
            assert names
        case "send":
            assert "read" in powers and "-p" not in rest and "-I" not in rest
        case "destroy":
            assert "destroy" in powers and len(rest) == 1 and "@" in rest[0]
        case "set":
            assert "receive" in powers
            assert all(s.startswith(PREFIX) for s in settings) and all("@" in n for n in names)
        case "create":
            assert settings == {"canmount=off", "mountpoint=none", "readonly=on"} and len(names) == 1
        case "receive":
            assert "receive" in powers and len(names) == 1 and names[0] != ROOT and "@" not in names[0]
            if "-A" not in rest:
                safe = {w for w in shlex.split(SAFE) if "=" in w}
                assert settings == safe and "mountpoint" in rest and {"-s", "-u"} <= set(rest)
        case _:
            raise AssertionError(f"{verb} passed")


def require_harmless_archiving(words: list[str], powers: frozenset[Power]) -> None:
    _, verb, home, *rest = words
    assert home.startswith(f"{ROOT}/") and not set(home) & set("@#%,") and ".." not in home
    needed = {"append": "receive", "read": "read", "remove": "destroy"}
    assert verb == "list" or needed[verb] in powers
    for word in rest:
        assert "/" not in word and word not in ("", ".", "..") and not word.startswith((".", "-"))
        assert word.isascii() and len(word) < 250
    if verb == "append":
        begin, end = (int(text) for text in rest[2].partition(".")[0].split("-"))
        assert 0 <= begin <= end <= begin + (16 << 20)
