"""TeMP: temporal message passing."""
