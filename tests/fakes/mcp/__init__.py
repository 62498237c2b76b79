"""An MCP server that does what a script says, good and bad: ``protocol`` answers, ``stdio`` and ``http`` carry it."""
