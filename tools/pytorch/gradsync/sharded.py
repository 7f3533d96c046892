"""Records the steps of a model under FSDP2 (torch.distributed.fsdp.fully_shard), as recorder.py does those under DDP.

Steps that do not synchronise hold the whole model: before they begin all units are gathered, nothing is freed after forward or
backward, and gradients are reduced before the optimizer. All of that is done unit by unit, as FSDP2 itself does it, and timed, but
is no part of the step. A model that does not fit into one rank's memory cannot be recorded so: the first such step ends the script
with the allocator's error."""

from gradsync.live import is_compiled
from gradsync.recorder import SYNCED, Recorder
from gradsync.settings import MIB
from gradsync.unit_schedule import CALLS
from gradsync.units import gather, groups_of, is_sharded, reduce

FLAGS = ("reduce_grads", "all_reduce_grads", "reshard_after_backward")


class ShardedRecorder(Recorder):
    def __init__(self, model, out="gradsync.jsonl", rounds=16, ddp=True, **more):
        self.groups = []  # by unit, the root's first
        for module in filter(is_sharded, model.modules()):
            self.groups += [g for g in groups_of(module) if g not in self.groups]
            module.unshard()  # makes the parameters with which modules compute
            module.reshard()
        self.shards = {id(p.sharded_param): p for g in self.groups for p in g.fsdp_params}
        super().__init__(model, out, rounds, False, True, **more)
        self.views = False  # a probe leaves gradients to FSDP2
        self.ids = {
            id(p.sharded_param) for p in self.shards.values() if p.sharded_param.requires_grad
        }
        self.plan += [("ddp",)] * ddp
        number = {id(p): i for i, p in enumerate(self.params)}
        fqns = {id(m): name for name, m in model.named_modules()}
        self.head["units"] = [
            {
                "name": fqns.get(id(g.modules[0]), ""),
                "reshards": g.post_forward_mesh_info is not None,
                "parameters": [
                    number[id(p._unsharded_param)]
                    for p in g.fsdp_params
                    if id(p._unsharded_param) in number
                ],
            }
            for g in self.groups
        ]
        self.head["units"][0]["reshards"] &= not model._get_fsdp_state()._auto_reshard_after_forward
        self.set, self.marks = {}, [[None] * len(CALLS) for _ in self.groups]
        for unit, group in enumerate(self.groups):
            for k, name in enumerate(CALLS):
                self._watch(group, unit, k, name)

    def _watch(self, group, unit, k, name):
        def watched(call, *args, **kwargs):
            if k == 0:  # of another pass
                self.marks[unit] = [None] * len(CALLS)
            if self.marks[unit][k] is None:  # the end of backward calls post_backward again
                self.marks[unit][k] = self._mark()
            return call(*args, **kwargs)

        self.patches.replace(group, name, watched)

    def _named(self, module):
        return [
            (name, self.shards[id(p)]._unsharded_param)
            for name, p in module.named_parameters()
            if id(p) in self.shards
        ]

    def _check_wrapper(self):
        states = [m._get_fsdp_state() for m in self.module.modules() if is_sharded(m)]
        for found, text in (
            (
                any(type(g.mesh_info).__name__ == "HSDPMeshInfo" for g in self.groups),
                "over two dimensions (HSDP)",
            ),
            (
                any(type(g.offload_policy).__name__ == "CPUOffloadPolicy" for g in self.groups),
                "with an offload_policy",
            ),
            (
                any(
                    p.mp_policy.param_dtype or p.mp_policy.reduce_dtype
                    for p in self.shards.values()
                ),
                "with an mp_policy: use torch.autocast",
            ),
            (
                any(g._reduce_scatter_process_group.size() != self.world for g in self.groups),
                "over a part of the ranks",
            ),
            (
                any(
                    s._states_to_forward_prefetch or s._states_to_backward_prefetch for s in states
                ),
                "with explicit prefetching",
            ),
            (is_compiled(), "with torch.compile, whose blocks may leave out its hooks"),
        ):
            if found:
                self._refuse("gradsync does not record fully_shard " + text, self.place)

    def _can_try_units(self):
        return False  # those of the script are timed

    def _prepare(self):
        """Gathers all units, and keeps them whole after forward."""
        self.marks = [[None] * len(CALLS) for _ in self.groups]
        if self.mode[0] in ("first", "ddp"):
            return
        self._meet()
        self.step_times = {"gather_ns": []}
        for group in self.groups:
            begin = self._mark()
            gather(group)
            self.step_times["gather_ns"].append((begin, self._mark()))
        self.after_forward = [group.post_forward_mesh_info for group in self.groups]
        for group in self.groups:
            group.post_forward_mesh_info = None

    def on_backward(self):
        super().on_backward()
        self.prepared = all(group.reduce_grads for group in self.groups)
        self.set = [[getattr(group, flag) for flag in FLAGS] for group in self.groups]
        if self.mode[0] in ("none", "probe"):
            self._set([[False] * len(FLAGS)] * len(self.groups))

    def _is_updated(self):
        return False  # by an optimizer alone; what modules compute with is freed here

    def _set(self, values):
        for group, own in zip(self.groups, values):
            for flag, value in zip(FLAGS, own):
                setattr(group, flag, value)

    def on_backward_end(self):
        self._set(self.set)
        if self.state == SYNCED and self.arrived != self.before:
            self._refuse(
                "gradients come again after those of this step were reduced: use set_requires_gradient_sync(False) in all "
                "passes but the last"
            )
        super().on_backward_end()

    def _synchronise(self, end):
        begin, self.state = self.backward, SYNCED
        self.step |= {
            "before_ns": (self.begin, begin),
            "backward_ns": (begin, end),
            "ready_ns": [(begin, ready) if ready else -1 for ready in self.ready],
        }
        if self.mode[0] in ("none", "probe"):
            # A unit whose input needs no gradient, such as the root, ends with backward.
            units = [
                [
                    (self.begin, mark or other)
                    for mark, other in zip(own, (self.begin, begin, begin, end))
                ]
                for own in self.marks
            ]
            if self.mode[0] == "probe":
                self._fill(self.ready)
                self._meet()
                self.step["collectives"] = self._communicate(*self.mode[1:])
            untimed = self._mark()
            self.step |= {**self.step_times, "units_ns": units, "reduce_ns": self._reduce()}
            self.untimed = (untimed, self._mark())
        self.rest = self._mark()

    def _reduce(self):
        """All units' gradients, last first, and frees what was gathered; times by unit."""
        times = [None] * len(self.groups)
        self._meet()
        self._set([[True] * len(FLAGS)] * len(self.groups))
        for unit in reversed(range(len(self.groups))):
            begin = self._mark()
            reduce(self.groups[unit])
            times[unit] = (begin, self._mark())
        for group, mesh in zip(self.groups, self.after_forward):
            group.post_forward_mesh_info = mesh
        self._set(self.set)
        return times

    def _rows(self):
        return [
            {
                "name": "fully_shard as it is",
                "bucket_bytes": 25 * MIB,
                "first_bucket_bytes": MIB,
                "bf16": False,
                "zero1": False,
                "fsdp": True,
                "passes": self.head["passes"],
                "rebuilt_bucket_bytes": [],
            }
        ]

    def _memory(self):
        """The optimizer's part is that of a rank's shards."""
        own = super()._memory()
        return own | {name: own[name] * self.world for name in ("state_bytes", "optimizer_bytes")}


def recorder_of(model, *args, **more):
    return (ShardedRecorder if is_sharded(model) else Recorder)(model, *args, **more)
