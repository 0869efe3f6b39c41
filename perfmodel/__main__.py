"""``python -m perfmodel`` is the program ``perfmodel``."""

from .cli.app import main

main()
