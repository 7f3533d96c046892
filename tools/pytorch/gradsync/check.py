"""Checks that a script trains with the mean of its ranks' gradients.

What is checked has no part in what it is compared with: each gradient is copied as autograd delivers it, before it is accumulated
and before anything can communicate it. The mean of all ranks' copies is taken in f64, by a group of its own (reference.py), and
compared with what optimizers are handed in the first steps of the script as it is.

Exit status: 0 the same, 1 a difference, 2 cannot be checked (torchrun makes 1 of it). Not for sparse gradients, tensor parallelism,
FullyShardedDataParallel (but fully_shard), gradients that no backward() brings, optimizers of copies of the model's parameters
(DeepSpeed), and processes that the script starts. What backward() is called with is compared with the mean over tokens if each pass
has one call of cross_entropy, nll_loss or mse_loss."""
import argparse
import contextlib
import functools
import os
import runpy
import sys
import time

import torch
import torch.distributed as dist
from gradsync.events import DDP, listen, listeners, place, watch_calls
from gradsync.record import refuse
from gradsync.recorder import WAIT
from gradsync.reference import Gradients, bound_of, digest, exact, explain, fed, local_of, mistake, part_of, rounded_to, total, whole_of
from gradsync.settings import flat_of, gathered

SAME, DIFFERS, UNKNOWN = 0, 1, 2  # exit status
BYTES = 24  # of each element whose gradient is held
TOPICS = {"parameters": DIFFERS, "settings": DIFFERS, "first weights": DIFFERS, "buffers": DIFFERS, "versions": SAME}  # if ranks differ
CLIPS, LOSSES = ("clip_grad_norm_", "clip_grads_with_norm_", "clip_grad_value_"), ("cross_entropy", "nll_loss", "mse_loss")


def parameters_of(optimizer):
    return [p for group in getattr(optimizer, "param_groups", ()) for p in group["params"]]


def parts_of(module):
    """Of fully_shard: pairs of what autograd delivers gradients to and the sharded parameter."""
    state = module._get_fsdp_state() if hasattr(module, "_get_fsdp_state") else None
    groups = getattr(state, "_fsdp_param_groups", None) or [getattr(state, "_fsdp_param_group", None)]
    return [(one._unsharded_param, one.sharded_param) for group in groups if group for one in group.fsdp_params
            if hasattr(one, "_unsharded_param")]


def unlike(ranks, topic):
    """The first of a topic's keys whose values differ between ranks that have it."""
    seen = {}
    for r, (key, value) in [(r, pair) for r, rank in enumerate(ranks) for pair in rank[topic].items()]:
        q, other = seen.setdefault(key, (r, value))
        if other != value:
            return f"{key} differs between ranks {q} and {r}" + f": {other} and {value}" * (len(value) < 32)
    return ""


class Check:
    """A script that runs. `turns`: into how many groups parameters are divided, each of which is checked for `steps` updates."""

    def __init__(self, steps, turns, goes_on):
        self.steps, self.turns, self.goes_on, self.quiet, self.found = steps, turns, goes_on, False, {}  # (status, text) by topic
        self.group, self.alone, self.world, self.rank, self.most = None, None, 1, 0, 1
        self.made, self.roots, self.wrapped = {}, {}, []  # optimizers with their arguments, outermost models, those in DDP
        self.leaves, self.order, self.counts = {}, {}, {}  # what autograd delivers to; (number, parameter); updates; by id
        self.held, self.means, self.twin = {}, None, ()  # Gradients by id of a parameter; what `fed` gets and gives
        self.stepping, self.why, self.suspect, self.loss, self.uneven = None, "", None, None, None
        self.spent_ns, self.peak_bytes, self.worst, self.checked, self.random = 0, 0, 0.0, set(), digest(torch.get_rng_state())
        self.inputs, self.buffers, self.tokens, self.losses, self.by_pass, self.clipped = [], None, [], [], [], {}

    @contextlib.contextmanager
    def _own(self):
        """What happens in it is not the script's."""
        began, self.quiet = time.monotonic_ns(), True
        try:
            with torch.no_grad():
                yield
        except Exception as error:
            refuse(f"{place()}: cannot be checked: {type(error).__name__}: {str(error).partition(chr(10))[0]}", UNKNOWN)
        self.quiet, self.spent_ns = False, self.spent_ns + time.monotonic_ns() - began

    # What a step calls, in this order.

    def on_call(self, model, args, kwargs):
        if not self.quiet and torch.is_grad_enabled():
            self.roots[id(model)] = model
            if any(model is ddp.module for ddp in self.wrapped):
                self.why = ": the model is called past DistributedDataParallel (model.module)"
            with self._own():
                self.inputs += [digest(x) for x in torch.utils._pytree.tree_leaves((args, kwargs)) if isinstance(x, torch.Tensor)]
            self.see_buffers(model)

    def see_buffers(self, model):
        """In the first forward of a step, and there after DistributedDataParallel has made them the same."""
        if not self.quiet and self.buffers is None and not isinstance(model, DDP) and torch.is_grad_enabled():
            with self._own():
                self.buffers = {name: digest(buffer) for name, buffer in model.named_buffers()}

    def on_loss(self, own, *args, **kwargs):
        """Counts tokens, and takes the mean over them."""
        loss, target = own(*args, **kwargs), args[1] if len(args) > 1 else kwargs["target"]
        if not self.quiet and loss.requires_grad:
            count = target.numel() if target.is_floating_point() else int((target != kwargs.get("ignore_index", -100)).sum())
            mean = float(loss.detach().double().sum()) / (1 if kwargs.get("reduction", "mean") == "mean" else max(count, 1))
            is_known = len(args) < 3 and kwargs.get("weight") is None
            self.tokens.append([count, mean, torch.finfo(loss.dtype).eps] if is_known else None)
        return loss

    def on_losses(self, tensors, gradient=None, *_, **__):
        one, tokens = [tensors] if isinstance(tensors, torch.Tensor) else tensors, self.tokens
        if not self.quiet:
            is_known = gradient is None and len(one) == len(tokens) == one[0].numel() == 1 and tokens[0]
            self.losses.append([float(one[0].detach()), *tokens[0]] if is_known else None)
            self.tokens = []

    def on_backward(self):
        for pair in () if self.quiet else [(p,) for optimizer, *_ in self.made.values() for p in parameters_of(optimizer)] + [
                pair for root in self.roots.values() for module in root.modules() for pair in parts_of(module)]:
            self.watch(*pair)
        if not self.turns:  # so many that all ranks of a host use half of its free memory
            free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // int(os.environ.get("LOCAL_WORLD_SIZE", 1))
            self.turns = 1 + 2 * BYTES * sum(p.numel() for _, p in self.order.values()) // free

    def watch(self, leaf, part=None):
        """`part`: the sharded parameter that `leaf` is gathered from, if there is one."""
        if isinstance(leaf, torch.nn.Parameter) and leaf.requires_grad and id(leaf) not in self.leaves:
            p, self.leaves[id(leaf)] = leaf if part is None else part, leaf
            self.order.setdefault(id(p), (len(self.order), p))
            leaf.register_hook(lambda gradient: self._on_gradient(p, gradient))

    def _is_turn(self, p):
        return self.order.get(id(p), (0,))[0] % (self.turns or 1) == max(self.counts.values(), default=0) // self.steps

    def _on_gradient(self, p, gradient):
        if self.quiet or not self._is_turn(p):
            return
        with self._own():
            if gradient.layout is not torch.strided or hasattr(gradient, "to_local"):
                raise TypeError(f"{self.name(p)} gets a gradient that is sparse or in parts")
            root, count, mean, _ = self.losses[-1] or (1, 0, 0, 0)
            self.held.setdefault(id(p), Gradients(gradient)).add(gradient, count * mean / (root or 1))
            if id(p) == self.suspect:
                self.by_pass.append(exact(gradient))

    def _drop(self, owner):
        """What this rank holds of an optimizer or a module, whose gradients are used or thrown away."""
        dropped = [self.held.pop(id(p), None) for p in (
            owner.parameters() if isinstance(owner, torch.nn.Module) else parameters_of(owner)) if not self.quiet]
        if any(dropped):
            self.losses, self.by_pass, self.clipped = [], [], {}
        return any(dropped)

    def on_unscale(self, own, scaler, optimizer):
        own(scaler, optimizer)
        for held in [self.held[id(p)] for p in parameters_of(optimizer) if id(p) in self.held]:
            held.scale(1 / scaler.get_scale())
        self.losses = [loss and [loss[0] / scaler.get_scale(), *loss[1:]] for loss in self.losses]

    def on_clip(self, own, parameters, *args, **kwargs):
        """What is clipped has to be the mean, and to stay as it is then."""
        params = [parameters] if isinstance(parameters, torch.Tensor) else list(parameters)
        if not self.quiet and not self.clipped:
            with self._own():
                self._compare(params, f"{own.__name__} at {place()}", ": it is clipped before the sum")
        result = own(params, *args, **kwargs)
        self.clipped = {id(p): digest(p.grad) for p in params if p.grad is not None and not self.quiet}
        return result

    def on_update(self, optimizer, args, kwargs):
        if self.quiet or self.stepping is not None:
            return None
        self.stepping, closure = optimizer, kwargs.get("closure") or (args[1] if len(args) > 1 else None)
        if not callable(closure):
            return self._update(optimizer)

        def evaluate(*arguments, **options):
            loss = closure(*arguments, **options)
            self._update(optimizer)
            return loss

        return args[:1], kwargs | {"closure": evaluate}

    def _update(self, optimizer):
        where = f"{type(optimizer).__name__} at {place()}"
        with self._own():
            self._compare_ranks(optimizer, where)
            self.means, self.twin = None if type(optimizer).__module__.startswith("torch.optim.") else [], ()
            if self._compare(parameters_of(optimizer), where):
                if self.turns > 1:
                    raise ValueError(f"{where} averages by itself, which needs --groups=1")
                self.alone = self.alone or dist.new_subgroups(1, backend="gloo")[0]
                self.twin = list(fed(optimizer, *self.made[id(optimizer)][1:], self.means, self.alone))

    def on_updated(self, optimizer):
        if self.stepping is not optimizer or self.quiet:
            return
        self.stepping, params, name = None, parameters_of(optimizer), type(optimizer).__name__
        with self._own():
            differs = unlike(self._gather({"weights": self._weights(params)}), "weights")
            for p, weights, rounding in self.twin:
                self.found["twin"] = SAME, f"{name} averages by itself; its weights are compared with those of {name} alone, fed with the mean"
                off, norm = (exact(p) - weights).norm(), weights.norm()
                if off > rounding:
                    self.found.setdefault("gradients", (DIFFERS, f"{self.name(p)} is off by {off / norm:.3g} of its norm after {name} has "
                                                        f"averaged and stepped; rounding explains {rounding / norm:.3g}" + f"; {differs}" * bool(differs)))
            if differs and not {"first weights", "gradients", "settings"} & set(self.found):
                self.found["weights"] = DIFFERS, f"{differs} after {name} has stepped"
        self.inputs, self.buffers, needed = [], None, self.steps * (self.turns or 1)
        if self._drop(optimizer):
            self.counts[id(optimizer)] = self.counts.get(id(optimizer), 0) + 1
            if min(self.counts.values()) >= needed or max(self.counts.values()) >= 4 * needed:
                self.finish()

    # What ranks have to tell each other.

    def _gather(self, value):
        if self.group is None and dist.is_initialized() and dist.get_world_size() > 1:
            self.world, self.rank, store = dist.get_world_size(), dist.get_rank(), dist.distributed_c10d._get_default_store()
            dist.distributed_c10d._store_based_barrier(self.rank, store, "gradsync check", self.world, WAIT)
            self.group = dist.new_group(backend="gloo", timeout=2 * WAIT)
        return gathered(value, "cpu", self.group)

    def name(self, p):
        names = (name for model in self.roots.values() for name, own in model.named_parameters() if own is p)
        return next(names, f"parameter {self.order.get(id(p), '?')[0]}").removeprefix("_orig_mod.").removeprefix("module.")

    def _weights(self, params):
        return {f"{self.name(p)}{part_of(p) or ''}": digest(p) for p in params}

    def _compare_ranks(self, optimizer, where):
        params = parameters_of(optimizer)
        ranks = self._gather({
            "parameters": {"what trains": str([f"{self.name(p)} {list(p.shape)}" for p in params if p.requires_grad])},
            "settings": {f"{key} of group {i}": str(value) for i, group in enumerate(optimizer.param_groups)
                         for key, value in group.items() if key != "params"},
            "first weights": {} if id(optimizer) in self.counts else self._weights(params), "buffers": self.buffers or {},
            "versions": {"PyTorch": torch.__version__, "Python": sys.version.split()[0]}, "data": self.inputs, "losses": self.losses,
            "random": self.random})
        self.found |= {topic: (status, f"{topic} of {where}: {unlike(ranks, topic)}") for topic, status in TOPICS.items() if unlike(ranks, topic)}
        if "parameters" in self.found:
            self.finish(at_once=True)
        if any(rank["data"] and rank["data"] in [other["data"] for other in ranks[:r]] for r, rank in enumerate(ranks)):
            self.found["data"] = DIFFERS, f"ranks get the same batches in the step of {where}"
        if self.world > 1 and len({rank["random"] for rank in ranks}) == 1:
            self.found["random"] = SAME, "random numbers have the same state on all ranks at first: so have masks of dropout"
        self.most, losses = max(len(rank["losses"]) for rank in ranks), [loss for rank in ranks for loss in rank["losses"]]
        self.loss, self.uneven = None, None
        if losses and all(losses):
            self._normalise(sum(root for root, *_ in losses) / self.world, *zip(*(loss[1:] for loss in losses)))

    def _normalise(self, given, counts, means, eps):
        """Factor and rounding of what backward() is called with, by the mean of means or by that over all tokens."""
        of_means, rounding = sum(means) / len(means), 8 * max(eps)
        of_tokens = sum(count * mean for count, mean in zip(counts, means)) / (sum(counts) or 1)
        is_global = abs(given - of_tokens) <= rounding * abs(of_tokens)
        self.loss = (given / (of_tokens if is_global else of_means), rounding) if of_means and of_tokens else None
        if not is_global and len(set(counts)) > 1:
            self.uneven = [sum(counts), 0.0, 0.0]
            self.found["normalisation"] = SAME, (f"passes have {min(counts)} to {max(counts)} tokens, and the loss is {given / of_tokens - 1:+.2%} "
                                                 "off the mean over all of them")

    # Gradients.

    def _reference(self, p):
        """In f64: what the optimizer is handed, the mean over ranks, the bound, its parts, and this rank's Gradients."""
        held = self.held.get(id(p)) or Gradients(torch.empty(p.shape, dtype=p.dtype))
        handed, mean, magnitude = whole_of(p, self.group), *(total(t.clone(), self.group) / self.world for t in (held.sum, held.magnitude))
        dtypes = held.dtypes | {flat_of(local_of(p if p.grad is None else p.grad)).dtype}
        return handed, mean, bound_of(magnitude, dtypes, held.roundings + self.world), magnitude, held

    def _compare(self, params, where, reason=""):
        """Says what the first gradient that differs is. Whether it is each rank's own, which the optimizer may have to average."""
        turn, off, narrow = [p for p in params if self._is_turn(p)], [], set()
        here = [i for i, p in enumerate(turn) if id(p) in self.held and (p.grad is None or self.clipped.get(id(p)) != digest(p.grad))]
        turn = [turn[i] for i in sorted({i for rank in self._gather(here) for i in rank})]
        self.peak_bytes = max(self.peak_bytes, sum(BYTES * held.sum.numel() for held in self.held.values()))
        for i, p in enumerate(turn):
            handed, mean, bound, magnitude, held = self._reference(p)
            distance = (handed - mean).abs()
            self.checked.add(id(p))
            if not (distance <= bound).all():
                found = rounded_to(handed, distance, magnitude, held.roundings + self.world, self.world)
                narrow, off = narrow | {found}, off + [i] * (not found)
            elif mean.numel():
                self.worst = max(self.worst, float((distance / bound).max()))
            if self.uneven:
                other = total(held.of_tokens.clone(), self.group) / self.uneven[0]
                self.uneven[1:] = self.uneven[1] + float((mean - other).square().sum()), self.uneven[2] + float(mean.square().sum())
            if self.means is not None:
                self.means.append((p, mean, bound))
        ranks = self._gather([off, sorted(narrow - {""})])
        off, narrow = sorted({i for rank in ranks for i in rank[0]}), sorted({name for rank in ranks for name in rank[1]})
        if narrow:
            self.found["rounding"] = SAME, f"gradients are rounded to {' and '.join(narrow)} on their way"
        if self.uneven and self.uneven[2]:
            text, size = self.found["normalisation"][1].partition(", its")[0], (self.uneven[1] / self.uneven[2]) ** .5
            self.found["normalisation"] = SAME, f"{text}, its gradient {size:.2%}"
        if off and not (self.clipped and "gradients" in self.found):
            return self._judge(turn[off[0]], len(off), len(turn), [off[0] in rank[0] for rank in ranks].index(True), where, reason)
        name = self.loss and abs(self.loss[0] - 1) > self.loss[1] and mistake(self.loss[0], self.world, self.most, self.loss[1])
        if name and not off:
            self.found["loss"] = DIFFERS, f"what backward() gets before {where} is {self.loss[0]:.6g} times the mean loss: {name}"
        return False

    def _judge(self, p, off, checked, rank, where, reason):
        handed, mean, bound, _, held = self._reference(p)
        is_own = all(self._gather(self.world > 1 and bool(((handed - held.sum).abs() <= bound * self.world).all())))
        factor, text = explain(total(handed * (self.rank == rank), self.group), mean, bound, [
            total(one, self.group) / self.world for one in self.by_pass], self.world, self.most)
        others, self.suspect = f" (and {off - 1} of {checked - 1} others)" * (checked > 1), id(p)
        if self.wrapped and not any(p is one for one in self.wrapped[-1]._module_parameters):
            self.why = ": it was made after the model was wrapped in DistributedDataParallel"
        if is_own or factor is None:
            text = ("each rank's own, which nothing has averaged" if is_own else text) + (self.why or reason)
        if self.loss and off == checked and factor and abs(self.loss[0] * factor - 1) <= self.loss[1]:
            self.found["gradients"] = SAME, f"gradients are {factor:.6g} times the mean, and the loss {self.loss[0]:.6g} times: together right"
        elif not is_own or self.means is None:
            self.found["gradients"] = DIFFERS, f"the gradient of {self.name(p)}{others} that {where} gets is {text}"
        return is_own and self.means is not None

    # Its beginning and end.

    def finish(self, at_once=False):
        self.quiet, self.status = True, max((status for status, _ in self.found.values()), default=SAME)
        listeners.remove(self)
        lines = [("differs" if status else "note", text) for status, text in sorted(self.found.values(), key=lambda one: -one[0])]
        if self.status == SAME:
            lines.append(("same", f"{len(self.checked)} of {len(self.order)} parameters get the mean of {self.world} ranks' gradients in "
                          f"{max(self.counts.values())} steps, within {self.worst:.2g} of what rounding can bring"))
        lines.append(("cost", f"{self.spent_ns / 1e9:.2f} s, {self.peak_bytes / 1e6:.2f} MB of each rank"))
        if self.rank == 0:
            print(*(f"gradsync: {kind:8}{text}" for kind, text in lines), sep="\n", flush=True)
        self._gather(0)  # none ends before rank 0 has printed
        if not self.goes_on or at_once:
            sys.stdout.flush()
            os._exit(self.status)

    def run(self, argv):
        def around(owner, name, call):
            own = getattr(owner, name)
            setattr(owner, name, functools.wraps(own)(
                lambda *args, **kwargs: own(*args, **kwargs) if torch.compiler.is_compiling() else call(own, *args, **kwargs)))

        def made(kind, *args, **kwargs):
            optimizer = object.__new__(kind)
            self.made |= {} if self.quiet else {id(optimizer): (optimizer, args, kwargs)}
            return optimizer

        def forward(own, ddp, *args, **kwargs):
            result, self.why = own(ddp, *args, **kwargs), "" if ddp.require_backward_grad_sync else ": the last pass is within no_sync"
            self.see_buffers(ddp.module)
            return result

        listen()
        torch.optim.Optimizer.__new__ = made
        around(DDP, "__init__", lambda own, ddp, *args, **kwargs: (own(ddp, *args, **kwargs), self.wrapped.append(ddp))[0])
        around(DDP, "_pre_forward", forward)
        around(torch.Tensor, "register_hook", lambda own, tensor, hook: (self.watch(tensor), own(tensor, hook))[1])
        around(torch.amp.GradScaler, "unscale_", self.on_unscale)
        for owner, names, call in ((torch.nn.functional, LOSSES, self.on_loss), (torch.nn.utils, CLIPS, self.on_clip)):
            for name in names:
                around(owner, name, call)
        for owner in torch.optim.Optimizer, torch.nn.Module:
            around(owner, "zero_grad", lambda own, one, *args, **kwargs: (own(one, *args, **kwargs), self._drop(one))[0])
        watch_calls(torch.nn.Module)
        listeners.append(self)
        sys.argv = argv
        sys.path.insert(0, os.path.dirname(os.path.abspath(argv[0])))
        try:
            runpy.run_path(argv[0], run_name="__main__")
        except BaseException as end:
            if not isinstance(end, SystemExit) or end.code:
                sys.excepthook(*sys.exc_info())
                refuse(f"{argv[0]} failed: {type(end).__name__}", UNKNOWN)
        if not self.counts:
            refuse(f"{argv[0]}: no optimizer of PyTorch stepped with gradients of backward(): nothing was checked", UNKNOWN)
        if not self.quiet:
            self.finish()
        sys.exit(self.status)


def main(argv):
    parser = argparse.ArgumentParser(prog="check", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.error = lambda text: refuse(text, UNKNOWN)
    parser.add_argument("--steps", type=int, default=2, help="checks this number of updates, of each group of parameters")
    parser.add_argument("--groups", type=int, help="checks parameters in this number of groups, one after the other; by default memory decides")
    parser.add_argument("--continue", action="store_true", dest="goes_on", help="lets the script train on")
    parser.add_argument("script", nargs=argparse.REMAINDER, help="runs train.py ARGS...")
    flags = parser.parse_args(argv)
    if not os.path.isfile("".join(flags.script[:1])) or flags.steps < 1:
        refuse(f"no script {''.join(flags.script[:1])}, or --steps={flags.steps} is less than 1", UNKNOWN)
    Check(flags.steps, flags.groups, flags.goes_on).run(flags.script)
