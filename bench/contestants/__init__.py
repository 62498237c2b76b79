"""Programs that run the same jobs: nanobot, its floors, and its peers, each in a process and an environment of its own."""
