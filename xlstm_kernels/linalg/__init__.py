"""Linear algebra of batches of matrices, with the names, shapes and conventions of NumPy."""
