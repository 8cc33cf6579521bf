"""torch.backends.quantized: the library for quantised models; there is none."""

engine = "none"
supported_engines = ["none"]
