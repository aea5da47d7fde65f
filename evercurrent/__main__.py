"""`python -m evercurrent`: the same command, for children that must not depend on a PATH."""

from evercurrent.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
