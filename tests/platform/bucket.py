"""A yard that ships to a bucket, and the recipe of the documentation that brings its backups back."""

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from tests.destinations.shop import Shop
from tests.lab.pool import Pool
from tests.lab.s3_server import ACCESS, SECRET, S3Server
from tests.platform.shipping import Yard
from zbackup.destinations.s3.chains import ChainIndex
from zbackup.destinations.s3.layout import StreamId
from zbackup.jobs.context import ShipDestination
from zbackup.model.retention import EMPTY, Retention
from zbackup.model.shipping import Inventory, hold_tag
from zbackup.proc.run import Runner
from zbackup.proc.run import run as really_run

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "s3-layout.md"


class Bucketed(Yard):
    """`storing` changes how streams are stored (tests.destinations.shop.Shop.destination)."""

    def __init__(
        self,
        pool: Pool,
        vault: Pool,
        shop: Shop,
        properties: Mapping[str, str] | None = None,
        **storing: object,
    ) -> None:
        super().__init__(pool, vault, properties=properties)
        self.shop, self.storing = shop, storing

    def destination(
        self,
        runner: Runner = really_run,
        *,
        initial: bool = True,
        limit: int = 0,
        retention: Retention = EMPTY,
    ) -> ShipDestination:
        destination = self.shop.destination(**self.storing)  # type: ignore[arg-type]
        tag = hold_tag("this.host", "shop", destination.name)
        return ShipDestination(
            adapter=destination, tag=tag, retention=retention, initial=initial, limit=limit
        )

    def inventory(self) -> Inventory:
        with self.shop.session(**self.storing) as session:
            return session.inventory()

    def streams(self, line: str, name: str) -> list[StreamId]:
        """What makes the copy of that name, the full one first."""
        with self.shop.session(**self.storing) as session:
            found = session.contents()
        guids = [p.guid for m in found.manifests for p in m.parts if (p.dataset, p.snapshot) == (line, name)]
        return ChainIndex(found).to(line, guids[0]) or []

    def by_hand(self, line: str, name: str, target: str, *keys: Path) -> None:
        """Bring the copy back as the documentation says, with the key file and that of the private key."""
        tools = recipe(self.shop.home)
        for stream in self.streams(line, name):
            quoted = str(stream).replace(" ", "%20")
            root = f"s3://{self.shop.bucket}/{self.shop.root}"
            words = [str(tools / "get-stream"), root, quoted, *map(str, keys)]
            sending = subprocess.Popen(words, stdout=subprocess.PIPE, env=environment(self.shop.server))
            subprocess.run(["zfs", "receive", "-u", target], stdin=sending.stdout, check=True)
            assert sending.wait() == 0


def recipe(home: Path) -> Path:
    """The tools of the page, in a directory."""
    for name, text in re.findall(r"<!-- ([a-z-]+) -->\n```[a-z]+\n(.*?)```", PAGE.read_text("ascii"), re.S):
        (home / name).write_text(text, encoding="ascii")
        (home / name).chmod(0o755)
    return home


def environment(server: S3Server) -> dict[str, str]:
    """For the aws command line: this environment's tools come first."""
    programs = str(Path(sys.executable).parent)
    return os.environ | {
        "PATH": f"{programs}:{os.environ['PATH']}",
        "AWS_ENDPOINT_URL": server.endpoint,
        "AWS_ACCESS_KEY_ID": ACCESS,
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_DEFAULT_REGION": "us-east-1",
    }
