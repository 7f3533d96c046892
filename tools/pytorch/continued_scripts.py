"""Scripts that train on when they are recorded, as without the recorder: a name, and the script
behind BEGIN.
"""

from script_parts import (
    LAYERS,
    LOOP,
    MODEL,
    OTHERS,
    PASSES,
    SCALED,
    SHARED,
)

NORM = (
    "net = nn.Sequential(nn.Linear(16, 16), nn.BatchNorm1d(16), nn.Dropout(.1), "
    "nn.Linear(16, 16))\n"
)
MOMENTUM = "optimizer = torch.optim.SGD(model.parameters(), lr=.1, momentum=.9)\n"
ZEROS = LOOP.replace("zero_grad()", "zero_grad(set_to_none=False)")
CLIPPED = PASSES.replace("PASSES", "2").replace(
    "optimizer.step()", "nn.utils.clip_grad_norm_(model.parameters(), .1); optimizer.step()"
)
DROPPED = LAYERS.replace("LAYER", "l(x) if torch.rand(()) > .5 else x")
CONTINUED = (
    ("statistics of batches", NORM + "model = DDP(net)\n" + MOMENTUM + LOOP),
    ("views", NORM + "model = DDP(net, gradient_as_bucket_view=True)\n" + MOMENTUM + ZEROS),
    (
        "gradients that stay",
        NORM
        + "model = DDP(net); optimizer = sgd(model)\n"
        + LOOP.replace("optimizer.zero_grad()", "step % 5 or optimizer.zero_grad()"),
    ),
    (
        "passes and clipping",
        NORM + "model = DDP(net)\noptimizer = torch.optim.AdamW(net.parameters())\n" + CLIPPED,
    ),
    (
        "layers that are dropped",
        DROPPED + "model = DDP(Net(), find_unused_parameters=True)\n" + MOMENTUM + LOOP,
    ),
    (
        "passes that drop layers",
        DROPPED
        + "model = DDP(Net(), find_unused_parameters=True)\n"
        + MOMENTUM
        + PASSES.replace("PASSES", "2").replace("zero_grad()", "zero_grad(set_to_none=False)"),
    ),
    (
        "bf16 hook",
        "model = DDP(nn.Linear(16, 16)); "
        "model.register_comm_hook(None, default_hooks.bf16_compress_hook)\n" + MOMENTUM + LOOP,
    ),
    (
        "a scaler",
        MODEL
        + "scaler = torch.amp.GradScaler('cpu', init_scale=2.**127, growth_interval=9)\n"
        + SCALED,
    ),
    ("several dtypes", OTHERS + "model = DDP(Two())\n" + MOMENTUM + LOOP),
    (
        "a block that is computed again three times",
        SHARED
        + "model = DDP(Net(), static_graph=True, gradient_as_bucket_view=True)\n"
        + MOMENTUM
        + LOOP,
    ),
    ("static graph", NORM + "model = DDP(net, static_graph=True)\n" + MOMENTUM + LOOP),
    (
        "two optimizers",
        OTHERS
        + MODEL
        + "a, b = two(model)\n"
        + LOOP.replace("optimizer.step()", "a.step(); b.step()"),
    ),
)

# What DDP has since PyTorch 2.15.
CONTINUED_SINCE_2_15 = tuple(
    (name, NORM + f"model = DDP(net, {options})\n" + MOMENTUM + ZEROS)
    for name, options in (
        ("buckets by and by", "lazy_bucket_allocation=True"),
        ("views of buckets by and by", "lazy_bucket_allocation=True, gradient_as_bucket_view=True"),
        ("copies by bucket", "batched_grad_copy=True"),
        ("both", "lazy_bucket_allocation=True, batched_grad_copy=True"),
    )
)
