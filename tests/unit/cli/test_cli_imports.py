"""A command reads what it needs: of what most do without, nothing finds its way in again."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from zbackup.cli import main
from zbackup.registry import COMMANDS, SUMMARIES

CONFIGURATION = """
[instance.shop]
engine = "mariadb"
datasets = ["tank/mysql"]
socket = "/run/mysqld/mysqld.sock"
"""
LOOK = """
import sys
from pathlib import Path
from zbackup import app
from zbackup.cli import logs, main
from zbackup.config.load import load
from zbackup.model.progress import Silent

logs.set_up()
main.typer.main.get_command(main.build(sys.argv[1]))
settings = load(Path(sys.argv[2]))
app.context(settings, app.choose_one(settings, None), Silent())
print([name for name in sys.argv[3:] if name in sys.modules])
"""
LIBRARIES = (
    "structlog",
    "rich",
    "asyncio",
    "pymongo",
    "boto3",
    "prometheus_client",
    "starlette",
    "apscheduler",
)
OTHERS = (
    "zbackup.engines.mongodb.engine",
    "zbackup.features.copyback.mysql.session",
    "zbackup.features.undo.mysql.session",
    "zbackup.destinations.s3",
    "zbackup.destinations.zfs_destination",
    "zbackup.jobs.cluster.restore",
    "zbackup.features.copyback.copy",
    "zbackup.jobs.restore.fetch",
    "zbackup.jobs.ship.gate",
    "zbackup.daemon",
    "zbackup.web",
)


@pytest.mark.parametrize("command", ["list", "restore"])
def test_of_a_mariadb_alone_no_other_engine_and_nothing_for_terminals_is_read(
    command: str, tmp_path: Path
) -> None:
    configuration = tmp_path / "config.toml"
    configuration.write_text(CONFIGURATION)
    argv = [sys.executable, "-c", LOOK, command, str(configuration), *LIBRARIES, *OTHERS]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "[]\n"), done.stderr


def test_the_version_waits_for_no_command() -> None:
    ask = "from zbackup.cli import main; main.invoke(['--version'])"
    look = f"import sys; {ask}; print('zbackup.app' in sys.modules, 'pydantic' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[1:] == ["False False"]


@pytest.mark.parametrize(
    "module", ["zbackup.app", "zbackup.model.clone", "zbackup.web.server", "zbackup.destinations.s3"]
)
def test_what_calls_itself_a_plugin_of_pydantics_is_not_imported(module: str, tmp_path: Path) -> None:
    (tmp_path / "other.py").write_text("print('imported')\nplugin = None\n")
    known = tmp_path / "other-1.dist-info"
    known.mkdir()
    (known / "METADATA").write_text("Metadata-Version: 2.1\nName: other\nVersion: 1\n")
    (known / "entry_points.txt").write_text("[pydantic]\nother = other:plugin\n")
    own = {name: value for name, value in os.environ.items() if name != "PYDANTIC_DISABLE_PLUGINS"}
    paths = os.pathsep.join([str(tmp_path), *filter(None, [own.get("PYTHONPATH")])])
    done = subprocess.run(
        [sys.executable, "-c", f"import {module}; from pydantic import TypeAdapter as T; T(int)"],
        env=own | {"PYTHONPATH": paths},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, ""), done.stderr


def test_the_summaries_are_the_first_sentences_of_the_help() -> None:
    commands = typer.main.get_command(main.build()).commands  # type: ignore[attr-defined]
    assert {name: command.get_short_help_str(400) for name, command in commands.items()} == SUMMARIES
    assert list(SUMMARIES) == list(COMMANDS)


def test_the_list_of_commands_imports_none_of_them() -> None:
    look = "import sys; from zbackup.cli import main; main.build('--help'); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=True)
    assert done.stdout.count("zbackup.") < 40


def test_a_gate_begins_with_neither_programs_nor_archives() -> None:
    """Every command of another host waits for what is imported here."""
    look = (
        "import sys; from zbackup.cli import at_the_gate; import zbackup.jobs.ship.gate; print(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=True)
    assert not {"zbackup.proc.run", "zbackup.proc.log_store", "zbackup.zfs.parse"} & {*done.stdout.split()}
