"""Template 1 of 5 of a kernel: its parameters and the constants that the other templates share.

The values of WIDTH, NOISY, RANDOM and WRAPPED here are used when the templates are imported as plain modules;
`kernel_source` replaces them by those of the kernel.
"""

from numba import float64, int64

WIDTH = 8  # lanes side by side in memory: 1, 8 or 32
NOISY = False  # whether the rule sees gradients with noise
RANDOM = False  # whether the rule takes random numbers
WRAPPED = True  # whether all functions can be called from Python, or only those of SIGNATURES, which compiles faster

VECTOR_SIZE = 8  # floats that are loaded and stored together; arrays are padded to whole vectors
ROW_SIZE = 32  # floats that a rule updates together: a few coordinates of all lanes, or many of one

JIT_ENTRY = {"nogil": True, "error_model": "numpy"}  # numpy: 1/0 is inf, not an exception
JIT = {**JIT_ENTRY, "no_cpython_wrapper": not WRAPPED, "no_cfunc_wrapper": not WRAPPED}
JIT_INLINE = {**JIT, "forceinline": True}  # for functions called at every step: passing a dozen arrays takes time

vector, matrix, cube, integers = float64[::1], float64[:, ::1], float64[:, :, ::1], int64[::1]  # contiguous arrays

RUNNING, CONVERGED, MAX_STEPS, DIVERGED, UNDERFLOW = range(5)  # status of a lane
