"""Draws docs/images/house.svg from the layers in pyproject.toml and the imports: python docs/images/house.py

A unit test compares the rooms and their floors with those that there are; the numbers may be older.
"""

import re
import textwrap
import tomllib
from collections import Counter
from pathlib import Path
from xml.sax.saxutils import escape

import grimp

PROJECT = Path(__file__).resolve().parents[2]
PICTURE = Path(__file__).with_name("house.svg")
DUTIES = {
    "features": "annexes: the core imports none of them",
    "cli": "commands, tables, JSON, exit statuses",
    "daemon": "when jobs run, and who is notified",
    "web": "the web page: runs and changes nothing",
    "app": "joins settings, adapters and jobs",
    "jobs": "use cases: inspect, plan, act, report",
    "catalog": "backups and clones, as ZFS lists them",
    "destinations": "ZFS here or over ssh, and S3",
    "engines": "database servers and their logs",
    "zfs": "the only caller of zfs and libzfs_core",
    "proc": "programs, pipes, mounts, files, locks",
    "plan": "decisions as pure functions",
    "config": "TOML to typed settings",
    "clock": "the only place that asks the time",
    "model": "nouns without I/O, and all errors",
    "registry": "names of commands and annexes",
}
ROW, CELL, LEFT, TOP = 52, 36, 468, 70
CAPTION = (
    "Read a column downwards: what a room imports. Read a row: who imports it. "
    "The numbers count imports from module to module.",
    "Two rooms on one floor do not import each other.",
)
STYLE = """
text { font-family: system-ui, "DejaVu Sans", sans-serif; font-size: 13px; fill: #24292f }
.title { font-size: 17px; font-weight: 600 } .name { font-size: 15px; font-weight: 600 }
.small { font-size: 11.5px; fill: #424a53 } .count { font-size: 12px; text-anchor: middle }
"""


def floors() -> list[list[str]]:
    """The rooms of each floor, the highest floor first, as the contract of the layers names them."""
    contracts = tomllib.loads((PROJECT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (layers,) = [c["layers"] for c in contracts if c.get("layers", [""])[0].startswith("zbackup.")]
    return [re.findall(r"zbackup\.(\w+)", layer) for layer in layers]


def inner_rooms(room: str) -> list[str]:
    """The packages within a room."""
    return sorted(path.parent.name for path in (PROJECT / "zbackup" / room).glob("*/__init__.py"))


def imports() -> Counter[tuple[str, str]]:
    """How many imports of modules lead from one room to another."""
    graph, found = grimp.build_graph("zbackup", cache_dir=None), Counter[tuple[str, str]]()
    for module in graph.modules:
        for imported in graph.find_modules_directly_imported_by(module):
            pair = _room(module), _room(imported)
            found[pair] += all(pair) and pair[0] != pair[1]
    return +found


def _room(module: str) -> str:
    return "".join(module.split(".")[1:2])


def modules(room: str) -> int:
    """How many modules a room has."""
    below = [path for path in (PROJECT / "zbackup" / room).rglob("*.py") if path.name != "__init__.py"]
    return len(below) or 1


def draw() -> str:
    """Floors on the left; on the right a column for each room, whose imports all stand below its name."""
    house, found = floors(), imports()
    rooms = [room for floor in house for room in floor]
    width, bottom = LEFT + len(rooms) * CELL + 90, TOP + len(rooms) * ROW
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {bottom + 60}" role="img" '
        'aria-label="The rooms of zbackup from the top floor down, and which room imports which">',
        f"<style>{STYLE}</style>",
        f'<rect width="{width}" height="{bottom + 60}" rx="8" fill="#ffffff"/>',
        '<text class="title" x="20" y="32">Imports run downwards only</text>',
        f'<text class="small" x="{LEFT - 22}" y="{TOP - 8}" text-anchor="end">modules</text>',
        f'<text class="small" x="{LEFT}" y="{TOP - 8}">imported by the room at the top of the column</text>',
    ]
    row = 0
    for number, floor in enumerate(house):
        shade, size = ("#f6f8fa", "#ffffff")[number % 2], f'width="{width - 24}" height="{len(floor) * ROW}"'
        parts.append(f'<rect x="12" y="{TOP + row * ROW}" {size} fill="{shade}"/>')
        for room in floor:
            parts += _row(room, row, number, rooms, found)
            row += 1
    for number, line in enumerate(CAPTION):
        parts.append(f'<text class="small" x="20" y="{bottom + 24 + 18 * number}">{line}</text>')
    return "\n".join([*parts, "</svg>", ""])


def _row(room: str, row: int, floor: int, rooms: list[str], found: Counter[tuple[str, str]]) -> list[str]:
    y, within = TOP + row * ROW, inner_rooms(room)
    lines = textwrap.wrap(" · ".join(within), 62)
    first = y + (30, 24, 20)[len(lines)]
    box = f'x="20" y="{y + 4}" width="{LEFT - 32}" height="{ROW - 8}"'
    parts = [
        f'<g data-room="{room}" data-floor="{floor}" data-within="{" ".join(within)}">',
        f'<rect {box} rx="5" fill="#ffffff" stroke="#8c959f"/>',
        f'<text class="name" x="30" y="{first}">{room}</text>',
        f'<text x="142" y="{first}">{escape(DUTIES[room])}</text>',
        f'<text class="small" x="{LEFT - 22}" y="{first}" text-anchor="end">{modules(room)}</text>',
    ]
    for number, line in enumerate(lines):
        parts.append(f'<text class="small" x="30" y="{first + 14 + 12 * number}">{line}</text>')
    for column, importer in enumerate(rooms):
        x = LEFT + column * CELL
        cell = f'x="{x}" y="{y + 10}" width="{CELL - 4}" height="{ROW - 20}"'
        if column == row:
            parts.append(f'<rect {cell} fill="#57606a"/>')
            parts.append(f'<text class="name" x="{x + CELL + 2}" y="{y + 30}">{room}</text>')
        elif count := found[importer, room]:
            fill = f'fill="#0969da" fill-opacity="{min(0.6, 0.08 + count / 500):.2f}"'
            parts.append(f'<rect data-from="{importer}" data-to="{room}" {cell} {fill}/>')
            parts.append(f'<text class="count" x="{x + CELL / 2 - 2:.0f}" y="{y + 30}">{count}</text>')
    return [*parts, "</g>"]


if __name__ == "__main__":
    PICTURE.write_text(draw())
