"""Other libraries on the same problem, written the way their documentation shows."""
