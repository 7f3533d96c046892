"""Scripts that record records, of one process, as in recorded_scripts.py."""

from script_parts import (
    CLOSURE,
    LAYERS,
    LINEAR,
    LOOP,
    NET,
    OTHERS,
    PLAIN_GAN,
    PLAIN_PASSES,
    SCALED,
)

ALONE = (
    (
        "bare except",
        NET
        + LOOP.replace(
            "    model(x).square().mean().backward()\n    optimizer.step()",
            "    try: model(x).square().mean().backward(); optimizer.step()\n"
            "    except: print('went on')",
        ),
        {},
    ),
    (
        "a loop",
        NET + LOOP,
        {"parameters": LINEAR, "passes": 1, "optimizer": "SGD", "world_size": 1},
    ),
    (
        "a module that holds the model",
        LAYERS.replace("LAYER", "l(x)") + "net = Net(); teacher = nn.Linear(16, 16); copied = copy."
        "deepcopy(net); loss = nn.MSELoss(); optimizer = sgd(net)\ncopied(x); net.l[0](x)\n"
        "def model(x): return loss(net(x), teacher(x)."
        "detach() + copied(x).detach())\n" + LOOP,
        {"parameters": [(f"l.{i}.{n}", k) for i in range(4) for n, k in LINEAR]},
    ),
    (
        "a module that holds a teacher",
        "class Both(nn.Module):\n"
        "    def __init__(self): super().__init__(); self.t, self.s = nn.Linear("
        "16, 16), nn.Linear(16, 16)\n    def forward(self, x):\n"
        "        with torch.no_grad(): t = self.t(x)\n        return self.s(x) - t\n"
        "model = Both(); optimizer = sgd(model)\n" + LOOP,
        {"parameters": [("s.weight", 256), ("s.bias", 16)]},
    ),
    (
        "another model between",
        NET
        + "other = nn.Linear(16, 16); another = sgd(other)\n"
        + LOOP
        + "    other(x).mean().backward(); another.step()\n",
        {"parameters": LINEAR},
    ),
    (
        "parts that nothing holds",
        "a, b = nn.Linear(16, 4), nn.Linear(4, 16); "
        "optimizer = torch.optim.SGD([*a.parameters(), *b."
        "parameters()], lr=1e-3)\ndef model(x): return b(a(x))\n" + LOOP,
        {"parameters": [("0.weight", 64), ("0.bias", 4), ("1.weight", 64), ("1.bias", 16)]},
    ),
    (
        "a frozen part",
        "model = nn.Sequential(nn.Linear(16, 8), nn.Linear(8, 8)); model[0].requires_grad_(False); "
        "optimizer = sgd(model)\n" + LOOP,
        {"parameters": [("1.weight", 64), ("1.bias", 8)]},
    ),
    ("passes", NET + PLAIN_PASSES.replace("PASSES", "4"), {"passes": 4}),
    (
        "the last update of an epoch has fewer passes",
        NET + PLAIN_PASSES.replace("PASSES", "2 if step % 3 == 0 else 4"),
        {"passes": 4},
    ),
    (
        "the first steps have fewer passes",
        NET + PLAIN_PASSES.replace("PASSES", "4 if step > 1 else 1"),
        {"passes": 4},
    ),
    (
        "two optimizers",
        OTHERS
        + NET
        + "a, b = two(types.SimpleNamespace(module=model))\n"
        + LOOP.replace("optimizer.step()", "a.step(); b.step()"),
        {"parameters": LINEAR, "optimizer": "Adam and SGD"},
    ),
    ("a closure", NET + CLOSURE.replace("CLOSURE", "closure"), {"passes": 1}),
    (
        "compiled",
        "model = torch.compile(nn.Linear(16, 16), backend='eager'); optimizer = sgd(model)\n"
        + LOOP,
        {"parameters": [("_orig_mod.weight", 256), ("_orig_mod.bias", 16)]},
    ),
    (
        "compiled in place",
        NET + "model.compile(backend='eager', fullgraph=True)\n" + LOOP,
        {"parameters": LINEAR},
    ),
    (
        "compiled by block",
        LAYERS.replace("LAYER", "l(x)")
        + "model = Net(); optimizer = sgd(model)\nfor l in model.l: l.compile("
        "backend='eager', fullgraph=True)\n" + LOOP,
        {},
    ),
    (
        "a scaler that skips",
        NET
        + "scaler = torch.amp.GradScaler('cpu', init_scale=2.**127, growth_interval=9)\n"
        + SCALED,
        {},
    ),
    ("eval mode", NET + "model.eval()\n" + LOOP, {"passes": 1}),
    (
        "validated",
        NET + LOOP + "    model.eval()\n    with torch.no_grad(): model(x)\n    model.train()\n",
        {"passes": 1},
    ),
    (
        "an object with step()",
        NET + "mine = Mine(model)\n" + LOOP.replace("optimizer.step()", "mine.step()"),
        {"optimizer": "no optimizer of torch.optim"},
    ),
    (
        "saved",
        NET + LOOP + "    assert b'gradsync' not in pickle.dumps(model) + "
        "pickle.dumps(optimizer.state_dict())\n",
        {},
    ),
    ("a discriminator", PLAIN_GAN, {"parameters": [("weight", 16), ("bias", 1)], "passes": 3}),
)
