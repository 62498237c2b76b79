"""The parts of the terminal channel: safe text, Markdown to lines, the view of a Turn, and two ways to talk to a person."""
