"""`python -m longtail` is the `longtail` command."""

from longtail.cli import main

if __name__ == "__main__":
    main()
