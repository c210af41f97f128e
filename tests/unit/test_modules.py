"""No module is longer than one can keep in mind."""

from pathlib import Path

HOUSE = Path(__file__).parents[2]
MOST = 400


def test_every_module_has_at_most_400_lines() -> None:
    modules = [file for part in ("zbackup", "tests", "bench") for file in (HOUSE / part).rglob("*.py")]
    assert len(modules) > 300
    lengths = {str(file.relative_to(HOUSE)): len(file.read_text().splitlines()) for file in modules}
    assert {name: lines for name, lines in lengths.items() if lines > MOST} == {}
