"""The command line: arguments, console output, commands."""
