"""The devices there are besides the CPU: a module for each, named in the one line below that registers it.

Read next: devices/meta.py.
"""

from cleargrad.core.device import absent, makers, register
from cleargrad.devices import cuda
from cleargrad.devices.meta import Meta

register(Meta())
makers["cuda"], absent["cuda"] = cuda.driver, cuda.missing
