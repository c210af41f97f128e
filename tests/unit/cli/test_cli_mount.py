"""zbackup mount: what others do meanwhile."""

import pytest

from zbackup.cli import mount
from zbackup.model.errors import Refused
from zbackup.zfs.datasets import Zfs


def test_what_is_unmounted_at_once_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whose directory it is mounted on can remove that, from a mount namespace of his own (rmdir(2))."""
    monkeypatch.setattr(Zfs, "mount", lambda *_: None)
    monkeypatch.setattr(Zfs, "mounted_below", lambda *_: {})
    with pytest.raises(Refused, match="tank/a was mounted, and others unmounted it at once"):
        mount._mount("tank/a", None)
