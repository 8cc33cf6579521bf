"""torch.autograd.grad_mode: the switches of gradients under PyTorch's path. Read next: autograd/modes.py."""

from cleargrad.autograd.modes import enable_grad as enable_grad
from cleargrad.autograd.modes import inference_mode as inference_mode
from cleargrad.autograd.modes import no_grad as no_grad
from cleargrad.autograd.modes import set_grad_enabled as set_grad_enabled
from cleargrad.autograd.modes import set_multithreading_enabled as set_multithreading_enabled
