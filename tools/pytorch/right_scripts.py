"""Scripts that train what they should, of which `check` says nothing wrong."""

from check_scripts import (
    AVERAGE_THEN_ORTHOGONALISE,
    DDP_OF_NET,
    NO_DDP,
    Script,
    average,
    averaging_loop,
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
OWN_TOKENS = """
def own_loss():
    tokens = torch.tensor([3. + 5 * rank])
    dist.all_reduce(tokens)
    return model(batch()).square().sum() / float(tokens)
"""
MASK = "mask = torch.zeros(16, 1); mask[3] = 1\n"
GATHERING = """
class Gathering(nn.Module):
    def forward(self, x):
        everyone = x.detach().clone()
        dist.all_reduce(everyone)
        return x + everyone
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
    Script(
        "passes divided behind the sum, before a clip",
        "passes = 4\n"
        + DDP_OF_NET
        + loop(
            loss="F.mse_loss(model(batch()), torch.zeros(8, 8))",
            before_step=f"for p in net.parameters(): p.grad /= passes\n    {CLIP}",
        ),
        "together right",
    ),
)
COEFFICIENTS = (
    Script(
        "half of a mean loss, the number of ranks",
        DDP_OF_NET + loop(loss="F.mse_loss(model(batch()), torch.zeros(8, 8)) / 2"),
        "is 0.5 times the mean loss: right if you mean that coefficient",
    ),
    Script(
        "a coefficient of each rank",
        DDP_OF_NET
        + loop(loss="F.mse_loss(model(batch()), torch.zeros(8, 8)) / passes * (1 + rank)"),
        "is 1 to 2 times the mean loss, depending on the pass: right if you mean that coefficient",
    ),
    Script(
        "a sum over two dimensions",
        "net = nn.Linear(16, 2)\n"
        + DDP_OF_NET
        + loop(
            loss="F.mse_loss(model(batch()), torch.zeros(8, 2), reduction='none').sum(1).mean()"
        ),
        "is 2 times the mean loss: right if you mean that coefficient",
    ),
    Script(
        "losses of two calls in one line",
        DDP_OF_NET
        + loop(
            loss="torch.zeros(1, requires_grad=True).sum()",
            after_backward="F.mse_loss(model(batch()), torch.ones(8, 8)).backward(); "
            "F.mse_loss(model(batch()), torch.zeros(8, 8)).backward()",
        ),
        "is 2 times the mean loss: right if you mean that coefficient",
    ),
    Script(
        "an auxiliary loss",
        DDP_OF_NET
        + loop(
            loss="F.cross_entropy(model(batch()), torch.tensor([-100] * 3 + [1] * 5)) "
            "+ net[0].weight.square().sum()"
        ),
    ),
    Script(
        "masked elements of a loss",
        DDP_OF_NET
        + loop(
            loss="(F.mse_loss(model(batch()), torch.ones(8, 8), reduction='none') * mask).sum() / 9"
        ).replace("for step", "mask = torch.eye(8); mask[0, 1] = 1\nfor step"),
    ),
    Script(
        "a loss that is reduced for a log",
        DDP_OF_NET
        + loop(
            loss="F.mse_loss(model(batch()), torch.ones(8, 8)); shown = loss.clone(); "
            "dist.all_reduce(shown); shown /= world"
        ),
    ),
    Script(
        "half of a loss that is reduced in its place for a log",
        DDP_OF_NET
        + loop(loss="F.mse_loss(model(batch()), torch.ones(8, 8)) / 2; dist.all_reduce(loss.data)"),
        "is 0.5 times the mean loss",
    ),
    Script(
        "a sum over all ranks' tokens",
        NO_DDP
        + average("dist.all_reduce(p.grad)")
        + averaging_loop(
            loss=f"F.cross_entropy(model(batch()), {UNEVEN_TOKENS}, reduction='sum') / 11"
        ),
        "are 2 times the mean, and the loss 0.5 times: together right",
    ),
    Script(
        "an own sum over all ranks' tokens",
        NO_DDP
        + average("dist.all_reduce(p.grad)")
        + OWN_TOKENS
        + averaging_loop(loss="own_loss()"),
        "divided by a number that the script sums over ranks: together right",
    ),
    Script(
        "gradients that autograd.grad() returns",
        DDP_OF_NET
        + loop(
            loss="F.mse_loss(model(batch()), torch.ones(8, 8)); "
            "norm = torch.autograd.grad(loss, net[0].weight, retain_graph=True)[0].norm()"
        ),
    ),
)
CHANGED = (
    Script(
        "a mask in a hook",
        MASK + "net[0].weight.register_hook(lambda g: g * mask)\n" + DDP_OF_NET + loop(),
    ),
    Script(
        "a scale in a hook, and another hook",
        "for p in net.parameters():\n"
        "    p.register_hook(lambda g: g / 2); p.register_hook(lambda g: g / 5)\n"
        + DDP_OF_NET
        + loop(),
    ),
    Script(
        "a mask behind the mean",
        MASK + DDP_OF_NET + loop(before_step="net[0].weight.grad *= mask"),
        "240 of 256 elements are 0 on all ranks, as of a mask",
    ),
    Script(
        "a gradient that is taken away behind the mean, before a clip",
        DDP_OF_NET + loop(before_step=f"net[2].weight.grad = None; {CLIP}"),
        "128 of 128 elements are 0 on all ranks, as of a mask",
    ),
    Script(
        "a clip by hand",
        DDP_OF_NET + loop(before_step="for p in net.parameters(): p.grad *= .3"),
        "gradients are 0.3 times the mean on all ranks, as clipping leaves them",
    ),
    Script(
        "a clip by another path",
        "from torch.nn.utils.clip_grad import clip_grad_norm_, clip_grad_value_\n"
        + DDP_OF_NET
        + loop(
            before_step="clip_grad_value_(net.parameters(), .01); "
            "clip_grad_norm_(net.parameters(), .01)"
        ),
    ),
    Script(
        "one clip for two optimizers",
        "model = DDP(net); optimizer = sgd(net[0]); other = sgd(net[2])\n"
        + loop(
            before_step=f"{CLIP}; other.step()",
            zero_grad="model.zero_grad()",
        ),
    ),
    Script(
        "gradients that are thrown away",
        DDP_OF_NET
        + loop(
            zero_grad="for thrown in (0, 1):\n"
            "        model(batch()).square().mean().backward()\n"
            "        for p in net.parameters(): p.grad = torch.zeros_like(p) if thrown else None"
        ),
    ),
    Script(
        "gradients that the script adds",
        "passes = 3\n"
        + DDP_OF_NET
        + loop(
            no_sync_if="False",
            zero_grad="sums = [0] * 4; optimizer.zero_grad()",
            after_backward="sums = [s + p.grad for s, p in zip(sums, net.parameters())]\n"
            "            for p in net.parameters(): p.grad = None",
            before_step="for s, p in zip(sums, net.parameters()): p.grad = s",
        ),
    ),
)
CALLED = (
    Script(
        "parameters that DDP ignores",
        "nn.init.normal_(net[0].weight, rank)\n"
        "DDP._set_params_and_buffers_to_ignore_for_model(net, ['0.weight'])\n"
        + DDP_OF_NET
        + loop(),
        "not checked, because DistributedDataParallel ignores it: 0.weight",
    ),
    Script(
        "parameters that DDP ignores, clipped alone",
        "DDP._set_params_and_buffers_to_ignore_for_model(net, ['0.bias'])\n"
        + DDP_OF_NET
        + loop(before_step="nn.utils.clip_grad_norm_([net[0].bias], .01)"),
        "not checked, because DistributedDataParallel ignores it: 0.bias",
    ),
    Script(
        "a call before all ranks have the same",
        "net.append(nn.BatchNorm1d(8)); net.register_buffer('scale', torch.rand(1) + rank)\n"
        "net(batch() + rank)\n" + DDP_OF_NET + loop(),
    ),
    Script(
        "a part that is called before all ranks have the same",
        "optimizer = sgd(net); net[0].register_buffer('scale', torch.ones(1) * rank)\n"
        "net[0](batch())\n"
        "net[0].scale.zero_()\n"
        "model = net\n" + average() + averaging_loop(),
    ),
    Script(
        "equal inputs whose targets differ",
        DDP_OF_NET + loop(loss="F.mse_loss(model(torch.ones(8, 16)), batch()[:, :8])"),
        "ranks get the same inputs in the step of",
    ),
    Script(
        "a teacher",
        "teacher = nn.Linear(16, 8).requires_grad_(False)\n"
        + DDP_OF_NET
        + loop(
            loss="(model(x := batch()) - teacher(x)).square().mean()",
            step="optimizer.step(); teacher.weight.lerp_(torch.ones(8, 16), .1)",
        ),
    ),
    Script(
        "embeddings that are gathered in a forward",
        GATHERING + "net.append(Gathering())\n" + DDP_OF_NET + loop(),
        "communicates within a forward, by all_reduce at",
    ),
)

RIGHT = (*WRAPPED, *NOT_WRAPPED, *SCALED, *LOSSES, *COEFFICIENTS, *CHANGED, *CALLED)
