"""The embedding methods: TransE to TNTComplEx."""
