"""Configuration: joins the packages' settings, reads YAML, and is the only reader of the environment.

Import what you need from ``nanobot.config.settings``; importing this package alone costs nothing.
"""
