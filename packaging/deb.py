"""Build the Debian package zbackup-pitr: python3 packaging/deb.py [DIRECTORY]

Needs Debian's own python3 with python3-venv, dpkg-deb and the network; no root. The package is for the Debian
release that it is built on: what is compiled inside is for this release's Python.
"""

import gzip
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[1]
PYTHON = "/usr/bin/python3"
HOME = Path("usr/lib/zbackup-pitr")
UNITS = (
    "zbackup.service",
    "zbackup-clone@.service",
    "zbackup-helper.socket",
    "zbackup-helper@.service",
    "zbackup-drill.socket",
    "zbackup-drill@.service",
    "zbackup-read.socket",
    "zbackup-read@.service",
    "zbackup-cloner.socket",
    "zbackup-cloner@.service",
    "zbackup-web.service",
)
INSTALLED, PACKAGED = "/usr/local/bin/zbackup", "/usr/bin/zbackup"
MAINTAINER = "zbackup maintainers <maintainers@localhost>"


def main(where: Path) -> Path:
    """Build the package in a directory; return its file."""
    os.umask(0o022)
    where.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch, "root")
        tools = Path(scratch, "tools")
        program(root, tools)
        for put in (units, documents):
            put(root)
        man_pages(root, Path(scratch, "man"))
        completion(root)
        control(root)
        file = where / f"zbackup-pitr_{version()}_{architecture()}.deb"
        run("dpkg-deb", "--root-owner-group", "-Zxz", "--build", str(root), str(file))
    return file


def program(root: Path, tools: Path) -> None:
    """A virtual environment at its later place, of the packages of the lock, each proven by its hash."""
    home = root / HOME
    run(PYTHON, "-m", "venv", "--without-pip", str(home))
    run(PYTHON, "-m", "venv", str(tools))
    pip = (str(tools / "bin/pip"), "--python", str(home / "bin/python"), "install", "--quiet")
    pip += ("--disable-pip-version-check", "--no-compile")
    run(*pip, "--require-hashes", "-r", str(PROJECT / "requirements-install.lock"))
    run(*pip, "--no-deps", "--no-build-isolation", "--no-index", str(PROJECT))
    for script in (home / "bin").iterdir():
        if not script.name.startswith("python"):
            script.unlink()
    start = f"#!/{HOME}/bin/python -I\nfrom zbackup.cli.start import run\n\nrun()\n"
    (home / "bin/zbackup").write_text(start)
    (home / "bin/zbackup").chmod(0o755)
    settings = home / "pyvenv.cfg"
    kept = [line for line in settings.read_text().splitlines() if not line.startswith("command")]
    settings.write_text("\n".join(kept) + "\n")
    library = next((home / "lib").glob("python3*"))
    run(PYTHON, "-m", "compileall", "-q", "-s", str(root), "-p", "/", str(library))
    link = root / PACKAGED.lstrip("/")
    link.parent.mkdir(parents=True)
    link.symlink_to(f"/{HOME}/bin/zbackup")


def units(root: Path) -> None:
    """systemd's units, which start the packaged program, and its user."""
    for unit in UNITS:
        text = (PROJECT / "systemd" / unit).read_text()
        write(root / "usr/lib/systemd/system" / unit, text.replace(INSTALLED, PACKAGED))
    write(root / "usr/lib/sysusers.d/zbackup.conf", (PROJECT / "systemd/zbackup.sysusers.conf").read_text())
    write(root / "usr/lib/tmpfiles.d/zbackup.conf", (PROJECT / "systemd/zbackup.tmpfiles.conf").read_text())


def documents(root: Path) -> None:
    """The documentation, the example of a configuration and of a mask, the licence."""
    doc = root / "usr/share/doc/zbackup-pitr"
    shutil.copytree(PROJECT / "docs", doc / "docs", ignore=shutil.ignore_patterns("*.py", "__pycache__"))
    for name in ("README.md", "SECURITY.md"):
        write(doc / name, (PROJECT / name).read_text())
    write(doc / "copyright", f"Licence: Apache-2.0\n\n{(PROJECT / 'LICENSE').read_text()}")
    packed(doc / "changelog.gz", (PROJECT / "CHANGELOG.md").read_text())
    write(doc / "examples/config.toml", (PROJECT / "config.example.toml").read_text())
    shutil.copy(PROJECT / "docs/examples/mask.sql", doc / "examples/mask.sql")
    credentials = "zbackup.service.d/credentials.conf.example"
    write(doc / "examples" / Path(credentials).name, (PROJECT / "systemd" / credentials).read_text())
    (root / "etc/zbackup").mkdir(parents=True)
    (root / "etc/zbackup").chmod(0o750)


def man_pages(root: Path, scratch: Path) -> None:
    """What --help says, for man."""
    run(str(root / HOME / "bin/python"), str(PROJECT / "docs/reference/man.py"), str(scratch))
    for page in scratch.iterdir():
        packed(root / f"usr/share/man/man{page.suffix[1:]}" / f"{page.name}.gz", page.read_text())


def completion(root: Path) -> None:
    """Of words, for bash, zsh and fish."""
    for shell, file in (
        ("bash", "bash-completion/completions/zbackup"),
        ("zsh", "zsh/vendor-completions/_zbackup"),
        ("fish", "fish/vendor_completions.d/zbackup.fish"),
    ):
        program = (str(root / HOME / "bin/python"), "-I", str(root / HOME / "bin/zbackup"))
        said = run(*program, environment={"_ZBACKUP_COMPLETE": f"source_{shell}"})
        write(root / "usr/share" / file, said)


def control(root: Path) -> None:
    """What dpkg wants to know, and the scripts that it runs."""
    major, minor = run(PYTHON, "-c", "import sys; print(*sys.version_info[:2])").split()
    sizes = sum(file.lstat().st_size for file in root.rglob("*") if file.is_file())
    values = {
        "VERSION": version(),
        "ARCHITECTURE": architecture(),
        "MAINTAINER": os.environ.get("DEBFULLNAME_EMAIL", MAINTAINER),
        "SIZE": str(sizes // 1024),
        "PYTHON": f"{major}.{minor}",
        "NEXT_PYTHON": f"{major}.{int(minor) + 1}",
    }
    text = (PROJECT / "packaging/debian/control.in").read_text()
    sums = [
        f"{hashlib.md5(file.read_bytes(), usedforsecurity=False).hexdigest()}  {file.relative_to(root)}\n"
        for file in sorted(root.rglob("*"))
        if file.is_file() and not file.is_symlink()
    ]
    write(root / "DEBIAN/control", re.sub("@([A-Z_]+)@", lambda found: values[found[1]], text))
    write(root / "DEBIAN/md5sums", "".join(sums))
    for script in ("postinst", "prerm", "postrm"):
        write(root / "DEBIAN" / script, (PROJECT / "packaging/debian" / script).read_text())
        (root / "DEBIAN" / script).chmod(0o755)


def version() -> str:
    """The project's, with the Debian release that this is for behind it."""
    own = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]["version"]
    release = re.search(r'^VERSION_ID="?([0-9.]+)', Path("/etc/os-release").read_text(), re.MULTILINE)
    return f"{own}-1~deb{release[1] if release else 'ian'}"


def architecture() -> str:
    return run("dpkg", "--print-architecture").strip()


def write(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")


def packed(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(gzip.compress(text.encode(), mtime=0))


def run(*argv: str, environment: dict[str, str] | None = None) -> str:
    """What a program says; what it has against us goes to stderr, and ends this."""
    done = subprocess.run(
        argv, stdout=subprocess.PIPE, text=True, check=False, env={**os.environ, **(environment or {})}
    )
    if done.returncode != 0:
        sys.exit(f"{argv[0]} ended with {done.returncode}: {' '.join(argv[1:4])} ...")
    return done.stdout


if __name__ == "__main__":
    sys.stdout.write(f"{main(Path(sys.argv[1] if len(sys.argv) > 1 else 'dist').resolve())}\n")
