"""The command line from its entry: help, options anywhere, one line for every failure, exit statuses."""

import json
import re
import runpy
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from zbackup.cli import main
from zbackup.cli.command_groups import GROUPS
from zbackup.cli.main import _named, invoke
from zbackup.config.load import VARIABLE
from zbackup.model.moment import parse_moment
from zbackup.model.target import LATEST, parse_target

ROOT = Path(__file__).parents[3]
EXAMPLE = str(ROOT / "config.example.toml")
COMMANDS = [
    "check",
    "snapshot",
    "list",
    "restore",
    "clone list",
    "clone stop",
    "clone start",
    "clone destroy",
]


@pytest.fixture(autouse=True)
def no_configuration(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "/nonexistent/zbackup.toml")


def test_every_command_that_asks_can_be_told_so_in_two_letters() -> None:
    listed = (ROOT / "docs/reference/commands.md").read_text().splitlines()
    options = [line for line in listed if re.match(r"  (-\w, )?--yes  ", line)]
    assert len(options) >= 6 and {line[:11] for line in options} == {"  -y, --yes"}


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_an_example_and_json(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert invoke([*command.split(), "--help"]) == 0
    said = capsys.readouterr().out
    assert f"\n  zbackup {command}" in said
    assert "--json" in said


@pytest.mark.parametrize("command", ["restore", "log", "clone create"])
def test_moments_in_examples_are_moments(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert invoke([*command.split(), "--help"]) == 0
    examples = [line for line in capsys.readouterr().out.splitlines() if line.startswith("  zbackup ")]
    found = re.findall(r'--(?:to|since|until|at) (?:"([^"]+)"|([-.,\w:]+))', "\n".join(examples))
    moments = {quoted or plain for quoted, plain in found} - {"offsite"}
    assert moments
    for target in map(parse_target, moments):
        if isinstance(target, str) and target != LATEST:
            parse_moment(target, ZoneInfo("Europe/Berlin"), datetime.now(UTC))


def test_main_help_has_the_exit_statuses(capsys: pytest.CaptureFixture[str]) -> None:
    assert invoke(["--help"]) == 0
    said = capsys.readouterr().out
    assert "Exit status:" in said
    assert "  130  Interrupted" in said
    assert max(map(len, said.splitlines())) <= 100


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert invoke(["--version"]) == 0
    assert capsys.readouterr().out.startswith("zbackup 0.")


@pytest.mark.parametrize(
    ("words", "exit_status", "says"),
    [
        ("", 2, "Missing command; see zbackup --help"),
        ("lst", 2, "Did you mean 'list'?; see zbackup --help"),
        ("clone", 2, "Missing command; see zbackup clone --help"),
        ("restore", 2, "say once where to restore to, with --to TARGET: a moment ("),
        ("restore --to now --to-timestamp 1,1", 2, "with --to TARGET: a moment ("),
        ("restore --before 0-1-7 --to-timestamp 1,1", 2, "with --to TARGET: a moment ("),
        ("restore --before DROP", 2, '"DROP" names no transaction: write a GTID ('),
        ("restore --to-timestamp 17145", 2, '"17145" is not SECONDS,INCREMENT, such as 1714557720,1'),
        ("restore --to now --as-replica-set ../x", 2, "is no good name of a replica set"),
        ("restore --to now --port 99999", 2, "see zbackup restore --help"),
        ("list", 2, "/nonexistent/zbackup.toml: no such configuration file"),
        (f"list shp --config {EXAMPLE}", 4, 'no instance "shp" in the configuration; did you mean "shop"?'),
        (f"--config {EXAMPLE} snapshot none", 4, 'no instance "none"'),
        (f"--config {EXAMPLE} snapshot none", 4, "in the configuration; there is shop, wiki"),
        (f"restore --to now --config {EXAMPLE}", 2, "which instance? There is shop, wiki"),
        (f"restore shop --to tomorrow --config {EXAMPLE}", 2, '"tomorrow" is not a moment'),
        (f"clone create shop --name ../x --config {EXAMPLE}", 2, "'../x' cannot be a clone's name"),
        (f"clone create shop --name a --count 2 --port 40000 -q --config {EXAMPLE}", 2, "exclude each other"),
        (f"clone create shop --port 0 --config {EXAMPLE}", 2, '"0" is no port'),
        (f"clone create shop --at now --snapshot x --config {EXAMPLE}", 2, "say what to clone"),
        (f"clone create shop --as-replica-of production --config {EXAMPLE}", 2, "clones.replica: missing"),
        (f"clone create shop --as-replica-of wiki --config {EXAMPLE}", 2, '"wiki" cannot be followed'),
        (f"log shop --rows 0-1-5 --kind drop --config {EXAMPLE}", 2, "--rows shows one transaction"),
        (f"clone extend x --lease soon --config {EXAMPLE}", 2, '"soon" is no length of time'),
        (f"clone protect x --until 2024-01-01 --config {EXAMPLE}", 2, "has no time of day"),
        (f"clone destroy x --config {EXAMPLE}", 2, "destroying a clone has to be confirmed: add --yes"),
    ],
)  # fmt: skip
def test_what_goes_wrong_is_one_line(
    words: str, exit_status: int, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert invoke(words.split()) == exit_status
    said = capsys.readouterr()
    assert said.out == ""
    assert len(said.err.splitlines()) == 1
    assert said.err.startswith("zbackup: ")
    assert says in said.err
    assert invoke(["--json", *words.split()]) == exit_status
    error = json.loads(capsys.readouterr().out)
    assert error["version"] == 2
    assert says in error["error"]["message"]
    assert error["error"]["exit_status"] == exit_status


@pytest.mark.parametrize("words", ["--json list", "list --json", "clone --json list", "--json clone list"])
def test_json_may_stand_anywhere(words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert invoke(words.split()) == 2
    assert json.loads(capsys.readouterr().out)["error"]["kind"] == "ConfigError"


def test_options_before_and_after_the_command_add_up(capsys: pytest.CaptureFixture[str]) -> None:
    assert invoke(["--config", "/nonexistent/one.toml", "--quiet", "list", "--json"]) == 2
    assert "/nonexistent/one.toml" in capsys.readouterr().out
    assert invoke(["--config", "/nonexistent/one.toml", "list", "--config", "/nonexistent/two.toml"]) == 2
    assert "/nonexistent/two.toml" in capsys.readouterr().err


def test_a_relative_moment_is_not_taken_for_an_option(capsys: pytest.CaptureFixture[str]) -> None:
    assert invoke(["restore", "--to", "-15x", "shop", "--config", EXAMPLE]) == 2
    assert '"-15x" is not a moment' in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "named"),
    [
        ("--config /etc/x --json -q clone list", "clone"),
        ("--config=/etc/x --log-format json list", "list"),
        ("--help clone", "--help"),
        ("--config", None),
        ("", None),
    ],
)
def test_only_the_named_command_is_imported(words: str, named: str | None) -> None:
    assert _named(words.split()) == named


def test_tracebacks_are_for_debug_only(capsys: pytest.CaptureFixture[str]) -> None:
    assert invoke(["list", "--debug"]) == 2
    assert "Traceback" in capsys.readouterr().err


def test_a_defect_is_one_line_too(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(_: str) -> None:
        raise RuntimeError("oh no")

    monkeypatch.setattr(main, "build", broken)
    assert invoke(["list", "--json"]) == 1
    said = capsys.readouterr()
    assert said.err == "zbackup: unexpected RuntimeError: oh no (run again with --debug for the details)\n"
    assert json.loads(said.out)["error"]["kind"] == "RuntimeError"
    assert invoke(["list", "--debug"]) == 1
    assert "Traceback" in capsys.readouterr().err


def test_interrupted(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def interrupt(_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("zbackup.cli.command_context.load", interrupt)
    assert invoke(["list"]) == 130
    assert capsys.readouterr().err == "zbackup: interrupted\n"
    assert invoke(["list", "--json"]) == 130
    assert json.loads(capsys.readouterr().out)["error"]["kind"] == "Interrupted"


def test_the_module_and_a_closed_pipe() -> None:
    """`python -m zbackup ... | head` neither fails loudly nor hangs."""
    command = [sys.executable, "-m", "zbackup", "--help"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""


def test_the_reference_is_what_the_code_says() -> None:
    """Written by docs/reference/generate.py; run it after a change."""
    written = runpy.run_path(str(ROOT / "docs/reference/generate.py"))
    for_people = {name for names in GROUPS.values() for name in names} - {"helper"}
    assert {command[0] for command in written["COMMANDS"]} == for_people
    for name, text in written["pages"]().items():
        assert (ROOT / "docs/reference" / name).read_text() == text
