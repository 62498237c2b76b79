"""The first ten minutes, and the bad days: what ``nanobot init`` asks and writes, and what ``nanobot doctor`` looks at."""
