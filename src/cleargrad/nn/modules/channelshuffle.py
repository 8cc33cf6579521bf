"""torch.nn.modules.channelshuffle: where PyTorch keeps ChannelShuffle.

Read next: nn/modules/pixelshuffle.py.
"""

from cleargrad.nn.modules.pixelshuffle import ChannelShuffle as ChannelShuffle
