"""What a script has set, as the file of a recording says it, and what ranks tell each other."""

import json

import torch
import torch.distributed as dist

MIB = 1 << 20


def flat_of(tensor):
    """For collectives, of which gloo's know no complex numbers."""
    return torch.view_as_real(tensor) if tensor.is_complex() else tensor


def hook_of(ddp):
    """The name of the hook that communicates for DDP, or an empty one."""
    return ddp._get_ddp_logging_data().get("comm_hook", "")


def row_of(ddp, name="as the script has it", **more):
    """What the file says of DDP's settings."""
    cap = ddp.bucket_bytes_cap
    first = (
        dist._DEFAULT_FIRST_BUCKET_BYTES
        if getattr(ddp, "bucket_bytes_cap_default", cap == 25 * MIB)
        else cap
    )
    sizes = ddp._get_ddp_logging_data().get("rebuilt_bucket_sizes", "")
    return {
        "name": name,
        "bucket_bytes": cap,
        "first_bucket_bytes": first,
        "bf16": hook_of(ddp) == "bf16_compress_hook",
        "zero1": False,
        "passes": 1,
        "rebuilt_bucket_bytes": [int(b) for b in sizes.split(",") if b.strip()],
    } | more


def gathered(value, device, group=None):
    """The values of all ranks, in order. PyTorch's own way needs NumPy."""
    if not dist.is_initialized():
        return [value]
    data = bytearray(json.dumps(value).encode())
    longest = torch.tensor([len(data)], device=device)
    dist.all_reduce(longest, op=dist.ReduceOp.MAX, group=group)
    own = torch.frombuffer(data.ljust(int(longest), b" "), dtype=torch.uint8).to(device)
    parts = [torch.empty_like(own) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, own, group)
    return [json.loads(bytes(part.tolist())) for part in parts]
