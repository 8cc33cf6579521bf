"""torch.autograd.anomaly_mode: anomaly detection under PyTorch's path. Read next: autograd/modes.py."""

from cleargrad.autograd.modes import detect_anomaly as detect_anomaly
from cleargrad.autograd.modes import set_detect_anomaly as set_detect_anomaly
