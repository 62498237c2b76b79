"""``python -m nanobot`` and the ``nanobot`` command."""

from nanobot.cli.app import app


def main() -> None:
    """Run the command line."""
    app()


if __name__ == "__main__":
    main()
