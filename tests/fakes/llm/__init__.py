"""The strict local model server, in parts; import it from ``tests.fakes.llm_server``."""
