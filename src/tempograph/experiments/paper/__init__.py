"""The TeMP paper: its tables, and how to reproduce them."""
