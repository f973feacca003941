"""What is loaded before these tests: pytester forgets what a run inside this process imports first.

numpy, which scipy needs, cannot be loaded twice.
"""

import scipy.stats  # noqa: F401
