"""Entry point."""

import sys

from runtime.live.agent.program import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
