"""Scripts that record refuses, of two ranks. Each has a name, the script behind BEGIN with #! in
the line that is named, and what is said.
"""

from script_parts import (
    GAN,
    LOOP,
    MODEL,
    NET,
    PASSES,
)

TWICE = "gradients come again after those of this step were synchronised"
HERE = LOOP.replace("step()", "step() #!")
BACK = LOOP.replace("backward()", "backward() #!")
BY_HAND = LOOP.replace("optimizer.step", "model.finalize_backward(); optimizer.step")

REFUSED = (
    ("join", MODEL + "with model.join():" + BACK.replace("\n", "\n    "), "within join()"),
    (
        "module called",
        MODEL + BACK.replace("model(x)", "model.module(x)"),
        "call what DistributedDataParallel returned",
    ),
    (
        "module called in eval mode",
        MODEL
        + "model.eval()\n"
        + LOOP.replace("int(sys.argv[1])", "3")
        + BACK.replace("model(x)", "model.module(x)"),
        "call what DistributedDataParallel returned",
    ),
    (
        "sparse",
        "model = DDP(nn.EmbeddingBag(99, 4, sparse=True)); optimizer = sgd(model); "
        "x = torch.arange(8).view(2, 4)\n" + BACK,
        "weight gets a sparse gradient",
    ),
    ("spawned", "mp.spawn(sgd) #!", "starts processes"),
    ("forked", "mp.start_processes(sgd, start_method='fork') #!", "starts processes"),
    (
        "trains in a child",
        "if os.fork() == 0:\n    DDP(nn.Linear(1, 1)) #!\n"
        "sys.exit(os.waitstatus_to_exitcode(os.wait()[1]))",
        "trains in a process that the script started",
    ),
    ("no optimizer", MODEL + BACK.replace("optimizer.step()", "pass"), TWICE),
    (
        "an object with step() and passes",
        MODEL
        + "mine = Mine(model)\n"
        + PASSES.replace("PASSES", "2")
        .replace("optimizer.step()", "mine.step()")
        .replace("backward()", "backward() #!"),
        "several passes and no optimizer of torch.optim",
    ),
    (
        "gradients that the script averages",
        NET
        + HERE.replace(
            "    opt", "    for p in model.parameters(): dist.all_reduce(p.grad)\n    opt"
        ).replace("    for p in model.parameters(): dist.all_reduce(p.grad)\n", "", 1),
        "trains without DistributedDataParallel",
    ),
    (
        "every pass synchronises",
        MODEL
        + LOOP.replace(
            "    optimizer.step()", "    model(x).mean().backward() #!\n    optimizer.step()"
        ),
        TWICE,
    ),
    (
        "no_sync around backward alone",
        MODEL
        + LOOP.replace(
            "model(x).square().mean().backward()",
            "loss = model(x).mean()\n    with model.no_sync(): loss.backward()\n"
            "    model(x).mean().backward() #!",
        ),
        "use no_sync around forward and backward of all passes but the last",
    ),
    (
        "a script that catches all",
        MODEL
        + "for step in range(int(sys.argv[1])):\n    try:\n        model(x).mean().backward()\n"
        "        model(x).mean().backward() #!\n        optimizer.step()\n    except: pass\n",
        TWICE,
    ),
    (
        "two losses",
        MODEL
        + LOOP.replace(
            "model(x).square().mean().backward()",
            "y = model(x); y.mean().backward(retain_graph=True)\n"
            "    y.square().mean().backward() #!",
        ),
        TWICE,
    ),
    (
        "ZeRO",
        MODEL
        + "optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.SGD, lr=1)"
        + HERE,
        "use the optimizer that",
    ),
    (
        "a hook",
        "model = DDP(nn.Linear(16, 16)) #!\n"
        "model.register_comm_hook(None, default_hooks.fp16_compress_hook)\n"
        "optimizer = sgd(model)\n" + LOOP,
        "with fp16_compress_hook: leave it out",
    ),
    (
        "groups",
        "model = DDP(nn.Linear(16, 16), process_group=[dist.new_group([r]) for r in (0, "
        "1)][dist.get_rank()]) #!\n"
        "optimizer = sgd(model)\n" + LOOP,
        "of a part of the ranks",
    ),
    (
        "within another",
        "model = DDP(nn.Sequential(DDP(nn.Linear(16, 16)))) #!\noptimizer = sgd(model)\n" + LOOP,
        "within another",
    ),
    ("no DDP", NET + "optimizer.step()\n" + HERE, "without DistributedDataParallel"),
    (
        "never synchronised",
        MODEL + "with model.no_sync():" + HERE.replace("\n", "\n    "),
        "that no backward synchronised",
    ),
    (
        "other passes on each rank",
        MODEL
        + PASSES.replace("PASSES", "2 + dist.get_rank()", 1)
        .replace("pass\n", "pass #!\n")
        .replace("backward()", "backward() #!"),
        "ranks took different numbers of passes",
    ),
    (
        "more passes later",
        MODEL
        + PASSES.replace("PASSES", "1 if step < 9 else 3", 1).replace("step();", "step(); #!\n   "),
        "steps had 1 passes, which are recorded, and have 3 now",
    ),
    (
        "a discriminator that synchronises twice",
        GAN.replace(
            "D_STEP; d", "D(x).mean().backward()\n    D(fake.detach()).mean().backward() #!\n    d"
        ).replace("FROZEN", "True"),
        TWICE,
    ),
)

# What DDP has since PyTorch 2.15.
REFUSED_SINCE_2_15 = (
    (
        "sizes of buckets",
        "model = DDP(nn.Linear(16, 16), bucket_cap_mb_list=[1, 2]) #!\noptimizer = sgd(model)\n"
        + LOOP,
        "with bucket_cap_mb_list: use bucket_cap_mb",
    ),
    (
        "finalised by hand",
        "model = DDP(nn.Linear(16, 16)) #!\nmodel.require_manual_backward_finalization = True\n"
        "optimizer = sgd(model)\n" + BY_HAND,
        "with require_manual_backward_finalization: leave it out",
    ),
    (
        "finalised by hand from some step on",
        "model = DDP(nn.Linear(16, 16)) #!\noptimizer = sgd(model)\n"
        + LOOP.replace("int(sys.argv[1])", "5")
        + "model.require_manual_backward_finalization = True\n"
        + BY_HAND,
        "with require_manual_backward_finalization: leave it out",
    ),
)
