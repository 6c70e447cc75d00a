"""Other libraries on the same problems, used as in their documentation."""
