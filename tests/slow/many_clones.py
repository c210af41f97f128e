"""Twenty dev clones side by side, made by two processes at once and destroyed by two at once."""

import json
from pathlib import Path
from typing import Any

from tests.system.clone_story import FIRST, LAST
from tests.system.house import Zbackup

EACH = 10
LIMIT_S = 1200.0


def make(house: Zbackup) -> list[dict[str, Any]]:
    """Two processes make ten each; no name, port or password is given twice."""
    words = ("clone", "create", "--count", str(EACH), "--json")
    small = house.configure("small", clones={"memory": "32MiB"})
    both = [house.begin(*words, config=small) for _ in range(2)]
    made = [clone for each in both for clone in json.loads(each.end(LIMIT_S).out)["data"]["clones"]]
    assert len({c["name"] for c in made}) == 2 * EACH
    assert len({c["port"] for c in made}) == 2 * EACH
    assert all(FIRST <= c["port"] <= LAST for c in made)
    assert len({password(c) for c in made}) == 2 * EACH
    listed = house.zb("clone", "list", "--json").data
    assert {c["name"] for c in listed if c["running"]} == {c["name"] for c in made}
    return made


def password(clone: dict[str, Any]) -> str:
    return Path(clone["password_file"]).read_text().strip()


def destroy(house: Zbackup, made: list[dict[str, Any]]) -> None:
    """Always two processes at once."""
    names = [c["name"] for c in made]
    begun = []
    for name in names:
        begun.append(house.begin("clone", "destroy", name, "--yes", "--json"))
        if len(begun) == 2:
            for each in begun:
                assert each.end(LIMIT_S).rc == 0
            begun = []
    assert house.zb("clone", "list", "--json").data == []
