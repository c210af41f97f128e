"""Options that a restore, or a clone, has no use for are refused, and not silently ignored."""

import json
from pathlib import Path

import pytest

from zbackup.cli.main import invoke

CONFIG = """
[instance.docs]
engine = "mongodb"
datasets = ["tank/docs"]
"""


@pytest.fixture
def config(tmp_path: Path) -> str:
    path = tmp_path / "config.toml"
    path.write_text(f'run_dir = "{tmp_path}"\n{CONFIG}')
    return str(path)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--to latest --accept-older", "--accept-older goes with --from DESTINATION --to latest"),
        ("--to 10:02 --from cloud --accept-older", "--accept-older goes with"),
        ("--to-backup b --from cloud --accept-older", "--accept-older goes with"),
        ("--to latest --epoch 0", "--epoch goes with --from DESTINATION"),
        ("--to-backup b --from cloud --epoch 1", "--epoch is about the log"),
        ("--to-label l --accept-clock", "--accept-clock is about the log"),
        ("--base tank/docs@x --accept-clock", "--accept-clock is about the log"),
        *(
            (f"{target} --accept-clock", "--accept-clock goes with --to MOMENT")
            for target in (
                "--to latest",
                "--to LATEST --from cloud",
                "--to now",
                "--before binlog.000012:4711",
                "--before-drop shop.orders --yes",
                "--before-truncate shop.orders --yes",
                "--to-timestamp 1714557720,3",
                "--skip 3e11fa47:31",
                "--skip 3e11fa47:31 --to now",
            )
        ),
        ("--base tank/docs@x --run-at-destination", "--run-at-destination needs a destination"),
        ("--to 10:02 --run-at-destination", "--run-at-destination needs a destination"),
    ],
)
def test_of_a_restore(config: str, words: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert invoke(["restore", "--json", "--config", config, *words.split()]) == 2
    error = json.loads(capsys.readouterr().out)["error"]
    assert error["kind"] == "UsageError" and error["message"].startswith(said)


@pytest.mark.parametrize("to", ["10:02", "yesterday 10:02", "-1h"])
def test_with_a_moment_a_clock_can_be_accepted(
    config: str, to: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert invoke(["restore", "--json", "--config", config, f"--to={to}", "--accept-clock"]) not in (0, 2)
    assert json.loads(capsys.readouterr().out)["error"]["kind"] != "UsageError"


@pytest.mark.parametrize("words", ["--port 4000", "--lease 8h", "--keep-accounts", "--own-root", "--keep"])
def test_of_a_member_of_a_replica_set(config: str, words: str, capsys: pytest.CaptureFixture[str]) -> None:
    told = ["clone", "create", "--json", "--config", config, "--as-replica-of", "production"]
    assert invoke([*told, *words.split()]) == 2
    error = json.loads(capsys.readouterr().out)["error"]
    assert error["message"].startswith(f"{words.split()[0]} has no use here")
