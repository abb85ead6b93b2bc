"""`python -m tipple`."""

from tipple.cli import main

if __name__ == "__main__":
    main()
