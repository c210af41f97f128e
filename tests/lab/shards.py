"""Spread test modules over guests and this machine: several side by side, the longest first."""

import contextlib
import os
import re
import resource
import sys
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field, replace
from pathlib import Path

from tests.lab import backend, native, order, places
from tests.lab.order import Task
from tests.lab.request import DIED, BadRequest, Disk, Keep, Outcome, Request, parse_size
from tests.lab.results import ModuleResult, exit_status, read_results, summary
from tests.lab.variants import Told, UnknownVariant, of_file

UNUSED_PLUGINS = ("hypothesispytest", "anyio", "xdist", "xdist.looponfail")
"""Plugins of pytest that no test here needs. Importing them takes most of its start."""
SELECTING = ("-k", "-m", "--lf", "--last-failed", "--deselect")


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The modules to test and how."""

    tasks: tuple[Task, ...]
    options: tuple[str, ...]
    side_by_side: int
    timeout: float
    memory: int
    disks: tuple[Disk, ...]
    results: Path
    keep: Keep


@dataclass(slots=True)
class Shards:
    """Runs a plan; `signal` stops everything."""

    choice: backend.Choice
    plan: Plan
    _running: list[backend.Runner] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _stopped: bool = False

    def run(self) -> int:
        """Test every module, say how each ended as it ends, close with the sum; returns the exit status."""
        results: list[ModuleResult] = []
        with ThreadPoolExecutor(self.plan.side_by_side) as pool:
            waiting = {pool.submit(self._task, task): task for task in self.plan.tasks}
            for done in as_completed(waiting):
                results += done.result()
                self._report(waiting[done], done.result())
        print(f"\nreports and whole output: {self.plan.results}")
        for result in results:
            if not result.ok:
                print(result.line())
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        print(f"CPU: {used.ru_utime + used.ru_stime:.0f} s, of the guests with all that ran in them, too")
        print(summary(results), flush=True)
        if not selects(self.plan.options):
            order.remember({result.module: result.seconds for result in results if result.ok})
        return exit_status(results)

    def signal(self, number: int) -> None:
        """Stop the guests that run and start no more."""
        self._stopped = True
        with self._lock:
            for runner in self._running:
                runner.signal(number)

    def _task(self, task: Task) -> list[ModuleResult]:
        if self._stopped:
            trouble = "not run: stopped on request"
            return [ModuleResult(module=module, failed=1, trouble=trouble) for module in task.modules]
        name = result_name(task.modules)
        report = self.plan.results / f"{name}.xml"
        report.unlink(missing_ok=True)
        request = self._request(task, pytest_command(task, self.plan.options, report))
        began = time.monotonic()
        with (self.plan.results / f"{name}.log").open("wb", buffering=0) as log:
            # Tests here start guests of their own; what needs ZFS itself goes where ZFS is.
            runner: backend.Runner = (
                native.NativeRun(request, log.write, log.write)
                if task.here
                else self.choice.runner(request, log.write, log.write)
            )
            with self._lock:
                self._running.append(runner)
            try:
                outcome = runner.run()
            except (OSError, BadRequest) as error:
                # One guest that cannot be started must not take the results of the others with it.
                outcome = Outcome(status=DIED, trouble=f"the guest was not started: {error}")
            finally:
                with self._lock:
                    self._running.remove(runner)
            log.write("".join(f"kept until lab down: {path}\n" for path in outcome.kept).encode())
        return read_results(
            task.modules,
            outcome.status,
            outcome.trouble,
            report,
            selected="::" in task.modules[0] or selects(self.plan.options),
            seconds=time.monotonic() - began,
        )

    def _request(self, task: Task, command: Sequence[str]) -> Request:
        request = backend.request(
            command,
            timeout=self.plan.timeout,
            memory=self.plan.memory,
            disks=() if task.here else self.plan.disks,
            shares=[self.plan.results],
            visible=sorted({Path(Told.read(module).file).resolve().parent for module in task.modules}),
            keep=self.plan.keep,
        )
        wanted = os.environ.get("LAB_BACKEND")
        if not task.here or wanted is None:
            return request
        return replace(request, environment={**request.environment, "LAB_BACKEND": wanted})

    def _report(self, task: Task, results: Sequence[ModuleResult]) -> None:
        for result in results:
            print(result.line(), flush=True)
        if all(result.ok for result in results):
            return
        log = self.plan.results / f"{result_name(task.modules)}.log"
        if log.exists():
            print(log.read_text(errors="replace"))
        for trouble in dict.fromkeys(result.trouble for result in results if result.trouble):
            print(trouble)
        sys.stdout.flush()


def pytest_command(task: Task, options: Sequence[str], report: Path) -> list[str]:
    """How modules are tested: by the project's own environment if there is one."""
    venv = places.REPOSITORY / ".venv" / "bin" / "python"
    python = str(venv) if venv.exists() else "python3"
    # The cache of pytest would be written to a root that is thrown away.
    unused = [word for plugin in ("cacheprovider", *UNUSED_PLUGINS) for word in ("-p", f"no:{plugin}")]
    fixed = [*unused, "-q", "--color=no", f"--junitxml={report}"]
    variant = [f"--variant={task.variant}"] if task.variant else []
    files = [str(replace(Told.read(module), variant="")) for module in task.modules]
    return [python, "-m", "pytest", *fixed, *variant, *options, *files]


def find_modules(words: Sequence[str], start: Path, pattern: str = "test_*.py") -> list[str]:
    """Test modules named by files, directories or test ids, in order, each once with each of its servers.

    Raises FileNotFoundError for a word that names nothing: a mistyped module must not pass unseen.
    """
    found: dict[str, None] = {}
    for word in words:
        asked = Told.read(word)
        path = start / asked.file
        if path.is_dir():
            inside = [_shortest(module, start) for module in sorted(path.rglob(pattern))]
            if not inside:
                raise FileNotFoundError(f"no {pattern} in {word}")
        elif path.is_file():
            inside = [asked.file]
        else:
            raise FileNotFoundError(f"no such test module: {word}")
        told = [name for file in inside for name in _told(replace(asked, file=file), start)]
        if not told:
            raise FileNotFoundError(f"nothing is told with that server: {word}")
        found.update(dict.fromkeys(told))
    return list(found)


def _told(asked: Told, start: Path) -> list[str]:
    """A module with each of its servers that were asked for; as it is if it chooses its servers itself."""
    try:
        said = of_file(start / asked.file)
    except (SyntaxError, ValueError, UnknownVariant) as error:
        raise BadRequest(f"{asked.file}: {error}") from error
    if not said.all and not asked.variant:
        return [str(asked)]
    return [str(replace(asked, variant=name)) for name in said.asked(asked.variant)]


def find_here(word: str, start: Path) -> list[str]:
    """The modules of `word` that run on this machine: a directory may hold such and others."""
    found: dict[str, None] = {}
    for pattern in ("test_*.py", "selftest_*.py"):
        with contextlib.suppress(FileNotFoundError):
            found.update(dict.fromkeys(find_modules([word], start, pattern)))
    if not found:
        raise FileNotFoundError(f"no such test module: {word}")
    return list(found)


def _shortest(path: Path, start: Path) -> str:
    return str(path.relative_to(start) if path.is_relative_to(start) else path)


def result_name(modules: Sequence[str]) -> str:
    """A file name for the results of modules that one pytest runs."""
    plain = modules[0].removesuffix(".py").replace(".py@", "@")
    first = re.sub(r"[^A-Za-z0-9_.@-]+", "-", plain).strip("-")
    return first if len(modules) == 1 else f"{first}-and-{len(modules) - 1}-more"


def selects(options: Sequence[str]) -> bool:
    """Whether pytest's options choose among the tests, so that a module may rightly have none."""
    return any(option.split("=")[0] in SELECTING for option in options)


def default_disks() -> tuple[Disk, ...]:
    """The disk that every tested module gets."""
    return (Disk(size=parse_size("8G")),)
