"""The verbs of the command line, one module each: keys → calls → what is shown and written."""
