"""The `lab` command: real OpenZFS and real servers on any machine, for the demo, the tests and people."""

import argparse
import os
import signal
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import FrameType

from tests.lab import apt, backend, doctor, order, places, runs
from tests.lab.guest import raw_terminal
from tests.lab.progress import StepFailed, say
from tests.lab.request import BadRequest, Request, parse_disk, parse_duration, parse_size
from tests.lab.shards import Plan, Shards, default_disks, find_here, find_modules

EXAMPLES = """examples:
  lab up                                      build and fetch everything, say which backend is used
  lab run -- zfs version                      run one command as root with real ZFS
  lab run --disk 4G -- zpool create -o cachefile=none p /dev/ubda
  lab run --disk /var/tmp/d:4G -- ...         the disk outlives the guest; give it to the next one
  lab run --share out -- cp -r /etc/zfs out   the only way to write to the machine
  lab test tests/platform                     in guests of their own, two side by side
  lab test tests/system@mysql-9.7             told with this server; @slow: with those of make test-slow
  lab shell                                   look around

exit status of `lab run`: that of the command; 124 stopped at its time limit; 125 the guest died;
128+N ended by signal N. LAB_BACKEND=native or guest overrides the choice of the backend.
"""

OURS = ("-j", "--timeout=", "--mem=", "--results=", "--here=")


def parser() -> argparse.ArgumentParser:
    """The command line."""
    top = argparse.ArgumentParser(
        prog="lab", description=__doc__, epilog=EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = top.add_subparsers(dest="verb", required=True, metavar="COMMAND")
    up = commands.add_parser("up", help="choose a backend, build and fetch what it and the servers need")
    up.add_argument("--no-servers", action="store_true", help="the guest only")
    run = commands.add_parser("run", help="run one command as root with real ZFS")
    _machine_options(run, timeout="1h")
    run.add_argument("--disk", action="append", default=[], help="SIZE, PATH or PATH:SIZE; may be repeated")
    run.add_argument("--share", action="append", default=[], type=Path, help="directory that may be written")
    run.add_argument("--keep", action="store_true", help="leave disks and kernel log in the run's directory")
    run.add_argument("command", nargs="+", metavar="CMD", help="after --")
    test = commands.add_parser("test", help="run test modules in guests, the longest first")
    _machine_options(test, timeout="15m")
    test.add_argument("-j", type=int, default=2, dest="side_by_side", help="modules side by side (default 2)")
    test.add_argument(
        "--here",
        action="append",
        default=[],
        metavar="FILE",
        help="modules to run on this machine; repeatable",
    )
    test.add_argument("--keep", action="store_true", help="keep disk and pool of a module that fails")
    test.add_argument("--results", type=Path, default=None, help="directory for reports and output")
    test.add_argument(
        "words", nargs="+", metavar="FILE[@VARIANT]", help="modules or directories; and options of pytest"
    )
    commands.add_parser("shell", help="a shell as root with real ZFS")
    commands.add_parser("down", help="end every guest of this user and remove what they left")
    commands.add_parser("doctor", help="what is there, what is missing, how to get it")
    return top


def split_words(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """The arguments of `lab test` as ours and as pytest's: unknown options go to pytest, in order.

    An option of pytest takes its value with `=`, or is one of the few that always take one.
    """
    ours, theirs = [], []
    waiting: list[str] | None = None
    for word in arguments:
        if waiting is not None:
            waiting.append(word)
            waiting = None
        elif word in ("-j", "--timeout", "--mem", "--results", "--here"):
            ours.append(word)
            waiting = ours
        elif word in ("-k", "-m", "-p", "-o", "-W", "-n", "--maxfail", "--durations"):
            theirs.append(word)
            waiting = theirs
        elif word.startswith("-") and not _is_ours(word):
            theirs.append(word)
        else:
            ours.append(word)
    return ours, theirs


def main(arguments: Sequence[str]) -> int:
    """Entry point; returns the exit status."""
    pytest_options: list[str] = []
    if arguments and arguments[0] == "test":
        ours, pytest_options = split_words(arguments[1:])
        arguments = ["test", *ours]
    chosen = parser().parse_args(arguments)
    chosen.pytest_options = pytest_options
    verbs: dict[str, Callable[[argparse.Namespace], int]] = {
        "up": _up,
        "run": _run,
        "test": _test,
        "shell": _shell,
        "down": _down,
        "doctor": _doctor,
    }
    try:
        return verbs[chosen.verb](chosen)
    except (StepFailed, apt.AptFailed, BadRequest, FileNotFoundError) as error:
        say(str(error))
        return 2
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    except BrokenPipeError:
        # Whoever read our output has seen enough; python would complain once more when it flushes at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + signal.SIGPIPE


def _machine_options(command: argparse.ArgumentParser, *, timeout: str) -> None:
    command.add_argument("--timeout", default=timeout, help=f"90s, 15m, 1h (default {timeout})")
    command.add_argument("--mem", default="4G", help="memory of a guest (default 4G)")


def _is_ours(word: str) -> bool:
    return word in ("-h", "--help", "--keep") or word.startswith(OURS)


def _up(chosen: argparse.Namespace) -> int:
    choice = backend.choose()
    say(f"backend: {choice.kind} ({choice.why})")
    with ThreadPoolExecutor(1) as beside:
        # The one waits for the network, the other for the compiler.
        servers = None if chosen.no_servers else beside.submit(_fetch_servers)
        choice.prepare()
        if choice.kind == "guest":
            say(f"guest kernel: {places.built_guest().home}")
        if servers is not None:
            servers.result()
    say("ready")
    return 0


def _fetch_servers() -> None:
    # Imported here: no other verb needs it, and `lab run` starts in a tenth of a second.
    from tests.lab import servers

    try:
        servers.ensure()
    except servers.ServerUnavailable as error:
        raise StepFailed(str(error)) from error


def _run(chosen: argparse.Namespace) -> int:
    return _execute(
        backend.request(
            chosen.command,
            timeout=parse_duration(chosen.timeout),
            memory=parse_size(chosen.mem),
            disks=[parse_disk(text) for text in chosen.disk],
            shares=[_existing_directory(path) for path in chosen.share],
            keep="always" if chosen.keep else "never",
        )
    )


def _execute(request: Request) -> int:
    choice = backend.choose()
    choice.prepare()
    runner = choice.runner(request, _writer(1), _writer(2))
    _pass_signals(runner.signal)
    outcome = runner.run()
    if outcome.trouble:
        say(outcome.trouble)
    for path in outcome.kept:
        say(f"kept until lab down: {path}")
    return outcome.status


def _test(chosen: argparse.Namespace) -> int:
    choice = backend.choose()
    choice.prepare()
    results = (chosen.results or places.new_results()).resolve()
    results.mkdir(parents=True, exist_ok=True)
    modules = find_modules(chosen.words, Path.cwd())
    here = [module for word in chosen.here for module in find_here(word, Path.cwd())]
    plan = Plan(
        tasks=tuple(order.tasks(modules, here, order.known_seconds(), alone=chosen.keep)),
        options=tuple(chosen.pytest_options),
        side_by_side=max(1, chosen.side_by_side),
        timeout=parse_duration(chosen.timeout),
        memory=parse_size(chosen.mem),
        disks=default_disks(),
        results=results,
        keep="after failure" if chosen.keep else "never",
    )
    many = f"{len(modules) + len(here)} modules, {plan.side_by_side} at once"
    say(f"backend: {choice.kind} ({choice.why}); {many}")
    shards = Shards(choice, plan)
    _pass_signals(shards.signal)
    return shards.run()


def _shell(_: argparse.Namespace) -> int:
    if not sys.stdin.isatty() or not sys.stdout.isatty():
        raise BadRequest("lab shell needs a terminal; use lab run for a command")
    choice = backend.choose()
    choice.prepare()
    shell = backend.request([os.environ.get("SHELL", "/bin/bash"), "-i"], timeout=None, memory=4 << 30)
    runner = choice.runner(shell, _writer(1), _writer(2))
    with raw_terminal() as size:
        outcome = runner.run(size)
    if outcome.trouble:
        say(outcome.trouble)
    return outcome.status


def _down(_: argparse.Namespace) -> int:
    for line in runs.sweep(even_of_the_living=True) or ["nothing was running"]:
        say(line)
    return 0


def _doctor(_: argparse.Namespace) -> int:
    for line in doctor.report():
        print(line)
    try:
        choice = backend.choose()
    except StepFailed as error:
        print(f"lab:    {error}")
        return 1
    print(f"lab:    uses {choice.kind} ({choice.why})")
    return 0


def _existing_directory(path: Path) -> Path:
    if not path.is_dir():
        raise BadRequest(f"--share wants a directory that exists, got {path}")
    return path.resolve()


def _writer(descriptor: int) -> Callable[[bytes], None]:
    """Write to a stream of ours at once and whole."""

    def write(data: bytes) -> None:
        while data:
            data = data[os.write(descriptor, data) :]

    return write


def _pass_signals(receiver: Callable[[int], None]) -> None:
    def handle(number: int, _: FrameType | None) -> None:
        receiver(number)

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, handle)
