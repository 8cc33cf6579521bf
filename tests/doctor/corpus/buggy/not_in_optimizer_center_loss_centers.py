"""Metric learning: the center-loss criterion has its own learnable centers, but only model.parameters() goes
to the optimizer.
"""

import torch
import torch.nn as nn


class CenterLoss(nn.Module):
    def __init__(self, num_classes, feat_dim):
        super().__init__()
        self.centers = nn.Parameter(torch.randn(num_classes, feat_dim))

    def forward(self, feats, labels):
        return ((feats - self.centers[labels]) ** 2).sum(1).mean()


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(nn.Linear(10, 32), nn.PReLU(), nn.Linear(32, 2))
        self.classifier = nn.Linear(2, 4)

    def forward(self, x):
        f = self.features(x)
        return f, self.classifier(f)


def main():
    torch.manual_seed(0)
    model, center_loss, xent = Net(), CenterLoss(4, 2), nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)  # <- parameter-not-in-optimizer
    X = torch.randn(100, 10)
    Y = X[:, :4].argmax(1)
    for step in range(20):
        idx = torch.randint(0, 100, (25,))
        feats, logits = model(X[idx])
        loss = xent(logits, Y[idx]) + 0.01 * center_loss(feats, Y[idx])
        model.zero_grad()
        center_loss.zero_grad()
        loss.backward()
        optimizer.step()
    print("loss", loss.item())


main()
