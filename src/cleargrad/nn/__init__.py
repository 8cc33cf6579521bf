"""torch.nn: so far its functions; modules follow with the training system."""

from cleargrad.nn import functional as functional
from cleargrad.nn import init as init
