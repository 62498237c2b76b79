"""The daemon: channels around one ``Nanobot``, kept alive, watched, and ended in order."""
