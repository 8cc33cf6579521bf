"""torch.signal: so far its windows."""

from cleargrad.signal import windows as windows
