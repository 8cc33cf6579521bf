"""Reinforcement learning: a policy learns to balance a pole on a cart from nothing but how long it lasted.

    cleargrad run examples/reinforce.py --episodes 140

With PyTorch installed, `python` in place of `cleargrad run` prints the same.

REINFORCE: play an episode, then make each action likelier in proportion to the reward that followed it.
The cart and the pole are simulated here, by Newton's laws.
"""

import argparse
import math

import torch
from torch import nn
from torch.distributions import Categorical


class CartPole:
    """A pole on a cart that can be pushed left (0) or right (1). State: position, angle, and their speeds."""

    GRAVITY, CART_MASS, POLE_MASS, HALF_LENGTH, FORCE = 9.8, 1.0, 0.1, 0.5, 10.0
    SECONDS_PER_STEP = 0.02
    FURTHEST, STEEPEST = 2.4, math.radians(12)

    def __init__(self, longest: int):
        self.longest = longest

    def reset(self) -> list[float]:
        self.state = (0.1 * torch.rand(4, dtype=torch.float64) - 0.05).tolist()
        self.steps = 0
        return self.state

    def step(self, action: int) -> tuple[list[float], bool]:
        """The next state, and whether the episode is over."""
        position, angle, speed, turning = self.state
        acceleration, turning_acceleration = self.accelerations(self.FORCE if action == 1 else -self.FORCE)
        speed += self.SECONDS_PER_STEP * acceleration
        turning += self.SECONDS_PER_STEP * turning_acceleration
        position += self.SECONDS_PER_STEP * speed
        angle += self.SECONDS_PER_STEP * turning
        self.state = [position, angle, speed, turning]
        self.steps += 1
        fell = abs(position) > self.FURTHEST or abs(angle) > self.STEEPEST
        return self.state, fell or self.steps == self.longest

    def accelerations(self, force: float) -> tuple[float, float]:
        """Of the cart and of the pole's angle, from the balance of forces and of torques."""
        _, angle, _, turning = self.state
        total_mass = self.CART_MASS + self.POLE_MASS
        push = (force + self.POLE_MASS * self.HALF_LENGTH * turning**2 * math.sin(angle)) / total_mass
        inertia = self.HALF_LENGTH * (4 / 3 - self.POLE_MASS * math.cos(angle) ** 2 / total_mass)
        turning_acceleration = (self.GRAVITY * math.sin(angle) - push * math.cos(angle)) / inertia
        lever = self.POLE_MASS * self.HALF_LENGTH / total_mass
        return push - lever * turning_acceleration * math.cos(angle), turning_acceleration


class Policy(nn.Module):
    def __init__(self, hidden: int = 32):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(4, hidden), nn.Tanh(), nn.Linear(hidden, 2))

    def forward(self, state: torch.Tensor) -> Categorical:
        return Categorical(logits=self.layers(state))


def play(environment: CartPole, policy: Policy) -> list[torch.Tensor]:
    """One episode; the logarithm of the probability of each action taken."""
    state, done = environment.reset(), False
    log_probabilities = []
    while not done:
        actions = policy(torch.tensor(state))
        action = actions.sample()
        log_probabilities.append(actions.log_prob(action))
        state, done = environment.step(action.item())
    return log_probabilities


def returns(steps: int, discount: float) -> torch.Tensor:
    """What each step is worth: one for every step still to come, less for those far ahead."""
    worth, total = [], 0.0
    for _ in range(steps):
        total = 1 + discount * total
        worth.append(total)
    return torch.tensor(worth[::-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--episodes", type=int, default=140)
    parser.add_argument("--longest", type=int, default=100, help="steps after which an episode ends")
    parser.add_argument("--discount", type=float, default=0.99)
    parser.add_argument("--lr", type=float, default=0.01)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--compile", action="store_true", help="make a program of the network")
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    # One action that falls out differently changes all that follows; in double precision, rounding decides none.
    torch.set_default_dtype(torch.float64)

    environment, policy = CartPole(args.longest), Policy()
    optimizer = torch.optim.Adam(policy.parameters(), lr=args.lr)
    if args.compile:
        policy.layers = torch.compile(policy.layers)
    lengths, losses = [], []
    for episode in range(1, args.episodes + 1):
        log_probabilities = play(environment, policy)
        worth = returns(len(log_probabilities), args.discount)
        # Actions are judged against the average, so about half of them become less likely.
        advantage = (worth - worth.mean()) / (worth.std() + 1e-8)
        loss = -(torch.stack(log_probabilities) * advantage).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        lengths.append(len(log_probabilities))
        losses.append(loss.item())
        if episode % 20 == 0:
            print(
                f"episode {episode:4d}   loss {sum(losses[-20:]) / 20:9.6f}"
                f"   steps on average {sum(lengths[-20:]) / 20:6.2f}   longest {max(lengths[-20:])}"
            )


if __name__ == "__main__":
    main()
