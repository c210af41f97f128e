"""The sheet in memory that a server's order is written on."""

import errno
import os

import pytest

from zbackup.proc import detached

NOEXEC_SEAL = 0x0008


@pytest.mark.parametrize("knows", [True, False])
def test_the_sheet_cannot_be_run_where_the_kernel_knows_of_that(
    monkeypatch: pytest.MonkeyPatch, knows: bool
) -> None:
    """A kernel with vm.memfd_noexec=2 refuses any other; one before 6.3 refuses the flag."""
    create = os.memfd_create

    def kernel(name: str, flags: int) -> int:
        if knows and not flags & NOEXEC_SEAL:
            raise PermissionError(errno.EACCES, "Permission denied")
        if not knows and flags & NOEXEC_SEAL:
            raise OSError(errno.EINVAL, "Invalid argument")
        return create(name, flags & ~NOEXEC_SEAL)

    monkeypatch.setattr(os, "memfd_create", kernel)
    with detached._sealed("an order") as sheet:
        assert os.read(sheet, 100) == b"an order"
        with pytest.raises(PermissionError):
            os.write(sheet, b"another")


def test_this_kernel_seals_it() -> None:
    with detached._sealed("an order") as sheet, pytest.raises(PermissionError):
        os.write(sheet, b"another")
