"""Scripts that record records, of two ranks. Each has a name, the script behind BEGIN, and what
its launch holds.
"""

from script_parts import (
    CLOSURE,
    GAN,
    LAYERS,
    LINEAR,
    LOOP,
    MODEL,
    OTHERS,
    PASSES,
    SAM,
    SCALED,
    SHARED,
)

RECORDED = (
    ("closure", MODEL + CLOSURE.replace("CLOSURE", "closure"), {"passes": 1, "optimizer": "SGD"}),
    ("closure by name", MODEL + CLOSURE.replace("CLOSURE", "closure=closure"), {"passes": 1}),
    ("closure of a loss alone", MODEL + LOOP.replace("step()", "step(lambda: 1)"), {"passes": 1}),
    (
        "LBFGS",
        MODEL
        + "optimizer = torch.optim.LBFGS(model.parameters(), max_iter=3)"
        + CLOSURE.replace("CLOSURE", "closure"),
        {"optimizer": "LBFGS"},
    ),
    (
        "a closure is the last of two passes",
        MODEL
        + "def closure():\n    loss = model(x).square().mean(); loss.backward(); return loss\n"
        "for step in range(int(sys.argv[1])):\n    optimizer.zero_grad()\n"
        "    with model.no_sync(): model(x).square().mean().backward()\n"
        "    optimizer.step(closure)\n",
        {"passes": 2},
    ),
    (
        "SAM by a closure",
        SAM.replace("STEP", "closure(); optimizer.step(closure); optimizer.zero_grad()"),
        {"optimizer": "SAM"},
    ),
    (
        "SAM without synchronising twice",
        SAM.replace(
            "STEP",
            "\n    with model.no_sync(): closure()\n    optimizer.move(.1); "
            "closure(); optimizer.step(); optimizer.zero_grad()",
        ),
        {"passes": 2},
    ),
    ("two views", MODEL + LOOP.replace("model(x)", "(model(x) - model(x + 1))"), {"passes": 1}),
    (
        "a forward for nothing",
        MODEL + "model(x)\n" + LOOP.replace("    opt", "    model(x)\n    opt", 1),
        {"passes": 1},
    ),
    (
        "a forward that fails and is repeated",
        MODEL
        + LOOP.replace(
            "    model", "    try: model(x[:, 1:])\n    except RuntimeError: pass\n    model"
        ),
        {"passes": 1},
    ),
    ("eval mode", MODEL + "model.eval()\n" + LOOP, {"passes": 1}),
    (
        "evaluation with gradients",
        MODEL + LOOP.replace("    opt", "    model.eval(); model(x); model.train()\n    opt", 1),
        {},
    ),
    (
        "a discriminator before its generator",
        GAN.replace("D_STEP", "(D(x) + D(fake.detach())).mean().backward()").replace(
            "FROZEN", "False"
        ),
        {"parameters": [("weight", 16), ("bias", 1)], "passes": 1},
    ),
    (
        "a teacher that is wrapped first",
        "teacher = DDP(nn.Linear(16, 8))\n"
        + MODEL
        + LOOP.replace("model(x)", "(model(x)[:, :8] - teacher(x).detach())"),
        {"parameters": [("weight", 256), ("bias", 16)]},
    ),
    (
        "two models of one optimizer",
        "a = DDP(nn.Linear(16, 8)); b = DDP(nn.Linear(8, 4)); optimizer = torch.optim.SGD("
        "[*a.parameters(), *b.parameters()], lr=.1); model = lambda x: b(a(x))\n"
        + LOOP.replace(
            "    optimizer.step()",
            "    mean = "
            "b.module.weight.grad.clone(); dist.broadcast(mean, 0); "
            "assert torch.equal(mean, b.module.weight.grad)\n    optimizer.step()\n"
            "    if step == 9: from gradsync.events import listeners; assert len(listeners) == 1",
        ),
        {"parameters": [("weight", 128), ("bias", 8)]},
    ),
    (
        "the last update of an epoch has fewer passes",
        MODEL + PASSES.replace("PASSES", "4 if step % 3 < 2 else 2", 1),
        {"passes": 4},
    ),
    (
        "small updates are more frequent",
        MODEL + PASSES.replace("PASSES", "8 if step % 3 == 0 else 1", 1),
        {"passes": 8},
    ),
    (
        "layers are dropped on some ranks",
        LAYERS.replace("LAYER", "l(x) if torch.rand(()) > .5 else x")
        + "model = DDP(Net(), find_unused_parameters=True); optimizer = sgd(model)\n"
        + LOOP,
        {"passes": 1},
    ),
    (
        "activations are computed again",
        LAYERS.replace("LAYER", "torch.utils.checkpoint.checkpoint(l, x, use_reentrant=True)")
        + "model = DDP(Net()); optimizer = sgd(model)\n"
        + LOOP,
        {"passes": 1},
    ),
    (
        "a block that is computed again three times",
        SHARED + "model = DDP(Net(), static_graph=True); optimizer = sgd(model)\n" + LOOP,
        {"passes": 1, "parameters": LINEAR},
    ),
    (
        "a compiled optimizer",
        MODEL
        + "update = torch.compile(optimizer.step, backend='eager')\n"
        + LOOP.replace("optimizer.step()", "update()"),
        {},
    ),
    (
        "a compiled function that calls backward",
        MODEL
        + "@torch.compile(backend='eager')\ndef loss(x): model(x).square().mean().backward()\n"
        + LOOP.replace("model(x).square().mean().backward()", "loss(x)"),
        {},
    ),
    (
        "saved and copied",
        MODEL
        + LOOP
        + "    saved = pickle.dumps(model); copy.deepcopy(model)(x).mean().backward()\n"
        "    assert type(pickle.loads(saved)) is DDP and b'gradsync' not in saved\n",
        {},
    ),
    (
        "wrapped again",
        "net = nn.Sequential(nn.Linear(16, 4), nn.Linear(4, 16)); net[0].requires_grad_(False); "
        "model = DDP(net)\n"
        "optimizer = sgd(net)\n"
        + LOOP.replace(
            "    opt", "    if step == 9: model = DDP(net.requires_grad_(True))\n    opt", 1
        ),
        {"parameters": [("0.weight", 64), ("0.bias", 4), ("1.weight", 64), ("1.bias", 16)]},
    ),
    (
        "backward by its own name",
        MODEL
        + LOOP.replace("model(x).square().mean().backward()", "backward(model(x).square().mean())"),
        {},
    ),
    (
        "ignored by DDP",
        "net = nn.Sequential(nn.Linear(16, 16), nn.Linear(16, 16, bias=False)); DDP."
        "_set_params_and_buffers_to_ignore_for_model(net, ['0.weight', '0.bias']); "
        "model = DDP(net); optimizer = sgd(net[1])\n" + LOOP,
        {"parameters": [("1.weight", 256)]},
    ),
    (
        "bare except",
        MODEL
        + LOOP.replace(
            "    model(x).square().mean().backward()\n    optimizer.step()",
            "    try: model(x).square().mean().backward(); optimizer.step()\n"
            "    except: print('went on')",
        ),
        {},
    ),
    (
        "the end of a script that catches all",
        "def main():\n    "
        + MODEL
        + LOOP.replace("\n", "\n    ")
        .replace("for step", "try:\n     for step")
        .replace("        ", "          ")
        + "\n    except BaseException: raise RuntimeError('caught')\nmain()\n",
        {},
    ),
    (
        "trained in a thread",
        MODEL
        + "def main():"
        + LOOP.replace("\n", "\n    ")
        + "\nimport threading; t = threading.Thread("
        "target=main); t.start(); t.join()\n",
        {},
    ),
    (
        "steps without gradients",
        MODEL + "optimizer.step()\n" + LOOP.replace("    model", "    optimizer.step()\n    model"),
        {},
    ),
    (
        "loading in processes",
        MODEL
        + LOOP.replace(
            "    model",
            "    for x in torch.utils.data.DataLoader(torch.randn(8, 16), 8, "
            "num_workers=1): pass\n    model",
        ),
        {},
    ),
    (
        "bf16 hook",
        MODEL + "model.register_comm_hook(None, default_hooks.bf16_compress_hook)\n" + LOOP,
        {},
    ),
    (
        "a scaler that skips nothing",
        MODEL
        + "scaler = torch.amp.GradScaler('cpu', init_scale=2.)\n"
        + LOOP.replace(
            "model(x).square().mean()", "scaler.scale(model(x).square().mean())"
        ).replace("optimizer.step()", "scaler.step(optimizer); scaler.update()"),
        {},
    ),
    (
        "a scaler that skips",
        MODEL
        + "scaler = torch.amp.GradScaler('cpu', init_scale=2.**127, growth_interval=9)\n"
        + SCALED,
        {},
    ),
    (
        "two optimizers",
        OTHERS
        + MODEL
        + "a, b = two(model)\n"
        + LOOP.replace("optimizer.step()", "a.step(); b.step()"),
        {"optimizer": "Adam and SGD"},
    ),
    (
        "an optimizer that steps seldom",
        OTHERS
        + MODEL
        + "a, b = two(model)\n"
        + LOOP.replace("optimizer.step()", "a.step(); step % 3 or b.step()"),
        {"optimizer": "Adam and SGD"},
    ),
    (
        "an object with step() after a teacher",
        "teacher = DDP(nn.Linear(16, 8))\n"
        + MODEL
        + "mine = Mine(model)\n"
        + LOOP.replace(
            "optimizer.step()",
            "assert step < 9 or '__call__' in vars(nn.Module) and nn.Module.__call__.__name__ != "
            "'told'; mine.step()",
        ),
        {"parameters": LINEAR},
    ),
    (
        "an object with step()",
        MODEL + "mine = Mine(model)\n" + LOOP.replace("optimizer.step()", "mine.step()"),
        {"optimizer": "no optimizer of torch.optim"},
    ),
    (
        "several dtypes",
        OTHERS + "model = DDP(Two()); optimizer = sgd(model)\n" + LOOP,
        {
            "parameters": [
                (f"{name}.{part}", n)
                for name in "abc"
                for part, n in (("weight", 256), ("bias", 16))
            ]
        },
    ),
    (
        "static graph",
        "model = DDP(nn.Linear(16, 16), static_graph=True); optimizer = sgd(model)\n" + LOOP,
        {},
    ),
    (
        "complex and empty",
        LAYERS.replace("nn.Linear(16, 16) for _ in range(4)", "")
        .replace("x = self.l[0](x)", "x = x[:4] * self.c.abs() + self.e.sum().abs()")
        .replace(
            "__init__();",
            "__init__(); self.c = nn.Parameter(torch.ones(16, dtype=torch.cfloat)); self.e = "
            "nn.Parameter(self.c[:0].detach());",
        )
        + "model = DDP(Net()); optimizer = sgd(model)\n"
        + LOOP,
        {"parameters": [("c", 16)]},
    ),
)
