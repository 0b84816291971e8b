"""Settings for all tests: the same examples in every run, and no deadline, since the first call may compile."""

from hypothesis import settings

settings.register_profile("quadsim", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("quadsim")
