"""Record what a real zfs says to the script."""

import json

from tests.fast.real import play_real
from tests.fast.script import RECORDED
from tests.lab.pool import create_pool


def main() -> None:
    pool = create_pool()
    try:
        played = play_real(pool.name, str(pool.home))
        RECORDED.write_text(json.dumps(played, indent=1) + "\n")
    finally:
        pool.destroy()


if __name__ == "__main__":
    main()
