"""Encrypted datasets whose key is not loaded."""

from zbackup.model.space import DatasetSettings
from zbackup.plan.health.keys_not_loaded import not_loaded


def dataset(name: str, status: str, root: str) -> DatasetSettings:
    return DatasetSettings(name=name, values={"keystatus": status, "encryptionroot": root})


def test_a_key_that_is_not_loaded_is_said_once_with_the_command_that_loads_it() -> None:
    settings = (
        dataset("tank/my db", "unavailable", "tank/my db"),
        dataset("tank/my db/log", "unavailable", "tank/my db"),
        dataset("tank/open", "available", "tank/open"),
        dataset("tank/plain", "-", "-"),
    )
    (found,) = not_loaded(settings)
    assert (found.severity, found.exit_status) == ("critical", 3)
    assert found.text.startswith("the key of tank/my db is not loaded") and "tank/my db/log" in found.text
    assert found.fix == "zfs load-key 'tank/my db' && zbackup mount 'tank/my db' 'tank/my db/log'"
