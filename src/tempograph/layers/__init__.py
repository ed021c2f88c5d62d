"""Pure modules: tensors in, tensors out, no data access."""
