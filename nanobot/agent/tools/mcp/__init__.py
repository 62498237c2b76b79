"""Tools of MCP servers: a client in which whatever a server does concerns that server alone.

``settings``    what a configuration says of a server
``names``       a remote tool's name as both wires accept it
``schemas``     a remote tool's schema as both wires accept it, or why it cannot be offered
``session``     one connection, in our own types; it and what it imports load the SDK, in a thread, when a server is configured
``stdio``       a server as a child process, bounded in what it may say and ended with its group
``http``        a server behind an address, bounded in what it may send
``content``     a result as text for the model
``server``      one server's owner task: starts, watches, starts again
``servers``     all of them: what ``app`` starts and closes, and where the registry gets its tools
``tools``       a remote tool, a resource, a prompt as tools of ours
"""
