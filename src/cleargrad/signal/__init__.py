"""torch.signal: so far its windows. Read next: signal/windows.py."""

from cleargrad.signal import windows as windows
