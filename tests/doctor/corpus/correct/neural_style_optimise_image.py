"""The optimizer holds the image, not the network; the network is frozen, in eval, and only passes the
gradient through.
"""

import torch
import torch.nn as nn

torch.manual_seed(0)
vgg = (
    nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 8, 3), nn.ReLU())
    .eval()
    .requires_grad_(False)
)


def gram(f):
    _, c, h, w = f.shape
    f = f.view(c, h * w)
    return f @ f.t() / (c * h * w)


content, style = torch.rand(1, 3, 10, 10), torch.rand(1, 3, 10, 10)
target_c, target_s = vgg(content).detach(), gram(vgg(style)).detach()
img = content.clone().requires_grad_(True)
optimizer = torch.optim.LBFGS([img])
run = [0]
while run[0] < 60:

    def closure():
        with torch.no_grad():
            img.clamp_(0, 1)
        optimizer.zero_grad()
        f = vgg(img)
        loss = nn.functional.mse_loss(f, target_c) + 100 * nn.functional.mse_loss(gram(f), target_s)
        loss.backward()
        run[0] += 1
        return loss

    optimizer.step(closure)
print(run[0])
