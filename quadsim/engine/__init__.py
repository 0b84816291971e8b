"""Running optimizers: `solve`, the compiled engine and the closed forms."""
