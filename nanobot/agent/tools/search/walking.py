"""Which files a search looks at, as ripgrep is told it and as it tells them.  Pure.

ripgrep runs inside the workspace and follows no links.  ``.git`` and ``node_modules`` and what ``.gitignore`` names are left out
unless asked for; a directory named as ``path`` is searched whatever it is called.
"""

TOO_SLOW = "the search took too long and was stopped before it found anything. Search a smaller directory."
_SKIPPED = ("--glob", "!**/.git/**", "--glob", "!**/node_modules/**")
_WALKING = ("--hidden", "--no-require-git", "--no-ignore-parent", "--no-ignore-global", "--sort=path", "--no-messages")


def walking(*, glob: str | None, ignored: bool) -> list[str]:
    """Return ripgrep's flags that say which files are looked at."""
    flags = [*_WALKING, *(("--no-ignore",) if ignored else ())]
    # A later glob wins, and one with a slash is anchored: at our root, as in .gitignore
    flags += ["--glob", glob.removeprefix("./")] if glob else []
    return flags if ignored else [*flags, *_SKIPPED]


def names_in(output: bytes) -> list[str]:
    """Return the file names that ripgrep printed, each ended by NUL; one that was cut off is left out."""
    return [part.decode("utf-8", "surrogateescape").removeprefix("./") for part in output.split(b"\0")[:-1]]
