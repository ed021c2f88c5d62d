"""Facts on disk, facts in memory."""
