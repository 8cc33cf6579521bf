"""torch.backends.quantized: the library for quantised models; there is none.

Read next: torch_names/cpu/__init__.py.
"""

engine = "none"
supported_engines = ["none"]
