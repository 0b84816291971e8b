"""The compiled engine: kernel template, compiler, kernel cache, batching of lanes."""
