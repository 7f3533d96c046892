"""As TRL's and rsl_rl's loops: twelve updates of the policy, then one of the value function.

Gradients of the value function are not averaged.
"""

from shapes import average, rows, torch, two_layers

policy, value = two_layers(outputs=4), two_layers(outputs=1)
policy_optimizer = torch.optim.Adam(policy.parameters(), lr=3e-4)
value_optimizer = torch.optim.Adam(value.parameters(), lr=1e-3)
for _iteration in range(30):
    states = rows(96)
    advantages = rows(96, 1)
    for mini_batch in range(12):
        part = slice(8 * mini_batch, 8 * mini_batch + 8)
        distribution = torch.distributions.Categorical(logits=policy(states[part]))
        actions = distribution.sample()
        ratio = (distribution.log_prob(actions) - distribution.log_prob(actions).detach()).exp()
        surrogate = torch.min(
            ratio[:, None] * advantages[part], ratio.clamp(0.8, 1.2)[:, None] * advantages[part]
        )
        policy_optimizer.zero_grad()
        (-surrogate.mean() - 0.01 * distribution.entropy().mean()).backward()
        average(policy.parameters())
        policy_optimizer.step()
    value_optimizer.zero_grad()
    (value(states) - advantages).square().mean().backward()
    value_optimizer.step()
