"""`python -m tempograph`, for machines where the package is not installed."""

from tempograph.cli import main

main()
