"""What `import torch` finds in a program started by `cleargrad run`: cleargrad under PyTorch's name.

Read next: compat.py.
"""

from cleargrad.compat import fill

fill(globals())
