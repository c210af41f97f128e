"""python -m zbackup"""

from zbackup.cli.main import run

run()
