"""Template 1 of 4 of a kernel: its parameters and the constants that the other templates share.

The values of WIDTH, NOISY and RANDOM here are used when the templates are imported as plain modules; `kernel_source`
replaces them by those of the kernel.
"""

WIDTH = 8  # lanes side by side in memory: 1, 8 or 32
NOISY = False  # whether the rule sees gradients with noise
RANDOM = False  # whether the rule takes random numbers

VECTOR_SIZE = 8  # floats that are loaded and stored together; arrays are padded to whole vectors
ROW_SIZE = 32  # floats that a rule updates together: a few coordinates of all lanes, or many of one

JIT = {"nogil": True, "error_model": "numpy"}  # numpy: 1/0 is inf, not an exception
JIT_INLINE = {**JIT, "forceinline": True}  # for functions called at every step: passing a dozen arrays takes time

RUNNING, CONVERGED, MAX_STEPS, DIVERGED, UNDERFLOW = range(5)  # status of a lane
