"""tempograph: find the missing facts of a temporal knowledge graph, with evidence."""

from tempograph.version import __version__

__all__ = ["__version__"]
