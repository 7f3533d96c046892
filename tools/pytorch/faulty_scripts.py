"""Scripts that train something else than they should, which `check` names."""

from check_scripts import (
    DDP_OF_NET,
    NO_DDP,
    ORTHOGONALISE,
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

CLIP = "nn.utils.clip_grad_norm_(model.parameters(), .01)"
THIRD_OF_LOSS = "F.mse_loss(model(batch()), torch.zeros(8, 8)) / 3 / passes"

# Gloo summed when it was asked to average: pytorch issue 162338.
SUMMING_GLOO = """
def summed(own):
    return lambda *args, op, **more: own(*args, op=dist.ReduceOp.SUM, **more)

for name in {'reduce_scatter_tensor', 'reduce_scatter_single'} & set(dir(dist)):
    setattr(dist, name, summed(getattr(dist, name)))
"""
SUMMING_HOOKS = """
def summed(g):
    g = g.clone()
    dist.all_reduce(g)
    return g

for p in net.parameters():
    p.register_hook(summed)
"""
UNREDUCED_REPLICAS = """
import types
from torch.distributed.fsdp._fully_shard import _fsdp_collectives as own
own.dist = types.SimpleNamespace(**vars(dist) | {'all_reduce': lambda *args, **more: None})
"""
CLIP_BY_HAND = """
    norm = torch.stack([p.grad.norm() for p in net.parameters()]).norm()
    for p in net.parameters():
        p.grad *= (.1 / norm).clamp(max=1)
    average()
"""
# As DeepSpeed's issue 8443.
MUON_BY_PASS = (
    "passes = 4; net = nn.Linear(16, 16, bias=False); model = net; optimizer = sgd(model)\n"
    + plain_loop(
        zero_grad="total = 0; optimizer.zero_grad()",
        after_backward="g = net.weight.grad; dist.all_reduce(g); "
        "total = total + orthogonal(g / world); g.zero_()",
        before_step="net.weight.grad = total",
    )
)
DEEP_NET = """
net = nn.Sequential(*[nn.Linear(16, 16) for _ in range(50)])
net[24].bias.register_hook(lambda g: g)
"""

OBJECTS = """
class Objects(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = net

    def forward(self, batches):
        return self.net(next(batches))
"""

AVERAGING = (
    Script(
        "sum for mean",
        NO_DDP + average("dist.all_reduce(p.grad)") + averaging_loop(),
        "2 times the mean: summed and not averaged: the number of ranks, 2",
    ),
    Script(
        "hooks that sum",
        SUMMING_HOOKS + NO_DDP + plain_loop(),
        "2 times the mean: summed and not averaged: the number of ranks, 2",
    ),
    Script(
        "gloo sums for AVG",
        SUMMING_GLOO + sharded() + NO_DDP + plain_loop(),
        "gradient of 0.weight .* 2 times the mean: summed and not averaged",
    ),
    Script(
        "replicas that are not averaged",
        UNREDUCED_REPLICAS + sharded(mesh=mesh((2, 1))) + NO_DDP + plain_loop(),
        "gradient of 0.weight .* that SGD",
    ),
    Script(
        "gradients that are not unscaled",
        DDP_OF_NET
        + "scaler = torch.amp.GradScaler('cpu', init_scale=1000.)\n"
        + loop(loss="scaler.scale(model(batch()).square().mean())"),
        "1000 times the mean: no known mistake",
    ),
    Script(
        "gradients of rank 1",
        DDP_OF_NET + loop(before_step="net[0].bias.grad *= 3 if rank else 1"),
        r"gradient of 0.bias \(and 0 of 3 others\) that SGD at .* gets is 3 times the mean: "
        "no known mistake",
    ),
    Script(
        "sum and passes",
        "passes = 3\n"
        + NO_DDP
        + average("dist.all_reduce(p.grad); p.grad *= 3")
        + averaging_loop(),
        "6 times the mean: ranks times passes, 6",
    ),
    Script(
        "averaged twice",
        DDP_OF_NET + average("p.grad /= world") + averaging_loop(),
        "0.5 times the mean: averaged twice",
    ),
    Script(
        "one of 100 is off by 1 %",
        DEEP_NET + DDP_OF_NET + loop(before_step="net[24].bias.grad *= 1.01"),
        r"gradient of 24.bias \(and 0 of 99 others\) that SGD at .* gets is 1.01 times the mean: "
        "no known mistake",
    ),
    Script("gradients that stay", DDP_OF_NET + loop(zero_grad="pass"), "off by"),
    Script(
        "a loss of a mean times ranks, as in Automodel 3830",
        "passes = 4\n"
        + DDP_OF_NET
        + loop(loss="F.mse_loss(model(batch()), torch.zeros(8, 8)) * world"),
        "is 8 times the mean loss: ranks times passes, 8",
    ),
)
REDUCED_LOSSES = (
    Script(
        "a loss that is averaged before backward",
        DDP_OF_NET
        + loop(
            loss="F.mse_loss(model(batch()), torch.ones(8, 8)).clone(); "
            "dist.all_reduce(loss); loss = loss / world"
        ),
        "is 0.5 times the mean loss: averaged twice: the number of ranks, 2",
    ),
    Script(
        "an own loss that is averaged in its place before backward",
        DDP_OF_NET
        + loop(loss="model(batch()).square().mean(); dist.all_reduce(loss); loss /= world"),
        "is 0.5 times the mean loss: averaged twice: the number of ranks, 2",
    ),
    Script(
        "a loss divided by all ranks' tokens, whose gradients are averaged",
        DDP_OF_NET
        + "tokens = torch.tensor(8.); dist.all_reduce(tokens)\n"
        + loop(
            loss="dist.all_reduce(tokens.fill_(8)); loss = F.cross_entropy(model(batch()), "
            "torch.ones(8, dtype=int), reduction='sum') / tokens"
        ),
        "is 0.5 times the mean loss: averaged twice: the number of ranks, 2",
    ),
    Script(
        "a sum of gradients of a loss divided by own tokens",
        NO_DDP
        + average("dist.all_reduce(p.grad)")
        + averaging_loop(
            loss="dist.all_reduce(torch.tensor(4. + rank)); "
            "loss = model(batch()).square().sum() / (4 + rank)"
        ).replace("loss = dist", "dist"),
        "2 times the mean: summed and not averaged: the number of ranks, 2",
    ),
    Script(
        "passes that are not divided",
        "passes = 3\n" + DDP_OF_NET + loop(loss="F.mse_loss(model(batch()), torch.zeros(8, 8))"),
        "is 3 times the mean loss: not divided by the number of passes, 3",
    ),
)
HOOKS = (
    Script(
        "a mask in a hook of one rank",
        "if rank: net[0].weight.register_hook(lambda g: g * torch.eye(16))\n" + DDP_OF_NET + loop(),
        "gradient of 0.weight \\(and 0 of 3 others\\) .* off by",
    ),
    Script(
        "other masks in hooks",
        "net[0].weight.register_hook(lambda g: g * torch.eye(16).roll(rank, 0))\n"
        + DDP_OF_NET
        + loop(),
        "gradient of 0.weight \\(and 0 of 3 others\\) .* off by",
    ),
    Script(
        "hooks that clip each rank's own",
        "net[0].weight.register_hook(lambda g: g.clamp(-1e-3, 1e-3))\n" + DDP_OF_NET + loop(),
        "gradient of 0.weight \\(and 0 of 3 others\\) .* off by",
    ),
    Script(
        "a mask behind the mean that differs",
        DDP_OF_NET + loop(before_step="net[0].weight.grad *= torch.eye(16).roll(rank, 0)"),
        "gradient of 0.weight \\(and 0 of 3 others\\) .* off by",
    ),
    Script(
        "noise behind a mean of 0",
        "nn.init.zeros_(net[2].weight)\n"
        + DDP_OF_NET
        + loop(before_step="net[0].weight.grad += 1e-3"),
        "gradient of 0.weight \\(and 0 of 3 others\\) .* is not 0, although the mean is 0$",
    ),
    Script(
        "a third of a loss, and gradients with other factors",
        DDP_OF_NET
        + loop(
            loss=THIRD_OF_LOSS,
            before_step="for i, p in enumerate(net.parameters()): p.grad *= 3 + i % 2",
        ),
        "gradient of 0.weight \\(and 3 of 3 others\\) .* 3 times the mean: no known mistake",
    ),
    Script(
        "a third of a loss, and a factor of each rank",
        DDP_OF_NET
        + loop(loss=THIRD_OF_LOSS, before_step="for p in net.parameters(): p.grad *= 3 + rank"),
        "gradient of 0.weight \\(and 3 of 3 others\\) .* 3 times the mean: no known mistake",
    ),
    Script(
        "gradients that are lost behind the mean",
        DDP_OF_NET + loop(before_step="for p in net.parameters(): p.grad.zero_()"),
        "gradient of 0.weight \\(and 3 of 3 others\\) .* 0 times the mean",
    ),
    Script(
        "a scale of a part behind the mean",
        DDP_OF_NET + loop(before_step="net[0].weight.grad *= .3"),
        "0.3 times the mean: no known mistake",
    ),
    Script(
        "a scale behind the mean that differs",
        DDP_OF_NET + loop(before_step="for p in net.parameters(): p.grad *= .3 + .1 * rank"),
        "0.3 times the mean: no known mistake",
    ),
    Script(
        "a sum after gradients were thrown away",
        NO_DDP
        + average("dist.all_reduce(p.grad)")
        + averaging_loop(
            zero_grad="model(batch()).square().mean().backward()\n"
            "    for p in net.parameters(): p.grad = None"
        ),
        "2 times the mean: summed and not averaged",
    ),
)
CLIPPING = (
    Script(
        "clip before reduce",
        NO_DDP + average() + averaging_loop(before_step=f"{CLIP}; average()"),
        "each rank's own, which nothing has averaged: it is clipped before the sum",
    ),
    Script(
        "clip before reduce, by hand",
        NO_DDP + average() + averaging_loop(before_step=CLIP_BY_HAND),
        r"0.weight .*off by 0.\d+ of its norm: ranks' are scaled before the sum, "
        r"by 0.\d+ to 0.\d+, as if",
    ),
    Script(
        "a clip, after which gradients are scaled by hand",
        DDP_OF_NET + loop(before_step=f"{CLIP}\n    for p in net.parameters(): p.grad *= rank + 1"),
        r"is 0.0\d+ times the mean: no known mistake",
    ),
)
SYNCHRONISATION = (
    Script(
        "no_sync in the last pass",
        "passes = 2\n" + DDP_OF_NET + loop(no_sync_if="i == passes - 1"),
        "the last pass is within no_sync",
    ),
    Script(
        "no_sync in every pass",
        "passes = 2\n" + DDP_OF_NET + loop(no_sync_if="True"),
        "each rank's own, which nothing has averaged: the last pass",
    ),
    Script(
        "model.module(x)",
        DDP_OF_NET + loop(loss="model.module(batch()).square().mean() / passes"),
        "called past DistributedDataParallel",
    ),
    Script(
        "a parameter made after wrapping",
        "model = DDP(net); net.extra = nn.Parameter(torch.ones(8)); optimizer = sgd(model)\n"
        + loop(loss="(model(batch()) * net.extra).square().mean() / passes"),
        "gradient of extra \\(and 0 of 4 others\\) .* made after the model was wrapped",
    ),
    Script(
        "a parameter that is trained after wrapping",
        "net[0].weight.requires_grad_(False); model = DDP(net)\n"
        "net[0].weight.requires_grad_(True); optimizer = sgd(model)\n" + loop(),
        "gradient of 0.weight \\(and 0 of 3 others\\) .* nothing has averaged: it needed no "
        "gradient when the model was wrapped in DistributedDataParallel$",
    ),
    Script(
        "a parameter that DDP ignores, clipped with the others",
        "DDP._set_params_and_buffers_to_ignore_for_model(net, ['0.bias'])\n"
        + DDP_OF_NET
        + loop(before_step=CLIP),
        "gradient of 0.bias \\(and 0 of 3 others\\) that clip_grad_norm_ at .* is each rank's own, "
        "which nothing has averaged: DistributedDataParallel ignores it, "
        "so ranks clip by different norms$",
    ),
)
RANKS_THAT_DIFFER = (
    Script(
        "a buffer that is not synchronised",
        "net.insert(1, nn.BatchNorm1d(16))\n"
        "model = DDP(net, broadcast_buffers=False); optimizer = sgd(model)\n" + loop(),
        "buffers of SGD at .*: 1.running_(mean|var) differs between ranks 0 and 1",
    ),
    Script(
        "first weights that differ",
        "torch.manual_seed(rank); nn.init.normal_(net[2].weight)\n"
        + NO_DDP
        + average()
        + averaging_loop(),
        "weights of SGD at .*: 2.weight differs between ranks 0 and 1$",
    ),
    Script(
        "weights that drift apart",
        DDP_OF_NET + loop(step="optimizer.step(); net[0].bias.data += rank"),
        "weights of SGD at .*: 0.bias differs between ranks 0 and 1$",
    ),
    Script(
        "the same data on all ranks",
        "draw.manual_seed(1)\n" + DDP_OF_NET + loop(),
        "ranks get the same batches in the step of SGD",
    ),
    Script(
        "the same data, in objects",
        OBJECTS
        + "draw.manual_seed(1)\n"
        + DDP_OF_NET.replace("(net)", "(Objects())", 1)
        + loop(loss="model([batch()].__iter__()).square().mean()"),
        "ranks get the same batches in the step of SGD",
    ),
    Script(
        "the same data, behind dropout",
        "draw.manual_seed(1); net.insert(0, nn.Dropout(.5)); torch.manual_seed(rank)\n"
        + DDP_OF_NET
        + loop(loss="F.mse_loss(model(batch()), torch.ones(8, 8))"),
        "ranks get the same batches in the step of SGD",
    ),
    Script(
        "frozen weights that differ",
        "net.requires_grad_(False); head = nn.Linear(8, 4); nn.init.normal_(net[0].weight, rank)\n"
        "model = nn.Sequential(net, head); optimizer = sgd(head)\n"
        "def average():\n"
        "    for p in head.parameters(): dist.all_reduce(p.grad); p.grad /= world\n"
        + averaging_loop(),
        "weights of SGD at .*: 0.0.weight differs between ranks 0 and 1$",
    ),
    Script(
        "a teacher that drifts",
        "teacher = nn.Linear(16, 8)\n"
        + DDP_OF_NET
        + loop(
            loss="(model(x := batch()) - teach(x)).square().mean()",
            step="optimizer.step(); teacher.bias.data += rank",
        ).replace("for step", "@torch.no_grad()\ndef teach(x): return teacher(x)\n\nfor step"),
        "weights of SGD at .*: bias of Linear called at .* differs between ranks 0 and 1$",
    ),
    Script(
        "settings that differ",
        "model = DDP(net); optimizer = torch.optim.SGD(net.parameters(), lr=.1 + rank)\n" + loop(),
        "settings of SGD at .*: lr of group 0 differs between ranks 0 and 1: 0.1 and 1.1$",
    ),
    Script(
        "other parameters",
        NO_DDP + "if rank: optimizer = sgd(net[:1])\n" + plain_loop(),
        "parameters of SGD at .*: what trains differs between ranks 0 and 1$",
    ),
)
DEEPSPEED = (
    Script(
        "a sum under DeepSpeed",
        deepspeed(factor="world"),
        "gradient of weight .* that Engine at .* 2 times the mean: summed",
    ),
    Script(
        "each rank's own under DeepSpeed",
        deepspeed(reduce="pass"),
        "gradient of 0.weight .* that Engine at .* each rank's own",
    ),
    Script(
        "settings under DeepSpeed",
        deepspeed(lr=".1 + rank"),
        "settings of Engine at .*: lr of group 0 differs between",
    ),
    Script(
        "Muon per micro-batch",
        MUON_BY_PASS,
        "the sum of each pass's orthogonal factor, as if Muon's products ran per pass",
    ),
)
AVERAGING_OPTIMIZERS = (
    Script(
        "Muon of each rank's own",
        muon(ORTHOGONALISE) + plain_loop(),
        "0.weight is off by 0.\\d+ of its norm after Muon has averaged and stepped$",
    ),
    Script(
        "Muon of each rank's own, then averaged",
        muon(f"{ORTHOGONALISE}; dist.all_reduce(g); g /= dist.get_world_size()") + plain_loop(),
        "off by .* after Muon has averaged",
    ),
    Script(
        "a sum inside of the optimizer",
        muon("dist.all_reduce(g)") + plain_loop(),
        "off by .* after Muon has averaged",
    ),
    Script(
        "weights of rank 1 alone",
        muon("dist.all_reduce(g); g *= (1 + dist.get_rank()) / dist.get_world_size()")
        + plain_loop(),
        "off by .* after Muon has averaged",
    ),
)

FAULTS = (
    *AVERAGING,
    *REDUCED_LOSSES,
    *HOOKS,
    *CLIPPING,
    *SYNCHRONISATION,
    *RANKS_THAT_DIFFER,
    *DEEPSPEED,
    *AVERAGING_OPTIMIZERS,
)
