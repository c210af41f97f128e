"""Write the man pages, from what makes the reference pages: python docs/reference/man.py DIRECTORY"""

import runpy
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

REFERENCE: dict[str, Any] = runpy.run_path(str(Path(__file__).parent / "generate.py"))
VERSION = metadata.version("zbackup")
SEE_ALSO = "The documentation is in /usr/share/doc/zbackup-pitr, or beside the source in docs/."


def pages() -> dict[str, str]:
    """File name -> text of each man page: the program, each command, and the configuration."""
    found = {"zbackup.1": _command(())}
    for words in REFERENCE["COMMANDS"]:
        found[f"{'-'.join(('zbackup', *words))}.1"] = _command(words)
    found["zbackup.toml.5"] = _configuration()
    return found


def _command(words: tuple[str, ...]) -> str:
    name = "-".join(("zbackup", *words))
    usage, _, rest = REFERENCE["_help"](words).partition("\n\n")
    text, _, options = rest.partition("\nOptions:\n")
    lines = [line.removeprefix("  ") for line in text.strip("\n").splitlines()]
    first = next(iter(" ".join(lines).split(". ")), "").split("  ")[0].strip().rstrip(".")
    return "\n".join(
        [
            _title(name, 1),
            ".SH NAME",
            f"{_plain(name)} \\- {_plain(first)}",
            ".SH SYNOPSIS",
            _plain(usage.removeprefix("Usage: ")),
            ".SH DESCRIPTION",
            *_verbatim(lines),
            ".SH OPTIONS",
            *_verbatim(options.splitlines()),
            ".SH SEE ALSO",
            ".BR zbackup (1),",
            ".BR zbackup.toml (5)",
            ".PP",
            _plain(SEE_ALSO),
            "",
        ]
    )


def _configuration() -> str:
    text: str = REFERENCE["configuration"]()
    lines = [
        _title("zbackup.toml", 5),
        ".SH NAME",
        "zbackup.toml \\- the configuration of zbackup, /etc/zbackup/config.toml",
    ]
    for part in text.split("\n## ")[1:]:
        heading, _, body = part.partition("\n")
        lines.append(f".SH {_plain(heading.replace('`', ''))}")
        for line in body.strip().splitlines():
            match line.strip("|").split(" | "):
                case [key, default, *meaning] if line.startswith("| `"):
                    about = " | ".join(meaning).strip().rstrip("|")
                    lines += [".TP", f".B {_plain(key.replace('`', '').strip())}", _plain(_unmarked(about))]
                    if value := default.replace("`", "").strip():
                        required = value == "required"
                        lines.append("It is required." if required else _plain(f"Default: {value}."))
                case _ if not line.startswith("|") and line.strip():
                    lines += [".PP", _plain(_unmarked(line))]
    return "\n".join([*lines, ".SH SEE ALSO", ".BR zbackup (1)", ""])


def _title(name: str, section: int) -> str:
    return f'.TH {_plain(name.upper())} {section} "" "zbackup {VERSION}"'


def _verbatim(lines: list[str]) -> list[str]:
    return [".nf", *(_plain(line) for line in lines), ".fi"]


def _unmarked(text: str) -> str:
    return text.replace("`", "").replace("\\|", "|")


def _plain(line: str) -> str:
    """A line that troff takes for text: no request, no escape, and hyphens that can be copied."""
    escaped = line.rstrip().replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{escaped}" if escaped.startswith((".", "'")) else escaped


if __name__ == "__main__":
    where = Path(sys.argv[1])
    where.mkdir(parents=True, exist_ok=True)
    for file, content in pages().items():
        (where / file).write_text(content, encoding="utf-8")
