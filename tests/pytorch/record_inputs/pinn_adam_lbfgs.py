"""A network for a differential equation: derivatives by autograd.grad within the loss; LBFGS by a closure after Adam."""

import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(1, 20), nn.Tanh(), nn.Linear(20, 20), nn.Tanh(), nn.Linear(20, 1))
x = torch.linspace(0, 1, 40).unsqueeze(1)


def residual():
    points = x.clone().requires_grad_(True)
    u = net(points)
    (du,) = torch.autograd.grad(u, points, torch.ones_like(u), create_graph=True)
    (ddu,) = torch.autograd.grad(du, points, torch.ones_like(du), create_graph=True)
    boundary = net(torch.tensor([[0.0], [1.0]]))
    return (ddu + torch.sin(points)).square().mean() + boundary.square().mean()


adam = torch.optim.Adam(net.parameters(), lr=1e-3)
for step in range(500):
    adam.zero_grad()
    loss = residual()
    loss.backward()
    adam.step()

lbfgs = torch.optim.LBFGS(net.parameters(), max_iter=20, line_search_fn="strong_wolfe")


def closure():
    lbfgs.zero_grad()
    loss = residual()
    loss.backward()
    return loss


for step in range(20):
    lbfgs.step(closure)
