"""torch.nn.modules.channelshuffle: where PyTorch keeps ChannelShuffle."""

from cleargrad.nn.modules.pixelshuffle import ChannelShuffle as ChannelShuffle
