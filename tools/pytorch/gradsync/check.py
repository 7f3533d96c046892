"""Checks that a script trains with the mean of its ranks' gradients. Each is copied as autograd delivers it, before anything can
communicate it; the mean is taken in f64, by a group of its own (reference.py).

Exit status: 0 the same, 1 a difference, 2 cannot be checked (torchrun makes 1 of it). Not for sparse gradients, tensor parallelism,
FullyShardedDataParallel (but fully_shard), gradients that no backward() brings, optimizers of copies of parameters (but DeepSpeed's), those that
average and have attributes, and processes that the script starts. What backward() gets is compared with the mean over tokens if a pass has one loss of LOSSES."""

import argparse
import contextlib
import os
import runpy
import sys
import time

import torch
import torch.distributed as dist
from gradsync.events import Listener, listen, place, stop_listening, watch_calls
from gradsync.patches import Patches
from gradsync.record import refuse
from gradsync.recorder import WAIT
from gradsync.reference import Comparison, Gradients, digest, exact, fed, mistake, total
from gradsync.settings import gathered
from gradsync.torch_private import DDP
from gradsync.units import groups_of

SAME, DIFFERS, UNKNOWN = 0, 1, 2  # exit status
STEPS = 2  # checked updates of each group of parameters
TOPICS = {
    "parameters": DIFFERS,
    "settings": DIFFERS,
    "weights": DIFFERS,
    "buffers": DIFFERS,
    "versions": SAME,
}  # if ranks differ
CLIPS, LOSSES = (
    ("clip_grad_norm_", "clip_grads_with_norm_", "clip_grad_value_"),
    ("cross_entropy", "nll_loss", "mse_loss"),
)


def parameters_of(owner):
    return (
        [*owner.parameters()]
        if isinstance(owner, torch.nn.Module)
        else [p for group in owner.param_groups for p in group["params"]]
    )


def unlike(ranks, topic):
    """The first of a topic's keys whose values differ between ranks that have it."""
    seen = {}
    return next(
        (
            f"{key} differs between ranks {seen[key][0]} and {r}"
            + f": {seen[key][1]} and {value}" * (len(value) < 32)
            for r, rank in enumerate(ranks)
            for key, value in rank[topic].items()
            if seen.setdefault(key, (r, value))[1] != value
        ),
        "",
    )


class Check(Listener):
    """A script that runs, whose steps call on_*() in this order. `turns`: into how many groups parameters are divided."""

    def __init__(self, turns, goes_on):
        self.patches = Patches()
        self.turns, self.goes_on, self.quiet, self.group, self.world, self.rank, self.found = (
            turns,
            goes_on,
            False,
            None,
            1,
            0,
            {},
        )  # (status, text) by topic
        self.made, self.roots, self.wrapped, self.engines = (
            [],
            {},
            [],
            [],
        )  # optimizers, outermost models by id, DDPs, DeepSpeed's
        self.leaves, self.order, self.counts = (
            {},
            {},
            {},
        )  # what autograd delivers to; (number, parameter); updates; by id
        self.held, self.clipped, self.full, self.twin = (
            {},
            {},
            {},
            (),
        )  # Gradients, digests of clipped, DeepSpeed's, by id; what `fed` gives
        self.stepping, self.why, self.suspect, self.scale, self.next_scale, self.at = (
            None,
            "",
            None,
            1,
            1,
            "",
        )
        self.spent_ns, self.peak_bytes, self.worst, self.checked, self.random = (
            0,
            0,
            0.0,
            set(),
            digest(torch.get_rng_state()),
        )
        (
            self.inputs,
            self.buffers,
            self.tokens,
            self.losses,
            self.by_pass,
            self.passes,
            self.loss,
        ) = [], None, [], [], [], 1, (1, 0)

    @contextlib.contextmanager
    def _own(self):
        """What happens in it is not the script's."""
        began, self.quiet = time.monotonic_ns(), True
        try:
            with torch.no_grad():
                yield
        except Exception as error:
            refuse(
                f"{place(otherwise=self.at)}: cannot be checked: {type(error).__name__}: {str(error).partition(chr(10))[0]}",
                UNKNOWN,
            )
        self.quiet, self.spent_ns = False, self.spent_ns + time.monotonic_ns() - began

    def on_call(self, model, args, kwargs):
        if torch.is_grad_enabled():
            self.roots[id(model)] = model
            if hasattr(model, "is_gradient_accumulation_boundary") and model not in self.engines:
                self._around(type(model), "step", self.on_engine)
                self.engines.append(model)
            self.why = (
                ": the model is called past DistributedDataParallel (model.module)"
                if any(model is ddp.module for ddp in self.wrapped)
                else ": the last pass is within no_sync"
                if any(not ddp.require_backward_grad_sync for ddp in self.wrapped)
                else ""
            )
            with self._own():
                self.inputs += [
                    digest(x)
                    for x in torch.utils._pytree.tree_leaves((args, kwargs))
                    if isinstance(x, torch.Tensor)
                ]
                if (
                    self.buffers is None
                ):  # in the first pass, in which DistributedDataParallel will make some of them the same
                    synced = {
                        id(b)
                        for m in model.modules()
                        if isinstance(m, DDP) and m.will_sync_module_buffers()
                        for b in m.buffers()
                    }
                    self.buffers = {
                        name.removeprefix("module."): digest(b)
                        for name, b in model.named_buffers()
                        if id(b) not in synced
                    }

    def on_loss(self, own, *args, **kwargs):
        """Counts tokens, and takes the mean over them."""
        loss, target = own(*args, **kwargs), args[1] if len(args) > 1 else kwargs["target"]
        if loss.requires_grad:
            count = (
                target.numel()
                if target.is_floating_point()
                else int((target != kwargs.get("ignore_index", -100)).sum())
            )
            mean = float(loss.detach().double().sum()) / (
                1 if kwargs.get("reduction", "mean") == "mean" else max(count, 1)
            )
            self.tokens.append([count, mean, torch.finfo(loss.dtype).eps])
        return loss

    def on_losses(self, tensors, gradient=None):
        one, tokens, self.tokens = (
            [tensors] if isinstance(tensors, torch.Tensor) else tensors,
            self.tokens,
            [],
        )
        self.scale, self.next_scale, self.at = self.next_scale, 1, place()
        is_known = gradient is None and len(one) == len(tokens) == one[0].numel() == 1
        self.losses += [[float(one[0].detach()) / self.scale, *tokens[0]] if is_known else None]
        for p in [p for owner in (*self.made, *self.engines) for p in parameters_of(owner)]:
            self.watch(p, p)
        for one in [
            one
            for root in self.roots.values()
            for m in root.modules()
            for group in groups_of(m)
            for one in group.fsdp_params
        ]:
            self.watch(getattr(one, "_unsharded_param", None), one.sharded_param)

    def watch(self, leaf, p):
        if (
            isinstance(leaf, torch.nn.Parameter)
            and leaf.requires_grad
            and id(leaf) not in self.leaves
        ):
            self.leaves[id(leaf)] = leaf
            self.order.setdefault(id(p), (len(self.order), p))
            self.patches.keep(leaf.register_hook(lambda gradient: self._on_gradient(p, gradient)))

    def _is_turn(self, p):
        return (
            self.order.get(id(p), (0,))[0] % self.turns
            == max(self.counts.values(), default=0) // STEPS
        )

    def _on_gradient(self, p, gradient):
        if not self.quiet and self._is_turn(p):
            with self._own():
                if gradient.layout is not torch.strided or hasattr(gradient, "to_local"):
                    raise TypeError(f"{self.name(p)} gets a gradient that is sparse or in parts")
                self.held.setdefault(id(p), Gradients(gradient)).add(gradient, self.scale)
                self.by_pass += [exact(gradient)] if id(p) == self.suspect else []

    def _drop(self, owner):
        """Forgets what this rank holds of an optimizer or a module, whose gradients are used or thrown away."""
        dropped = any([self.held.pop(id(p), None) for p in parameters_of(owner)])
        if dropped:
            self.losses, self.by_pass, self.clipped = [], [], {}
        return dropped

    def on_clip(self, own, parameters, *args, **kwargs):
        """What is clipped has to be the mean, and to stay as it is then."""
        params = [parameters] if isinstance(parameters, torch.Tensor) else list(parameters)
        with self._own():
            self._compare(params, f"{own.__name__} at {place()}", ": it is clipped before the sum")
        result = own(params, *args, **kwargs)
        self.clipped |= {id(p): digest(p.grad) for p in params if p.grad is not None}
        return result

    def on_update(self, optimizer, args, kwargs):
        if self.stepping is None:  # else it is within another one's
            self.stepping, self.at, closure = (
                optimizer,
                place(),
                kwargs.get("closure") or (args[1] if len(args) > 1 else None),
            )
            if callable(closure):
                return args[:1], kwargs | {
                    "closure": lambda: (closure(), self._update(optimizer))[0]
                }
            self._update(optimizer)

    def _update(self, optimizer):
        where, params, self.twin = (
            f"{type(optimizer).__name__} at {self.at}",
            parameters_of(optimizer),
            (),
        )
        with self._own():
            ranks = self._gather(
                {
                    "parameters": {
                        "what trains": str(
                            [f"{self.name(p)} {list(p.shape)}" for p in params if p.requires_grad]
                        )
                    },
                    "settings": {
                        f"{key} of group {i}": str(value)
                        for i, group in enumerate(
                            (
                                optimizer.optimizer if optimizer in self.engines else optimizer
                            ).param_groups
                        )
                        for key, value in group.items()
                        if key != "params"
                    },
                    "weights": {}
                    if any(status for status, _ in self.found.values())
                    else {  # one place in a mesh's last dimension: one part
                        f"{self.name(p)}{p.device_mesh.get_coordinate()[-1:] if hasattr(p, 'to_local') else ''}": digest(
                            p
                        )
                        for p in params
                    },
                    "buffers": self.buffers or {},
                    "versions": {"PyTorch": torch.__version__, "Python": sys.version.split()[0]},
                    "data": self.inputs,
                    "losses": self.losses,
                    "random": self.random,
                }
            )
            self.found |= {
                topic: (status, f"{topic} of {where}: {unlike(ranks, topic)}")
                for topic, status in TOPICS.items()
                if unlike(ranks, topic)
            }
            if any(
                rank["data"] and rank["data"] in [other["data"] for other in ranks[:r]]
                for r, rank in enumerate(ranks)
            ):
                self.found["data"] = DIFFERS, f"ranks get the same batches in the step of {where}"
            if self.world > 1 and len({rank["random"] for rank in ranks}) == 1:
                self.found["random"] = (
                    SAME,
                    "random numbers have the same state on all ranks at first: so have masks of dropout",
                )
            self.passes, losses, self.loss = (
                max(1, *(len(rank["losses"]) for rank in ranks)),
                [loss for rank in ranks for loss in rank["losses"]],
                (1, 0),
            )
            if losses and all(losses):
                roots, counts, means, eps = zip(*losses)
                given, rounding = sum(roots) / self.world, 8 * max(eps)
                of_tokens = sum(count * mean for count, mean in zip(counts, means)) / (
                    sum(counts) or 1
                )
                if abs(given - of_tokens) > rounding * abs(of_tokens) > 0 and any(means):
                    self.loss = (
                        given * len(means) / sum(means),
                        rounding,
                    )  # factor of the mean of means, and how far roundings can bring it
                    if len(set(counts)) > 1:
                        off = f"the loss is {given / of_tokens - 1:+.2%} off the mean over all of them"
                        self.found["normalisation"] = (
                            SAME,
                            f"passes have {min(counts)} to {max(counts)} tokens, and {off}",
                        )
            if self._compare(
                params,
                where,
                may_average=not type(optimizer).__module__.startswith(
                    ("torch.optim.", "deepspeed.")
                ),
            ):
                if self.turns > 1:
                    raise ValueError(f"{where} averages by itself, which needs --groups=1")
                self.twin = fed(
                    optimizer,
                    [Comparison(p, self.held, self.group) for p in params],
                    dist.new_subgroups(1, backend="gloo")[0],
                )

    def on_engine(self, own, engine, *args, **kwargs):
        """DeepSpeed's optimizers step flat copies of parts. Each parameter's gradient is known until they do."""
        if engine.is_gradient_accumulation_boundary():
            with self._own():
                self.full = {
                    id(p): sys.modules["deepspeed"].utils.safe_get_full_grad(p)
                    for p in parameters_of(engine)
                    if p.requires_grad
                }
            self.on_update(engine, (), {})
        own(engine, *args, **kwargs)
        self.on_updated(engine)

    def on_updated(self, optimizer):
        if self.stepping is optimizer:
            self.stepping, params, name = None, parameters_of(optimizer), type(optimizer).__name__
            with self._own():
                off = [
                    f"{self.name(p)} is off by {(exact(p) - weights).norm() / weights.norm():.3g} of its norm after {name} has averaged "
                    "and stepped"
                    for p, (weights, rounding) in zip(params, self.twin)
                    if not (exact(p) - weights).norm() <= rounding
                ]
                self.found = (
                    {
                        "gradients": (DIFFERS, text)
                        for rank in self._gather(off)
                        for text in rank[:1]
                    }
                    | self.found
                    | (
                        {}
                        if not self.twin
                        else {
                            "twin": (
                                SAME,
                                f"{name} averages by itself; its weights are compared with those of {name} alone, fed with the mean",
                            )
                        }
                    )
                )
            self.inputs, self.buffers, needed = [], None, STEPS * self.turns
            if self._drop(optimizer):
                self.counts[id(optimizer)] = self.counts.get(id(optimizer), 0) + 1
                if min(self.counts.values()) >= needed or max(self.counts.values()) >= 4 * needed:
                    self.finish()

    def _gather(self, value):
        if self.group is None and dist.is_initialized() and dist.get_world_size() > 1:
            self.group, self.world, self.rank = (
                dist.new_group(backend="gloo", timeout=2 * WAIT),
                dist.get_world_size(),
                dist.get_rank(),
            )
        return gathered(value, "cpu", self.group)

    def name(self, p):
        names = (
            name
            for model in self.roots.values()
            for name, own in model.named_parameters()
            if own is p
        )
        return (
            next(names, f"parameter {self.order.get(id(p), '?')[0]}")
            .removeprefix("_orig_mod.")
            .removeprefix("module.")
        )

    def _compare(self, params, where, reason="", may_average=False):
        """Says what the first gradient that differs is. Whether it is each rank's own, which the optimizer may have to average."""
        turn, wrong = [p for p in params if self._is_turn(p) and "parameters" not in self.found], []
        here = [
            i
            for i, p in enumerate(turn)
            if id(p) in self.held and (p.grad is None or self.clipped.get(id(p)) != digest(p.grad))
        ]
        turn = [turn[i] for i in sorted({i for rank in self._gather(here) for i in rank})]
        self.checked |= {id(p) for p in turn}
        self.peak_bytes = max(self.peak_bytes, sum(held.sums.nbytes for held in self.held.values()))
        for i, p in enumerate(turn):
            one = Comparison(p, self.held, self.group, self.full)
            wrong += [] if one.share <= 1 else [[i, one.narrow]]
            self.worst = max(self.worst, one.share if one.share <= 1 else 0)
        ranks = self._gather(wrong)
        narrow = sorted({name for rank in ranks for _, name in rank if name})
        off = sorted((i, r) for r, rank in enumerate(ranks) for i, name in rank if not name)
        self.found |= (
            {"rounding": (SAME, f"gradients are rounded to {' and '.join(narrow)} on their way")}
            if narrow
            else {}
        )
        if not off and (name := mistake(*self.loss, self.world, self.passes)):
            self.found["loss"] = (
                DIFFERS,
                f"what backward() gets before {where} is {self.loss[0]:.6g} times the mean loss: {name}",
            )
        if not off or self.clipped and "gradients" in self.found:
            return False
        p, count = turn[off[0][0]], len({i for i, _ in off})
        one, self.suspect = Comparison(p, self.held, self.group, self.full), id(p)
        is_own = all(
            self._gather(
                self.world > 1 and bool((abs(one.handed - one.own) <= one.bound * self.world).all())
            )
        )
        factor, text = one.explain(
            off[0][1],
            [total(gradient, self.group) / self.world for gradient in self.by_pass],
            self.passes,
        )
        if self.wrapped and not any(p is other for other in self.wrapped[-1]._module_parameters):
            self.why = ": it was made after the model was wrapped in DistributedDataParallel"
        if is_own or factor is None:
            text = ("each rank's own, which nothing has averaged" if is_own else text) + (
                self.why or reason
            )
        if (
            self.loss[1]
            and count == len(turn)
            and factor
            and abs(self.loss[0] * factor - 1) <= self.loss[1]
        ):
            self.found["gradients"] = (
                SAME,
                f"gradients are {factor:.6g} times the mean, and the loss {self.loss[0]:.6g} times: together right",
            )
        elif not (is_own and may_average):
            others = f" (and {count - 1} of {len(turn) - 1} others)" * (len(turn) > 1)
            self.found["gradients"] = (
                DIFFERS,
                f"the gradient of {self.name(p)}{others} that {where} gets is {text}",
            )
        return is_own and may_average

    def finish(self):
        self.quiet, self.status = (
            True,
            max((status for status, _ in self.found.values()), default=SAME),
        )
        stop_listening(self)
        self.patches.undo()
        lines = [
            ("differs" if status else "note", text)
            for status, text in sorted(self.found.values(), key=lambda one: -one[0])
        ]
        lines += [
            (
                "same",
                f"{len(self.checked)} of {len(self.order)} parameters get the mean of {self.world} ranks' gradients in "
                f"{max(self.counts.values())} steps, within {self.worst:.2g} of what rounding can bring",
            )
        ] * (self.status == SAME)
        lines += [
            ("cost", f"{self.spent_ns / 1e9:.2f} s, {self.peak_bytes / 1e6:.2f} MB of each rank")
        ]
        print(
            *(f"gradsync: {kind:8}{text}\n" for kind, text in lines if self.rank == 0),
            sep="",
            end="",
            flush=True,
        )
        self._gather(0)  # none ends before rank 0 has printed
        if not self.goes_on:
            os._exit(self.status)

    def _around(self, owner, name, call):
        def around(own, *args, **kwargs):
            if self.quiet or torch.compiler.is_compiling():
                return own(*args, **kwargs)
            return call(own, *args, **kwargs)

        self.patches.replace(owner, name, around)

    def run(self, argv):
        for owner, name, then in (
            (DDP, "__init__", self.wrapped.append),
            (torch.optim.Optimizer, "__init__", self.made.append),
            (torch.optim.Optimizer, "zero_grad", self._drop),
            (torch.nn.Module, "zero_grad", self._drop),
            (
                torch.amp.GradScaler,
                "scale",
                lambda scaler: setattr(self, "next_scale", scaler.get_scale()),
            ),
        ):
            self._around(
                owner,
                name,
                lambda own, one, *args, then=then, **kwargs: (own(one, *args, **kwargs), then(one))[
                    0
                ],
            )
        self._around(
            torch.Tensor,
            "register_hook",
            lambda own, tensor, hook: (self.watch(tensor, tensor), own(tensor, hook))[1],
        )
        for owner, name, call in [(torch.nn.functional, name, self.on_loss) for name in LOSSES] + [
            (torch.nn.utils, name, self.on_clip) for name in CLIPS
        ]:
            self._around(owner, name, call)
        watch_calls(torch.nn.Module, self.patches)
        listen(self)
        sys.argv, sys.path[:0] = argv, [os.path.dirname(os.path.abspath(argv[0]))]
        try:
            runpy.run_path(argv[0], run_name="__main__")
        except BaseException as end:
            if not isinstance(end, SystemExit) or end.code:
                sys.excepthook(*sys.exc_info())
                refuse(f"{place(end)}: failed: {type(end).__name__}", UNKNOWN)
        if not self.counts:
            refuse(
                f"{self.at or argv[0]}: no optimizer of PyTorch stepped with gradients of backward(): nothing was checked",
                UNKNOWN,
            )
        if not self.quiet:
            self.finish()
        sys.exit(self.status)


def main(argv):
    parser = argparse.ArgumentParser(
        prog="check", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.error = lambda text: refuse(text, UNKNOWN)
    parser.add_argument(
        "--groups",
        type=int,
        default=1,
        help="checks parameters in this number of groups, one after the other",
    )
    parser.add_argument(
        "--continue", action="store_true", dest="goes_on", help="lets the script train on"
    )
    parser.add_argument("script", nargs=argparse.REMAINDER, help="runs train.py ARGS...")
    flags = parser.parse_args(argv)
    if not os.path.isfile("".join(flags.script[:1])) or flags.groups < 1:
        refuse(
            f"no script {''.join(flags.script[:1])}, or --groups={flags.groups} is less than 1",
            UNKNOWN,
        )
    Check(flags.groups, flags.goes_on).run(flags.script)
