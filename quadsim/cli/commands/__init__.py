"""The commands, one module each: parse keys, call the package, print and write the result."""
