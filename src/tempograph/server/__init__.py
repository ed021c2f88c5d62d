"""The HTTP service: completion, scores and evidence as JSON, and a web page to explore runs."""
