"""When `check` ends, and what it has said by then, whatever a script or one of its ranks does."""

import signal
import time
import unittest

from check_scripts import (
    DDP_OF_NET,
    NO_DDP,
    average,
    averaging_loop,
    loop,
    muon,
    plain_loop,
)
from checked_script import CheckTestCase

OWN = "each rank's own, which nothing has averaged"

# What fails in the second step: how, what is said of it, and the status.
LATER = (
    ("raise ValueError", "failed: ValueError"),
    ("sys.exit(3)", "failed: SystemExit"),
    ("torch.multiprocessing.spawn(print)", "cannot be checked further: the script starts"),
    ("optimizer.step = lambda: 1 / 0", "failed: ZeroDivisionError"),
    ("os.abort()", ""),
)

# Ranks take other numbers of passes, and sum. What is kept of each pass is sent in the second step.
UNEVEN_SUM = (
    "passes = 2 + rank\n"
    + NO_DDP
    + average("dist.all_reduce(p.grad)")
    + averaging_loop(loss="model(batch()).square().mean() / passes")
)
OTHER_BRANCHES = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.heads = nn.ModuleList(nn.Linear(16, 8) for _ in range(2))

    def forward(self, x):
        return self.heads[rank](x)

model = Net(); optimizer = sgd(model)

def average():
    for p in model.parameters():
        if p.grad is not None:
            dist.all_reduce(p.grad); p.grad /= world
"""

COUNTED = """
updates = []
for o in optimizers:
    o.register_step_post_hook(lambda o, *_: print("update", len(updates) + 1, flush=True))
    o.register_step_post_hook(lambda o, *_: updates.append(o))
"""


def two_models(first: int, before_second: str = "pass", second_from: int = 0) -> str:
    """So many updates of one model, and then one of another, from some step on."""
    return f"""
one, other = DDP(net), DDP(nn.Linear(16, 4))
optimizers = a, b = sgd(one), torch.optim.Adam(other.parameters())
{COUNTED}
for step in range(400):
    for _ in range({first}):
        a.zero_grad()
        one(batch()).square().mean().backward()
        a.step()
    if step >= {second_from}:
        b.zero_grad()
        other(batch()).square().mean().backward()
        {before_second}
        b.step()
"""


SUMMED = "for p in other.parameters(): p.grad *= world"

SHARING = """
class DistAdam(torch.optim.Optimizer):
    def __init__(self, params):
        super().__init__(params, dict(lr=.01))

    @torch.no_grad()
    def step(self):
        world, rank = dist.get_world_size(), dist.get_rank()
        for p in self.param_groups[0]["params"]:
            g = p.grad.clone()
            dist.all_reduce(g); REDUCE
            state = self.state[p]
            n = len(p) // world
            part = p.data[rank * n:(rank + 1) * n]
            if not state:
                state["m"], state["v"] = torch.zeros_like(part), torch.zeros_like(part)
            g = g[rank * n:(rank + 1) * n]
            state["m"].lerp_(g, .1); state["v"].lerp_(g * g, .05)
            part -= .01 * state["m"] / (state["v"].sqrt() + .01)
            parts = [torch.empty_like(part) for _ in range(world)]
            dist.all_gather(parts, part.contiguous())
            p.copy_(torch.cat(parts))

model = net; optimizer = DistAdam(net.parameters())
"""

SCALER = """
scaler = torch.amp.GradScaler("cpu", init_scale=1024.)
for step in range(6):
    optimizer.zero_grad()
    loss = model(batch()).square().mean() * (float("inf") if step == 1 and rank == 1 else 1)
    scaler.scale(loss).backward()
    REDUCE
    scaler.step(optimizer); scaler.update()
"""


class FoundTest(CheckTestCase):
    """What was found is said, with the status 1."""

    def test_whatever_fails_later(self):
        for failure, said in LATER:
            with self.subTest(failure):
                fails = f"if step: {failure}"
                status, printed = self.check(NO_DDP + plain_loop(before_step=fails))
                aborts = said == ""
                self.assertEqual(status, -signal.SIGABRT if aborts else 1, printed)
                (line,) = self.lines(printed, "differs")
                self.assertIn(OWN, line)
                self.assertIn(said, printed)
                self.assertLess(printed.index("differs"), printed.index(said or "differs") + 1)

    def test_of_ranks_that_take_other_numbers_of_passes(self):
        status, printed = self.check(UNEVEN_SUM)
        self.assertEqual(status, 1, printed)
        (line,) = self.lines(printed, "differs")
        self.assertIn("2 times the mean: summed and not averaged", line)

    def test_of_ranks_that_take_other_branches(self):
        status, printed = self.check(OTHER_BRANCHES + averaging_loop())
        self.assertEqual(status, 1, printed)
        self.assertEqual(len(self.lines(printed, "differs")), 1, printed)


class OptimizersTest(CheckTestCase):
    """Each optimizer is checked, and the script ends soon."""

    def updates(self, printed):
        """How many updates a rank has taken when the check ended."""
        return max(map(int, [line.split()[1] for line in printed.splitlines() if "update" in line]))

    def test_a_second_optimizer_that_steps_rarely(self):
        status, printed = self.check(two_models(first=5, before_second=SUMMED))
        self.assertEqual(status, 1, printed)
        (line,) = self.lines(printed, "differs")
        self.assertIn("Adam", line)
        self.assertIn("2 times the mean: summed", line)
        self.assertLessEqual(self.updates(printed), 12 + 2)

    def test_alternating_updates_end_soon(self):
        status, printed = self.check(two_models(first=1))
        self.assertEqual(status, 0, printed)
        self.assertIn("6 of 6 parameters get the mean of 2 ranks' gradients in 2 steps", printed)
        self.assertLessEqual(self.updates(printed), 4 + 2)

    def test_a_second_optimizer_that_begins_late(self):
        status, printed = self.check(two_models(first=1, second_from=20))
        self.assertEqual(status, 0, printed)
        self.assertIn("6 of 6 parameters", printed)
        self.assertNotIn("not checked", printed)
        self.assertLessEqual(self.updates(printed), 20 + 4 + 2)

    def test_an_optimizer_that_never_steps_is_named(self):
        status, printed = self.check(two_models(first=1, second_from=400))
        self.assertEqual(status, 0, printed)
        self.assertRegex(printed, r"note +not checked: Adam at \S+train.py:\d+, 2 parameters\n")
        self.assertIn("4 of 6 parameters", printed)
        self.assertLessEqual(self.updates(printed), 50 + 2)

    def test_steps_without_gradients_of_backward_are_not_counted_for_ever(self):
        text = NO_DDP + "for p in net.parameters(): p.grad = torch.ones_like(p)\n"
        status, printed = self.check(text + "for step in range(400): optimizer.step()")
        self.assertEqual((status, self.has_ended()), (2, False), printed)
        self.assertIn("has stepped 50 times, and never with gradients of backward()", printed)

    def test_an_optimizer_that_shares_its_work_is_compared_once(self):
        right = SHARING.replace("REDUCE", "g /= world") + plain_loop()
        status, printed = self.check(right)
        self.assertEqual(status, 0, printed)
        (note,) = [line for line in self.lines(printed, "note") if "random" not in line]
        self.assertIn("after its first update only: ranks share its state", note)
        self.assertIn("in 1 steps", printed)

        status, printed = self.check(SHARING.replace("REDUCE", "pass") + plain_loop())
        self.assertEqual(status, 1, printed)
        self.assertIn("after DistAdam has averaged and stepped", self.lines(printed, "differs")[0])

        loaded = "for p in net.parameters(): optimizer.state[p] = {'m': p[:1].detach(), 'v': 0}\n"
        at = SHARING.replace("REDUCE", "g /= world") + loaded + plain_loop()
        status, printed = self.check(at)
        self.assertEqual(status, 2, printed)
        self.assertIn("has a part of its state on each rank before its first update", printed)


class RanksTest(CheckTestCase):
    """Ranks that do not come are named at once, and those that are slow are waited for."""

    def test_a_scaler_that_skips_on_one_rank(self):
        before = time.monotonic()
        text = SCALER.replace("REDUCE", "scaler.unscale_(optimizer); average()")
        status, printed = self.check(NO_DDP + average() + text)
        self.assertEqual(status, 1, printed)
        (line,) = self.lines(printed, "differs")
        self.assertRegex(
            line, r"^rank 1 left out a step \(GradScaler at \S+train.py:\d+\); rank 0 is at"
        )
        self.assertLess(time.monotonic() - before, 50)  # and not the 60 s of a collective

    def test_a_scaler_that_skips_on_all_ranks(self):
        text = SCALER.replace("REDUCE", "average(); scaler.unscale_(optimizer)")
        status, printed = self.check(NO_DDP + average() + text)
        self.assertEqual(status, 0, printed)

    def test_a_rank_that_leaves_out_a_step(self):
        for lazy in (0, 1):
            skips = f"if step != 1 or rank != {lazy}: optimizer.step()"
            status, printed = self.check(DDP_OF_NET + loop(step=skips), steps=5)
            self.assertEqual(status, 1, printed)
            (line,) = self.lines(printed, "differs")
            self.assertRegex(line, rf"^rank {lazy} has begun its next pass at \S+train.py:\d+;")

    def test_a_rank_that_is_slow_is_waited_for(self):
        slow = "import time; time.sleep(3 * rank * (step == 0)); optimizer.step()"
        status, printed = self.check(DDP_OF_NET + loop(step=slow))
        self.assertEqual(status, 0, printed)
        passes = "import time; time.sleep(rank * (step == 0)); loss.backward()"
        text = muon("dist.all_reduce(g); g /= dist.get_world_size()")
        text += "passes = 1 + 3 * rank\n" + plain_loop().replace("loss.backward()", passes)
        status, printed = self.check(text)
        self.assertEqual(status, 0, printed)

    def test_a_rank_that_ends_is_named(self):
        for idle in (0, 1):
            steps = f"1 if rank == {idle} else 4"
            for wrap, run in ((DDP_OF_NET, loop), (NO_DDP, plain_loop)):
                status, printed = self.check(wrap + run(steps=steps))
                self.assertIn(status, (1, 2), printed)
                self.assertRegex(printed, f"rank {idle} has ended")
                self.assertFalse(self.lines(printed, "same"), printed)

    def test_a_rank_that_fails_alone_is_named(self):
        status, printed = self.check(NO_DDP + plain_loop(before_step="1 / (step - rank + 1)"))
        self.assertEqual(status, 2, printed)
        self.assertRegex(printed, r"rank 1 has failed: ZeroDivisionError, at \S+train.py:\d+")

    def test_a_rank_without_a_batch(self):
        zeros = "p.grad = torch.zeros_like(p) if p.grad is None else p.grad; "
        text = averaging_loop(
            loss="model(batch()).square().mean() if rank == 0 or step else None"
        ).replace("loss.backward()", "loss is None or loss.backward()")
        text = NO_DDP + average(f"{zeros}dist.all_reduce(p.grad); p.grad /= world") + text
        status, printed = self.check(text, steps=6)
        self.assertEqual(status, 0, printed)
        self.assertIn("4 of 4 parameters get the mean of 2 ranks' gradients in 2 steps", printed)

    def test_an_optimizer_of_one_rank_alone_that_never_steps(self):
        extra = "if rank == 1: extra = torch.optim.SGD([nn.Parameter(torch.ones(1))], lr=1)\n"
        status, printed = self.check(DDP_OF_NET + extra + loop(), steps=99)
        self.assertEqual((status, self.has_ended()), (0, False), printed)
        self.assertIn("4 of 4 parameters", printed)

    def test_a_clip_on_one_rank_alone(self):
        norm = "if rank == 0: nn.utils.clip_grad_norm_(net.parameters(), float('inf'))"
        status, printed = self.check(DDP_OF_NET + loop(before_step=norm))
        self.assertEqual(status, 0, printed)
        status, printed = self.check(DDP_OF_NET + loop(before_step=norm.replace("'inf'", ".01")))
        self.assertEqual(status, 1, printed)
        self.assertIn("times the mean", self.lines(printed, "differs")[0])

    def test_closures_that_ranks_call_other_numbers_of_times(self):
        text = (
            "optimizer = torch.optim.LBFGS(net.parameters(), max_iter=2 + 3 * rank)\n"
            "def closure():\n"
            "    optimizer.zero_grad(); loss = net(x).square().mean(); loss.backward()\n"
            "    return loss\n"
            "for step in range(3): x = batch(); optimizer.step(closure)\n"
        )
        status, printed = self.check(text)
        self.assertEqual(status, 1, printed)
        self.assertIn(OWN, printed)
        self.assertIn("settings of LBFGS", printed)


class ProcessesTest(CheckTestCase):
    """What trains elsewhere is refused."""

    def test_a_part_of_the_ranks(self):
        text = (
            "groups = [dist.new_group([0]), dist.new_group([1])]\n"
            "model = DDP(net, process_group=groups[rank]); optimizer = sgd(model)\n"
        )
        idle = "if rank == 0: import time; time.sleep(99)\n"
        for ranks in (text, text.replace("model =", f"{idle}model =")):
            status, printed = self.check(ranks + loop())
            self.assertEqual(status, 2, printed)
            self.assertRegex(printed, "train.py:.* DistributedDataParallel of a part of the ranks")

    def test_processes_that_the_script_starts(self):
        begun = "import multiprocessing as mp, time\nmp.set_start_method('fork')\n"
        trains = "def train(*_): net(batch()).mean().backward()\n"
        for start, said in (
            ("torch.multiprocessing.spawn(train, (), 2)", "the script starts processes"),
            (
                "torch.multiprocessing.start_processes(train, (), 2, start_method='fork')",
                "the script starts processes",
            ),
            ("p = mp.Process(target=train); p.start(); p.join()", "it trains in a process that"),
            (
                "p = mp.Process(target=time.sleep, args=(0,)); p.start(); p.join()",
                "starts processes, which check does not see",
            ),
        ):
            with self.subTest(start):
                status, printed = self.check(begun + trains + start)
                self.assertEqual(status, 2, printed)
                self.assertIn(said, printed)


if __name__ == "__main__":
    unittest.main()
