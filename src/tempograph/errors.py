"""Exceptions for user mistakes; every message names the thing, the value and the way out."""

from __future__ import annotations


class TempographError(Exception):
    """A mistake that one line explains; the command line prints it and exits with code 2."""


class TempographWarning(UserWarning):
    """Something that does not stop the work, but that the user should know."""


class DataError(TempographError):
    """A dataset, or a file to import, is invalid."""


class ConfigError(TempographError):
    """A setting, model name or option does not exist or has an invalid value."""


class RunError(TempographError):
    """A run folder is missing, damaged or unsuitable for what is asked of it."""


class ProcessLostError(RunError):
    """Another process of a training died, so this one cannot go on."""


class QueryError(TempographError):
    """A query names something that is not in the data."""


class StorageError(TempographError):
    """Something could not be written; what was there before is unchanged."""


class ServiceError(TempographError):
    """A service cannot be reached, refuses the token, is overloaded or fails."""
