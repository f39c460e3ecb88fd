#!/usr/bin/env python3
"""Float64 reference vectors of the two tiny language models and of what trains them.

    python3 make_reference.py            writes tiny-2025.json, tiny-2024.json and parts.json next to this file

The files in the repository were made with Python 3.11.2 and PyTorch 1.13.0 (Debian's python3-torch), on x86-64 CPU.
Everything below is written from the formulas alone, in float64, with nothing shared with the Java code it checks; PyTorch
supplies elementary tensor operations and the derivatives. Random parameters are drawn once from a fixed seed and stored, so
another implementation needs none of PyTorch's generators. Where PyTorch has the same thing ready made (its own AdamW,
cross_entropy, clip_grad_norm_), this program asserts that the formulas here agree with it.

A tensor is {"dtype", "shape", "data"}: data is row-major and each float64 is the shortest decimal that reads back the same.
"""
import json
import math
import pathlib
import sys

import torch

torch.set_default_dtype(torch.float64)
torch.set_num_threads(1)
HERE = pathlib.Path(__file__).parent
HOW = "make_reference.py, PyTorch %s, Python %s" % (torch.__version__.split("+")[0], sys.version.split()[0])

CONFIG = dict(vocab_size=7, context_length=5, d_model=8, d_ff=6, num_layers=2, num_heads=2, batch_size=3)
ROPE_THETA = 10000.0
NORM_EPS = 1e-5
STEPS = 5
LR, BETA1, BETA2, WEIGHT_DECAY = 1e-2, 0.9, 0.95, 0.1


# ---- the model --------------------------------------------------------------------------------------------------------

def rms_norm(x, weight):
    return x / torch.sqrt((x ** 2).mean(-1, keepdim=True) + NORM_EPS) * weight


def rope(x):
    """Turns each pair (x[2i], x[2i+1]) at position t by the angle t / theta^(2i/d).  x: [batch, heads, T, d]"""
    T, d = x.shape[-2:]
    out = torch.empty_like(x)
    for t in range(T):
        for i in range(d // 2):
            angle = t / ROPE_THETA ** (2 * i / d)
            even, odd = x[:, :, t, 2 * i], x[:, :, t, 2 * i + 1]
            out[:, :, t, 2 * i] = even * math.cos(angle) - odd * math.sin(angle)
            out[:, :, t, 2 * i + 1] = even * math.sin(angle) + odd * math.cos(angle)
    return out


def attention(x, p, prefix, heads, rotate):
    B, T, D = x.shape
    q, k, v = (
        (x @ p[prefix + name + ".weight"].T).reshape(B, T, heads, D // heads).transpose(1, 2)
        for name in ("q_proj", "k_proj", "v_proj")
    )
    if rotate:
        q, k = rope(q), rope(k)
    scores = q @ k.transpose(-2, -1) / math.sqrt(D // heads)
    future = torch.arange(T)[None, :] > torch.arange(T)[:, None]
    weights = scores.masked_fill(future, -math.inf).softmax(-1)
    return (weights @ v).transpose(1, 2).reshape(B, T, D) @ p[prefix + "output_proj.weight"].T


def silu(x):
    return x / (1 + torch.exp(-x))


def gelu(x):
    return x * (1 + torch.erf(x / math.sqrt(2))) / 2


def forward(form, ids, p):
    T = ids.shape[1]
    x = p["token_embeddings.weight"][ids]
    if form == 2024:
        x = x + p["position_embeddings.weight"][:T]
    for n in range(CONFIG["num_layers"]):
        layer = "layers.%d." % n
        x = x + attention(rms_norm(x, p[layer + "ln1.weight"]), p, layer + "attn.", CONFIG["num_heads"], form == 2025)
        h = rms_norm(x, p[layer + "ln2.weight"])
        up = h @ p[layer + "ffn.w1.weight"].T
        inner = silu(up) * (h @ p[layer + "ffn.w3.weight"].T) if form == 2025 else gelu(up)
        x = x + inner @ p[layer + "ffn.w2.weight"].T
    head = p["lm_head.weight"] if form == 2025 else p["token_embeddings.weight"]
    return rms_norm(x, p["ln_final.weight"]) @ head.T


def cross_entropy(logits, targets):
    """Mean of -log softmax(logits)[target] over all tokens."""
    flat = logits.reshape(-1, logits.shape[-1])
    ours = (torch.logsumexp(flat, -1) - flat[torch.arange(len(flat)), targets.reshape(-1)]).mean()
    theirs = torch.nn.functional.cross_entropy(flat, targets.reshape(-1))
    assert torch.allclose(ours, theirs, rtol=1e-14, atol=0)
    return ours


def parameters(form):
    """Random, with matrices small enough that this program run in float32 has every gradient right to 5 ulps of its scale."""
    c, D, F = CONFIG, CONFIG["d_model"], CONFIG["d_ff"]
    p = {"token_embeddings.weight": torch.randn(c["vocab_size"], D)}
    if form == 2024:
        p["position_embeddings.weight"] = torch.randn(c["context_length"], D)
    for n in range(c["num_layers"]):
        layer = "layers.%d." % n
        p[layer + "ln1.weight"] = 1 + 0.3 * torch.randn(D)
        for name in ("q_proj", "k_proj", "v_proj", "output_proj"):
            p[layer + "attn." + name + ".weight"] = 0.25 * torch.randn(D, D)
        p[layer + "ln2.weight"] = 1 + 0.3 * torch.randn(D)
        p[layer + "ffn.w1.weight"] = 0.25 * torch.randn(F, D)
        p[layer + "ffn.w2.weight"] = 0.25 * torch.randn(D, F)
        if form == 2025:
            p[layer + "ffn.w3.weight"] = 0.25 * torch.randn(F, D)
    p["ln_final.weight"] = 1 + 0.3 * torch.randn(D)
    if form == 2025:
        p["lm_head.weight"] = 0.25 * torch.randn(c["vocab_size"], D)
    # Each is exact in float32 too: what a float32 model then loses, it loses by its own rounding.
    return {name: t.float().double() for name, t in p.items()}


def loss_and_gradients(form, ids, targets, p):
    leaves = {name: t.clone().requires_grad_() for name, t in p.items()}
    logits = forward(form, ids, leaves)
    loss = cross_entropy(logits, targets)
    return logits.detach(), loss.detach(), dict(zip(p, torch.autograd.grad(loss, list(leaves.values()))))


# ---- what trains it ---------------------------------------------------------------------------------------------------

def adamw(order, eps, p, m, v, g, t):
    """One update of the dictionaries p, m, v at step t = 1, 2, ..., given the gradients g."""
    for name in p:
        m[name] = BETA1 * m[name] + (1 - BETA1) * g[name]
        v[name] = BETA2 * v[name] + (1 - BETA2) * g[name] ** 2
        if order == "torch":
            p[name] = p[name] * (1 - LR * WEIGHT_DECAY)
            m_hat, v_hat = m[name] / (1 - BETA1 ** t), v[name] / (1 - BETA2 ** t)
            p[name] = p[name] - LR * m_hat / (torch.sqrt(v_hat) + eps)
            continue
        if order == "decay_before":  # the course of 2026
            p[name] = p[name] - LR * WEIGHT_DECAY * p[name]
        alpha = LR * math.sqrt(1 - BETA2 ** t) / (1 - BETA1 ** t)
        p[name] = p[name] - alpha * m[name] / (torch.sqrt(v[name]) + eps)
        if order == "decay_after":  # the courses of 2024 and 2025
            p[name] = p[name] - LR * WEIGHT_DECAY * p[name]


def clip(gradients, max_norm):
    """All gradients as one vector: scaled by max_norm / (norm + 1e-6) where its norm exceeds max_norm."""
    norm = math.sqrt(sum(float((g ** 2).sum()) for g in gradients.values()))
    scale = max_norm / (norm + 1e-6) if norm > max_norm else 1.0
    return {name: g * scale for name, g in gradients.items()}, norm


def cosine(t, max_lr, min_lr, warmup, end):
    """Learning rate of iteration t: linear up to max_lr at `warmup`, half a cosine down to min_lr at `end`, then constant."""
    if t < warmup:
        return t / warmup * max_lr
    if t > end:
        return min_lr
    return min_lr + (1 + math.cos((t - warmup) / (end - warmup) * math.pi)) / 2 * (max_lr - min_lr)


def zeros(p):
    return {name: torch.zeros_like(t) for name, t in p.items()}


def train(form, ids, targets, p, order, eps, max_norm):
    p, m, v = dict(p), zeros(p), zeros(p)
    theirs = {name: t.clone().requires_grad_() for name, t in p.items()}
    optimizer = torch.optim.AdamW(theirs.values(), lr=LR, betas=(BETA1, BETA2), eps=eps, weight_decay=WEIGHT_DECAY)
    losses, norms, after = [], [], []
    for t in range(1, STEPS + 1):
        _, loss, g = loss_and_gradients(form, ids, targets, p)
        losses.append(float(loss))
        if max_norm is not None:
            for name in g:
                theirs[name].grad = g[name].clone()
            their_norm = torch.nn.utils.clip_grad_norm_(theirs.values(), max_norm)
            g, norm = clip(g, max_norm)
            assert math.isclose(norm, their_norm, rel_tol=1e-14)
            assert all(torch.allclose(g[name], theirs[name].grad, rtol=1e-13, atol=0) for name in g)
            norms.append(norm)
        adamw(order, eps, p, m, v, g, t)
        after.append(tensors(p))
        if order == "torch":
            for name in g:
                theirs[name].grad = g[name].clone()
            optimizer.step()
            assert all(torch.allclose(p[name], theirs[name], rtol=1e-12, atol=1e-15) for name in p)
    options = dict(lr=LR, beta1=BETA1, beta2=BETA2, eps=eps, weight_decay=WEIGHT_DECAY)
    if max_norm is not None:
        options["max_norm"] = max_norm
    sequence = dict(options=options, losses=tensor(torch.tensor(losses)))
    if max_norm is not None:
        sequence["gradient_norms"] = tensor(torch.tensor(norms))
    sequence["parameters_after_step"] = after
    return sequence


# ---- the files --------------------------------------------------------------------------------------------------------

def tensor(t):
    return dict(dtype=str(t.dtype).replace("torch.", ""), shape=list(t.shape), data=t.reshape(-1).tolist())


def tensors(named):
    return {name: tensor(t) for name, t in named.items()}


def write(name, document):
    def text(value, indent):
        """One tensor a line, so that a difference between two versions can be read."""
        if isinstance(value, dict) and "dtype" not in value or isinstance(value, list) and value and isinstance(value[0], dict):
            pairs = value.items() if isinstance(value, dict) else [(None, v) for v in value]
            lines = [indent + " " + ("" if k is None else json.dumps(k) + ": ") + text(v, indent + " ") for k, v in pairs]
            return ("{\n%s\n%s}" if isinstance(value, dict) else "[\n%s\n%s]") % (",\n".join(lines), indent)
        return json.dumps(value, separators=(",", ":"), allow_nan=False)

    (HERE / name).write_text(text(document, "") + "\n")


def tiny(form, sequences):
    torch.manual_seed(form)
    p = parameters(form)
    shape = (CONFIG["batch_size"], CONFIG["context_length"])
    ids, targets = torch.randint(CONFIG["vocab_size"], shape), torch.randint(CONFIG["vocab_size"], shape)
    logits, loss, gradients = loss_and_gradients(form, ids, targets, p)
    short_logits = forward(form, ids[:, :4], p)  # a context shorter than the longest
    assert torch.allclose(short_logits, logits[:, :4], rtol=1e-12, atol=1e-14)
    document = dict(how=HOW, form=form, config=dict(CONFIG, rope_theta=ROPE_THETA, norm_eps=NORM_EPS))
    document.update(ids=tensor(ids), targets=tensor(targets), parameters=tensors(p))
    document.update(logits=tensor(logits), loss=tensor(loss), gradients=tensors(gradients))
    document["adamw"] = {order: train(form, ids, targets, p, order, eps, clip_at) for order, eps, clip_at in sequences}
    write("tiny-%d.json" % form, document)


def parts():
    """Optimizer, clipping, schedule and loss on their own: nothing here depends on the model."""
    torch.manual_seed(336)
    start = {"matrix": torch.randn(3, 4), "vector": torch.randn(5), "scalar": torch.randn(())}
    gradients = [{name: torch.randn(t.shape) * 10.0 ** (k - 3) for name, t in start.items()} for k in range(STEPS)]
    runs = []
    for order in ("decay_after", "decay_before", "torch"):
        for eps in (1e-8, 1e-2):
            p, m, v = dict(start), zeros(start), zeros(start)
            after = []
            for t in range(1, STEPS + 1):
                adamw(order, eps, p, m, v, gradients[t - 1], t)
                after.append(tensors(p))
            runs.append(dict(order=order, eps=eps, parameters_after_step=after, m=tensors(m), v=tensors(v)))
    clipped, norm = clip(gradients[3], 1.5)
    logits = torch.cat([3 * torch.randn(2, 4, 5), 1000 * torch.randn(1, 4, 5)])  # the last would overflow exp()
    targets = torch.randint(5, (3, 4))
    leaf = logits.clone().requires_grad_()
    loss = cross_entropy(leaf, targets)
    schedule = dict(max_lr=1e-3, min_lr=1e-4, warmup=7, end=21)
    write("parts.json", dict(
        how=HOW,
        adamw=dict(
            options=dict(lr=LR, beta1=BETA1, beta2=BETA2, weight_decay=WEIGHT_DECAY),
            parameters=tensors(start), gradients=[tensors(g) for g in gradients], runs=runs),
        clip=dict(max_norm=1.5, gradients=tensors(gradients[3]), norm=norm, clipped=tensors(clipped)),
        cross_entropy=dict(
            logits=tensor(logits), targets=tensor(targets), loss=tensor(loss.detach()),
            gradient=tensor(torch.autograd.grad(loss, leaf)[0])),
        cosine=dict(schedule, values=tensor(torch.tensor([cosine(t, **schedule) for t in range(26)])))))


tiny(2025, [("decay_after", 1e-8, None), ("decay_before", 1e-8, None), ("torch", 1e-8, None)])
tiny(2024, [("decay_after", 1e-3, 0.5), ("torch", 1e-3, 0.5)])
parts()
