"""`python -m trilobite` is the command `trilobite`."""

from trilobite.cli import main

if __name__ == "__main__":
    main()
