"""The mean of all ranks' gradients, in f64 and by collectives of its own, and which mistake made what differs from it.

The bound is Higham's (Accuracy and Stability of Numerical Algorithms, 4.2): n roundings change a sum by at most n u / (1 - n u) of
the sum of magnitudes, whatever the order of the additions. u is half of a dtype's eps."""
import ctypes
import hashlib

import torch
import torch.distributed as dist
from gradsync.recorder import flat_of

NARROW = torch.bfloat16, torch.float16  # to which hooks round gradients


def local_of(tensor):
    """This rank's part of a sharded tensor, or the tensor."""
    return tensor.to_local() if hasattr(tensor, "to_local") else tensor


def exact(tensor):
    """A copy in f64 on the CPU, of this rank's part. A complex number is two."""
    return flat_of(local_of(tensor).detach()).to("cpu", torch.float64, copy=True)


def part_of(tensor):
    """Where in the whole this rank's part of a sharded tensor lies; () of one that is whole."""
    if not hasattr(tensor, "to_local"):
        return ()
    from torch.distributed.tensor._utils import compute_local_shape_and_global_offset
    shape, offset = compute_local_shape_and_global_offset(tensor.shape, tensor.device_mesh, tensor.placements)
    return tuple(slice(begin, begin + size) for begin, size in zip(offset, shape))


def total(tensor, group):
    """The sum over ranks, in place."""
    if group is not None:
        dist.all_reduce(tensor, group=group)
    return tensor


def whole_of(p, group):
    """A parameter's gradient, put together of all parts; zeros if there is none."""
    if p.grad is None or not part_of(p):
        return torch.zeros(flat_of(p).shape, dtype=torch.float64) if p.grad is None else exact(p.grad)
    parts = torch.zeros(2, *p.shape, dtype=torch.float64)  # and how many ranks hold an element
    parts[(0, *part_of(p))], parts[(1, *part_of(p))] = exact(p.grad), 1
    return total(parts, group)[0] / parts[1]


def digest(tensor):
    data = local_of(tensor).detach().cpu().contiguous()
    own = hashlib.blake2b(f"{data.dtype} {tuple(data.shape)}".encode(), digest_size=16)
    own.update((ctypes.c_char * data.nbytes).from_address(data.data_ptr()) if data.nbytes else b"")
    return own.hexdigest()


def bound_of(magnitude, dtypes, roundings):
    """How far so many roundings to the coarsest of these dtypes, and as many of f64, can bring a sum of this magnitude."""
    info = max(map(torch.finfo, dtypes), key=lambda one: one.eps)
    share = sum(roundings * u / (1 - roundings * u) for u in (info.eps / 2, 2.0**-53))
    return magnitude * share + roundings * info.tiny * info.eps


class Gradients:
    """A rank's gradients of one parameter since its last update, as autograd delivered them: their sum, the sum of their
    magnitudes, and the gradient of the sum over tokens."""

    def __init__(self, like):
        self.sum, self.magnitude, self.of_tokens = torch.zeros(3, *flat_of(like).shape, dtype=torch.float64)
        self.roundings, self.dtypes = 0, {flat_of(like).dtype}

    def add(self, gradient, share):
        """`share`: what the sum over tokens is of what backward() got."""
        gradient = exact(gradient)
        for held, more in (self.sum, gradient), (self.magnitude, abs(gradient)), (self.of_tokens, gradient * share):
            held += more
        self.roundings += 1

    def scale(self, factor):
        self.sum *= factor
        self.magnitude *= factor
        self.roundings += 2  # the factor's and the product's


def rounded_to(handed, off, magnitude, roundings, world):
    """The narrow dtype that explains all: `handed`, or the sum that it is a mean of, has none but its numbers."""
    return next((str(dtype) for dtype in NARROW if (off <= bound_of(magnitude, {dtype}, roundings)).all() and any(
        torch.equal((handed * k).to(dtype).double(), handed * k) for k in (1, world))), "")


def mistake(factor, world, passes, tolerance):
    """The name of a factor, or an empty one."""
    both, which = world * passes, f"the number of ranks, {world}" + f", or of passes, {passes}" * (passes == world)
    return next((text for known, text in (
        (world, f"summed and not averaged: {which}"), (1 / world, f"averaged twice: {which}"),
        (passes, f"not divided by the number of passes, {passes}"), (1 / passes, f"divided by the number of passes, {passes}"),
        (both, f"ranks times passes, {both}"), (1 / both, f"divided by ranks times passes, {both}"))
        if known != 1 and abs(factor / known - 1) <= tolerance), "")


def explain(handed, mean, bound, of_passes, world, passes):
    """Which factor made `handed` of the mean, if one did, and in words. `of_passes`: the mean of each pass."""
    norm, likeness = mean.norm().clamp(min=1e-300), [0, 0]
    factor = float((handed * mean).sum() / norm.square())
    if (handed - factor * mean).norm() <= max(1, abs(factor)) * bound.norm():
        return factor, f"{factor:.6g} times the mean: {mistake(factor, world, passes, float(bound.norm() / norm)) or 'no known mistake'}"
    if len(of_passes) > 1 and handed.dim() > 1 and torch.stack(of_passes).isfinite().all():  # the polar factor is what Muon's products approximate
        factors = [u @ v for u, _, v in (torch.linalg.svd(one.flatten(1), full_matrices=False) for one in (mean, *of_passes))]
        likeness = [torch.cosine_similarity(handed.flatten(), one.flatten(), 0) for one in (factors[0], sum(factors[1:]))]
    return None, f"off by {float((handed - mean).norm() / norm):.3g} of its norm" + (
        ": the sum of each pass's orthogonal factor, as if Muon's products ran per pass" if likeness[1] > max(.95, likeness[0]) else "")


def fed(optimizer, args, kwargs, means, alone):
    """What this optimizer makes of the means if `alone`, a group of this rank, is the default one: of each parameter its weights,
    and how far roundings can bring their norm, which gradients at their bounds show, up and down by signs that are drawn. `args`,
    `kwargs`: what it was made with; `means`: (parameter, mean, bound)."""
    given, every, draw, copies = args[0] if args else kwargs["params"], dist.distributed_c10d._world, torch.Generator().manual_seed(0), []
    signs = [torch.randint(2, mean.shape, generator=draw) * 2.0 - 1 for _, mean, _ in means]
    world, every.default_pg = every.default_pg, alone
    for way in (0, 1, -1):
        own = {id(p): torch.nn.Parameter(p.detach().clone()) for group in optimizer.param_groups for p in group["params"]}
        params = torch.utils._pytree.tree_map(lambda x: own.get(id(x), x), given) if isinstance(given, (list, tuple)) else [*own.values()]
        copy = type(optimizer)(params, *args[1:], **{key: value for key, value in kwargs.items() if key != "params"})
        copy.load_state_dict(optimizer.state_dict())
        for (p, mean, bound), sign in zip(means, signs):
            own[id(p)].grad = (mean + way * sign * bound).to(p.device, p.dtype)
        copy.step()
        copies.append(own)
    every.default_pg = world
    for p, *_ in means:
        middle, up, down = (exact(own[id(p)]) for own in copies)
        yield p, middle, (up - middle).norm() + (down - middle).norm() + torch.finfo(p.dtype).eps * middle.norm()
