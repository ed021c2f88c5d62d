"""The models, each behind the contract of `contract.py`."""
