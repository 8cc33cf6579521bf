"""The head is not among the parameters that the optimizer gets."""

# companions: outside-accumulation
import torch
from torch import nn


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone = nn.Sequential(nn.Linear(6, 8), nn.ReLU())
        self.head = nn.Linear(8, 3)

    def forward(self, x):
        return self.head(self.backbone(x))


torch.manual_seed(0)
model = Classifier()
optimizer = torch.optim.Adam(model.backbone.parameters(), lr=1e-3)  # <- parameter-not-in-optimizer
for _ in range(6):
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(torch.randn(8, 6)), torch.randint(0, 3, (8,))).backward()
    optimizer.step()
