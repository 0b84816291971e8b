"""Template 1 of 4 of a kernel: its parameters and the constants that the other templates share.

The values of WIDTH, NOISY and RANDOM here are for reading and importing the templates as plain modules; `compiler`
writes those of the kernel that it compiles in their place.
"""

WIDTH = 8  # lanes side by side in memory: 1, 8 or 32
NOISY = False  # whether the rule sees gradients with noise
RANDOM = False  # whether the rule asks for random numbers of its own

VECTOR_SIZE = 8  # floats that are moved together; arrays are padded to whole vectors
ROW_SIZE = 32  # floats that a rule updates together: a few coordinates of all lanes, or many of one

JIT = {"nogil": True, "error_model": "numpy"}  # numpy: 1/0 is inf, not an exception
JIT_INLINE = {**JIT, "forceinline": True}  # for what is called at every step: passing a dozen arrays takes time

RUNNING, CONVERGED, MAX_STEPS, DIVERGED, UNDERFLOW = range(5)  # status of a lane
