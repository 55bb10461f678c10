"""``python -m stragglab`` is the command ``stragglab``."""

from stragglab.command import main

main()
