"""Scripts that train what they should, of which `check` says nothing wrong."""

from check_scripts import (
    AVERAGE_THEN_ORTHOGONALISE,
    DDP_OF_NET,
    NO_DDP,
    Script,
    deepspeed,
    loop,
    mesh,
    muon,
    plain_loop,
    sharded,
)

UNEVEN_TOKENS = "torch.tensor([-100] * 5 * rank + [1] * 3 + [2] * (5 - 5 * rank))"
CLIP = "nn.utils.clip_grad_norm_(model.parameters(), .01)"
SCALED_STEP = "scaler.step(optimizer); scaler.update()"


def scaler(scale: str) -> str:
    return f"scaler = torch.amp.GradScaler('cpu', init_scale={scale})\n"


GAN = """
G = DDP(net); D = DDP(nn.Linear(8, 1)); g, d = sgd(G), sgd(D)
for step in range(3):
    fake = G(batch())
    d.zero_grad()
    scaler.scale(D(fake.detach()).square().mean()).backward()
    scaler.step(d); scaler.update()
    g.zero_grad()
    D(fake).mean().backward()
    g.step()
"""
CLOSURE = """
def closure():
    optimizer.zero_grad()
    loss = model(batch()).square().mean()
    loss.backward()
    return loss

for step in range(3):
    optimizer.step(closure)
"""
AVERAGING_HOOKS = """
def mean(g):
    g = g.clone()
    dist.all_reduce(g)
    return g / world

for p in net.parameters():
    p.register_hook(mean)
"""
HALF_LOSS = """
def half_loss():
    with torch.autocast('cpu', dtype=torch.bfloat16):
        return model(batch()).square().mean()
"""
SKIPPED_STEP = f"{SCALED_STEP}; assert step or scaler.get_scale() < 2.**127"

WRAPPED = (
    Script(
        "BatchNorm and dropout",
        "net.insert(1, nn.BatchNorm1d(16)); net.append(nn.Dropout(.5))\n" + DDP_OF_NET + loop(),
    ),
    Script("accumulation with no_sync", "passes = 4\n" + DDP_OF_NET + loop()),
    Script("clipping", DDP_OF_NET + loop(before_step=CLIP)),
    Script(
        "clipping by parts",
        DDP_OF_NET
        + loop(
            before_step="for m in (net[0], net[2]): nn.utils.clip_grad_norm_(m.parameters(), .01)"
        ),
    ),
    Script("a closure", DDP_OF_NET + CLOSURE),
    Script(
        "ZeroRedundancyOptimizer",
        "model = DDP(net)\n"
        "optimizer = ZeroRedundancyOptimizer(net.parameters(), torch.optim.Adam, lr=.01)\n"
        + loop(),
    ),
    Script(
        "bf16 hook",
        DDP_OF_NET + "model.register_comm_hook(None, default_hooks.bf16_compress_hook)\n" + loop(),
        "gradients are rounded to torch.bfloat16 on their way",
    ),
)
NOT_WRAPPED = (
    Script("DeepSpeed", deepspeed()),
    Script(
        "a hybrid mesh of (1, 2)",
        sharded(mesh=mesh((1, 2))) + "passes = 2\n" + NO_DDP + plain_loop(),
    ),
    Script(
        "a hybrid mesh of (2, 1)",
        sharded(mesh=mesh((2, 1))) + "passes = 2\n" + NO_DDP + plain_loop(),
    ),
    Script("hooks that average", AVERAGING_HOOKS + NO_DDP + plain_loop()),
    Script(
        "a scheduler",
        muon("dist.all_reduce(g); g /= dist.get_world_size()")
        + "torch.optim.lr_scheduler.StepLR(optimizer, 9)\n"
        + plain_loop(),
        "Muon averages by itself",
    ),
    Script(
        "Muon that averages",
        muon(AVERAGE_THEN_ORTHOGONALISE) + plain_loop(),
        "Muon averages by itself",
    ),
    Script(
        "Muon that averages, and a matrix that is not used",
        "net.more = nn.Parameter(torch.eye(4))\n" + muon(AVERAGE_THEN_ORTHOGONALISE) + plain_loop(),
        "Muon averages by itself",
    ),
)
SCALED = (
    Script(
        "a scale that is the number of ranks",
        DDP_OF_NET
        + scaler("2.")
        + loop(
            loss="scaler.scale(F.mse_loss(model(batch()), torch.zeros(8, 8)))", step=SCALED_STEP
        ),
    ),
    Script(
        "GradScaler",
        DDP_OF_NET
        + scaler("1000.")
        + HALF_LOSS
        + loop(
            loss="scaler.scale(half_loss())",
            before_step=f"scaler.unscale_(optimizer); {CLIP}",
            step=SCALED_STEP,
        ),
    ),
    Script(
        "a scaler that skips",
        DDP_OF_NET
        + scaler("2.**127")
        + loop(
            loss="scaler.scale(F.mse_loss(model(batch() * 100), torch.zeros(8, 8)))",
            step=SKIPPED_STEP,
            steps="40",
        ),
    ),
    Script(
        "a discriminator that its generator uses, and whose loss is scaled", scaler("1000.") + GAN
    ),
)
LOSSES = (
    Script(
        "a loss for all tokens",
        DDP_OF_NET
        + loop(
            loss=f"F.cross_entropy(model(batch()), {UNEVEN_TOKENS}, reduction='sum') / 11 * world"
        ),
    ),
    Script(
        "counts of tokens",
        DDP_OF_NET + loop(loss=f"F.cross_entropy(model(batch()), {UNEVEN_TOKENS})"),
        "passes have 3 to 8 tokens, and the loss is -0.41% off the mean over all of them",
    ),
    Script(
        "passes divided behind the sum",
        "passes = 4\n"
        + DDP_OF_NET
        + loop(
            loss="F.mse_loss(model(batch()), torch.zeros(8, 8))",
            before_step="for p in net.parameters(): p.grad /= passes",
        ),
        "together right",
    ),
)

RIGHT = (*WRAPPED, *NOT_WRAPPED, *SCALED, *LOSSES)
