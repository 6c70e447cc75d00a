"""Rényi differential privacy: the numerics of divergences, and what they prove."""
