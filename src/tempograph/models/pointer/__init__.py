"""The pointer: `copying` and `paths` are its sources of votes, `pointer_model` the model."""
