"""The command line: arguments, pipes and signals.  No logic of its own."""
