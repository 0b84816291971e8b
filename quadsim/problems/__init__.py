"""Block-diagonal quadratics: the problem class, the four cases, noise models."""
