"""Free memory, as the kernel's files tell it."""

from pathlib import Path

import pytest

from zbackup.proc import memory

MIB = 1 << 20


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with 4096 MiB free, of which no more than 100 MiB are promised to nobody."""
    for name in ("MEMINFO", "ARCSTATS", "OVERCOMMIT", "GROUP", "GROUPS"):
        monkeypatch.setattr(memory, name, tmp_path / name)
    free = {"MemAvailable": 4096, "CommitLimit": 900, "Committed_AS": 800}
    (tmp_path / "MEMINFO").write_text("".join(f"{name}: {mib * 1024} kB\n" for name, mib in free.items()))
    return tmp_path


def group(host: Path, name: str, most: str, used: int, files: int) -> None:
    found = host / "GROUPS" / name
    found.mkdir(parents=True, exist_ok=True)
    (found / "memory.max").write_text(f"{most}\n")
    (found / "memory.current").write_text(f"{used}\n")
    (found / "memory.stat").write_text(f"anon 5\ninactive_file {files}\n")


def test_what_is_promised_counts_only_where_no_more_is_promised_than_there_is(host: Path) -> None:
    assert memory.available() == 4096 * MIB, "and nobody says how it promises"
    (host / "OVERCOMMIT").write_text("0\n")
    assert memory.available() == 4096 * MIB
    (host / "OVERCOMMIT").write_text("2\n")
    assert memory.available() == 100 * MIB


def test_a_service_in_a_container_has_what_both_leave_it(host: Path) -> None:
    (host / "GROUP").write_text("1:cpu:/elsewhere\n0::/box/zbackup.service\n")
    assert memory.available() == 4096 * MIB, "no limits are told"
    group(host, "box/zbackup.service", "max", 7 * MIB, 0)
    assert memory.available() == 4096 * MIB
    group(host, "box", str(512 * MIB), 400 * MIB, 88 * MIB)
    assert memory.available() == 200 * MIB
    group(host, "box/zbackup.service", str(64 * MIB), 65 * MIB, 0)
    assert memory.available() == 0, "it has more than it may"
