"""The TeMP paper: published figures, its tables, and how to reproduce them."""
