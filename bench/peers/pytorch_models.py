"""gradsync's models in plain PyTorch: the same layers, names and losses. Their weights come from gradsync."""

import torch
import torch.nn.functional as F

NUM_CLASSES = 1000
EPSILON = 1e-5  # of rms_norm


def rms_norm(d_model):
    # With PyTorch 2.15 on a CPU 4 % of a step of `tiny`, 2 x 64, faster than by hand.
    return torch.nn.RMSNorm(d_model, EPSILON)


def linear(d_in, d_out):
    return torch.nn.Linear(d_in, d_out, bias=False)


class Block(torch.nn.Module):
    def __init__(self, d_model, d_ff, heads):
        super().__init__()
        self.heads = heads
        self.ln1, self.ln2 = rms_norm(d_model), rms_norm(d_model)
        names = ("q_proj", "k_proj", "v_proj", "output_proj")
        self.attn = torch.nn.ModuleDict({name: linear(d_model, d_model) for name in names})
        self.ffn = torch.nn.ModuleDict(
            {"w1": linear(d_model, d_ff), "w3": linear(d_model, d_ff), "w2": linear(d_ff, d_model)})

    def forward(self, x, cos, sin):
        batch, seq, d_model = x.shape

        def heads(t):
            return t.view(batch, seq, self.heads, -1).transpose(1, 2)

        def rope(t):
            even, odd = t[..., 0::2], t[..., 1::2]
            return torch.stack((even * cos - odd * sin, even * sin + odd * cos), -1).flatten(-2)

        h = self.ln1(x)
        q, k, v = rope(heads(self.attn.q_proj(h))), rope(heads(self.attn.k_proj(h))), heads(self.attn.v_proj(h))
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.attn.output_proj(a.transpose(1, 2).reshape(batch, seq, d_model))
        h = self.ln2(x)
        return x + self.ffn.w2(F.silu(self.ffn.w1(h)) * self.ffn.w3(h))


class Transformer(torch.nn.Module):
    def __init__(self, shape, vocab_size, seq_len, device):
        super().__init__()
        d_model, d_ff, layers, heads = shape
        self.token_embeddings = torch.nn.Embedding(vocab_size, d_model)
        self.layers = torch.nn.ModuleList(Block(d_model, d_ff, heads) for _ in range(layers))
        self.ln_final = rms_norm(d_model)
        self.lm_head = linear(d_model, vocab_size)
        head_dim = d_model // heads
        angles = torch.outer(torch.arange(seq_len), 10000.0 ** (-torch.arange(0, head_dim, 2) / head_dim))
        # Not buffers: DistributedDataParallel would broadcast them.
        self.cos, self.sin = angles.cos().to(device), angles.sin().to(device)

    def forward(self, ids, targets):
        x = self.token_embeddings(ids)
        for layer in self.layers:
            x = layer(x, self.cos, self.sin)
        logits = self.lm_head(self.ln_final(x))
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


class Bottleneck(torch.nn.Module):
    """A block of ResNet-50; as in torchvision, its stride is in the 3 x 3 convolution."""

    def __init__(self, channels_in, inside, stride):
        super().__init__()
        out = 4 * inside
        self.conv1, self.bn1 = conv(channels_in, inside, 1), torch.nn.BatchNorm2d(inside)
        self.conv2, self.bn2 = conv(inside, inside, 3, stride), torch.nn.BatchNorm2d(inside)
        self.conv3, self.bn3 = conv(inside, out, 1), torch.nn.BatchNorm2d(out)
        self.downsample = None
        if stride != 1 or channels_in != out:
            self.downsample = torch.nn.Sequential(conv(channels_in, out, 1, stride), torch.nn.BatchNorm2d(out))

    def forward(self, x):
        h = F.relu(self.bn1(self.conv1(x)), inplace=True)
        h = F.relu(self.bn2(self.conv2(h)), inplace=True)
        h = self.bn3(self.conv3(h))
        h += x if self.downsample is None else self.downsample(x)
        return F.relu(h, inplace=True)


def conv(channels_in, out, size, stride=1):
    return torch.nn.Conv2d(channels_in, out, size, stride, padding=size // 2, bias=False)


class ResNet50(torch.nn.Module):
    """Names are torchvision's. `width`: channels of the first layer, 64 unless it is a narrower model."""

    def __init__(self, width):
        super().__init__()
        self.conv1, self.bn1 = conv(3, width, 7, 2), torch.nn.BatchNorm2d(width)
        channels = width
        for stage, blocks in enumerate((3, 4, 6, 3)):
            layer = torch.nn.Sequential()
            for i in range(blocks):
                inside = width << stage
                layer.append(Bottleneck(channels, inside, 2 if stage > 0 and i == 0 else 1))
                channels = 4 * inside
            setattr(self, f"layer{stage + 1}", layer)
        self.fc = torch.nn.Linear(channels, NUM_CLASSES)

    def forward(self, images, targets):
        x = F.relu(self.bn1(self.conv1(images)), inplace=True)
        x = F.max_pool2d(x, 3, 2, 1)
        for layer in (self.layer1, self.layer2, self.layer3, self.layer4):
            x = layer(x)
        return F.mse_loss(self.fc(x.mean((2, 3))), targets)


def make_model(config, device):
    """`config`: a record's."""
    if "image_size" in config:
        # With PyTorch 2.15 on a CPU, batches of 4 images of 96 pixels, a step takes 0.85 +- 0.04 of the time that it
        # takes in the default layout; of 8 images of 64 pixels 0.70 +- 0.04.
        return ResNet50(config["width"]).to(device, memory_format=torch.channels_last)
    shape = [config[name] for name in ("d_model", "d_ff", "num_layers", "num_heads")]
    return Transformer(shape, config["vocab_size"], config["seq_len"], device).to(device)


def random_batch(config, generator):
    """Inputs and targets of one rank."""
    rows = config["batch_size"]
    if "image_size" in config:
        return [torch.rand(shape, generator=generator) for shape in (
            (rows, 3, config["image_size"], config["image_size"]), (rows, NUM_CLASSES))]
    return [torch.randint(config["vocab_size"], (rows, config["seq_len"]), generator=generator) for _ in range(2)]
