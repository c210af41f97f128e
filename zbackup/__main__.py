"""python -m zbackup"""

from zbackup.cli.start import run

run()
