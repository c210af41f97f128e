"""The command line of the guest's kernel."""

from pathlib import Path

import pytest

from tests.lab.kernel_line import LONGEST, Lines, disk_devices, kernel_arguments
from tests.lab.request import BadRequest

LINES = Lines(console=3, out=4, err=5, control_in=6, control_out=7)


def build(*disks: str, init: str = "/usr/bin/python3", lines: Lines = LINES) -> list[str]:
    return kernel_arguments(
        memory=4 << 30,
        run=Path("/r"),
        disks=[Path(disk) for disk in disks],
        lines=lines,
        init=[init, "-I", "/r/init.py", "/r/spec"],
    )


def test_every_line_has_its_descriptor() -> None:
    words = build("/r/disk0", "/r/disk1")
    for word in (
        "mem=4096M",
        "con0=null,fd:3",
        "ssl0=null,fd:4",
        "ssl1=null,fd:5",
        "ssl2=fd:6,fd:7",
        "ssl3=null",
        "ubd0=/r/disk0",
        "ubd1=/r/disk1",
        "init=/usr/bin/python3",
    ):
        assert word in words
    assert words[-4:] == ["--", "-I", "/r/init.py", "/r/spec"]


def test_the_hosts_files_are_never_mounted_to_be_written() -> None:
    assert "ro" in build()
    assert "rw" not in build()


def test_a_shell_gets_a_terminal() -> None:
    lines = Lines(console=3, out=4, err=5, control_in=6, control_out=7, terminal=(8, 9))
    assert "ssl3=fd:8,fd:9" in build(lines=lines)


@pytest.mark.parametrize("path", ["/r/a,b", "/r/a:b", "/r/a b", "/r/" + "x" * LONGEST])
def test_paths_that_a_kernel_would_misread_are_refused(path: str) -> None:
    with pytest.raises(BadRequest):
        build(path)


def test_an_interpreter_with_a_blank_in_its_path_is_refused() -> None:
    with pytest.raises(BadRequest, match="blank"):
        build(init="/opt/my python/bin/python3")


def test_devices_follow_the_order_of_disks() -> None:
    assert disk_devices(3) == ["/dev/ubda", "/dev/ubdb", "/dev/ubdc"]
