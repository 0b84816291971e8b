"""Plain numpy loops, written from the papers: slow, obvious, and sharing no code with the package.

The first ones return the errors e = w − w* after 0, 1, … steps, one row a step; H is dense. Those of the other
optimizers return a function (t, g, w) → the step to subtract, for `walk`. The random numbers and the noise of a run, at
the end, take its key and its settings from the package.
"""

import numpy as np

from quadsim.problems.noise import run_key


def gd(hessian, error, steps, lr):
    """lr: a number, or one for each coordinate."""
    path = [error]
    for _ in range(steps):
        path.append(path[-1] - lr * (hessian @ path[-1]))
    return np.array(path)


def frozen_adam(hessian, error, steps, lr, beta1=0.0):
    path, m, root_v = [error], np.zeros_like(error), np.abs(hessian @ error)
    for _ in range(steps):
        m = beta1 * m + (1 - beta1) * (hessian @ path[-1])
        path.append(path[-1] - lr * m / root_v)
    return np.array(path)


def adam(hessian, error, steps, lr, beta1, beta2, eps, bias_correction=True, init="zero"):
    path, m, v = [error], np.zeros_like(error), np.zeros_like(error)
    if init == "gradient":
        m, v = hessian @ error, (hessian @ error) ** 2
    for t in range(1, steps + 1):
        g = hessian @ path[-1]
        m = beta1 * m + (1 - beta1) * g
        v = beta2 * v + (1 - beta2) * g**2
        m_hat = m / (1 - beta1**t) if bias_correction else m
        v_hat = v / (1 - beta2**t) if bias_correction else v
        path.append(path[-1] - lr * m_hat / (np.sqrt(v_hat) + eps))
    return np.array(path)


def walk(hessian, error, steps, step, minimizer=0.0):
    """The errors after 0, 1, … steps of `step`, a function of the step's number from 1 on, the gradient and w."""
    path = [error]
    for t in range(1, steps + 1):
        path.append(path[-1] - step(t, hessian @ path[-1], path[-1] + minimizer))
    return np.array(path)


def over(numerator, denominator):
    """A ratio that is 0 where the denominator is."""
    return np.divide(numerator, denominator, out=np.zeros_like(numerator), where=denominator > 0)


def sgd(lr, momentum, dampening, nesterov, weight_decay):
    """torch's: the first velocity is the gradient."""
    velocity = None

    def step(t, g, w):
        nonlocal velocity
        g = g + weight_decay * w
        if momentum == 0:
            return lr * g
        velocity = g if velocity is None else momentum * velocity + (1 - dampening) * g
        return lr * (g + momentum * velocity) if nesterov else lr * velocity

    return step


def rmsprop(lr, alpha, eps, momentum, centered, weight_decay):
    """Tieleman & Hinton 2012; centered as in Graves 2013."""
    v = mean = velocity = 0.0

    def step(t, g, w):
        nonlocal v, mean, velocity
        g = g + weight_decay * w
        v = alpha * v + (1 - alpha) * g**2
        mean = alpha * mean + (1 - alpha) * g
        velocity = momentum * velocity + over(g, np.sqrt(v - mean**2 if centered else v) + eps)
        return lr * velocity

    return step


def adagrad(lr, lr_decay, initial_accumulator, eps, weight_decay):
    """Duchi, Hazan & Singer 2011, the diagonal one."""
    total = initial_accumulator

    def step(t, g, w):
        nonlocal total
        g = g + weight_decay * w
        total = total + g**2
        return lr / (1 + (t - 1) * lr_decay) * over(g, np.sqrt(total) + eps)

    return step


def moments(beta1, beta2, bias_correction, square=np.square):
    """Adam's two moving averages after each gradient, corrected for bias or not; `square` is what v averages."""
    m = v = 0.0

    def update(t, g):
        nonlocal m, v
        m, v = beta1 * m + (1 - beta1) * g, beta2 * v + (1 - beta2) * square(g)
        return (m / (1 - beta1**t), v / (1 - beta2**t)) if bias_correction else (m, v)

    return update


def adamw(lr, beta1, beta2, eps, bias_correction, weight_decay):
    """Loshchilov & Hutter 2019, Algorithm 2, with the decay multiplied by the lr."""
    update = moments(beta1, beta2, bias_correction)

    def step(t, g, w):
        m, v = update(t, g)
        return lr * (over(m, np.sqrt(v) + eps) + weight_decay * w)

    return step


def amsgrad(lr, beta1, beta2, eps, bias_correction):
    """Reddi, Kale & Kumar 2018, Algorithm 2; bias is corrected after the maximum, as in torch."""
    update, v_max = moments(beta1, beta2, False), 0.0

    def step(t, g, w):
        nonlocal v_max
        m, v = update(t, g)
        v_max = np.maximum(v_max, v)
        c1, c2 = (1 - beta1**t, 1 - beta2**t) if bias_correction else (1, 1)
        return lr * over(m / c1, np.sqrt(v_max / c2) + eps)

    return step


def nadam(lr, beta1, beta2, eps, momentum_decay):
    """Dozat 2016, with the schedule of momenta that he recommends."""
    update = moments(beta1, beta2, False)

    def mu(t):
        return beta1 * (1 - 0.5 * 0.96 ** (t * momentum_decay))

    def step(t, g, w):
        m, v = update(t, g)
        product = np.prod([mu(s) for s in range(1, t + 1)])
        ahead = mu(t + 1) * m / (1 - product * mu(t + 1)) + (1 - mu(t)) * g / (1 - product)
        return lr * over(ahead, np.sqrt(v / (1 - beta2**t)) + eps)

    return step


def adam_variance(lr, beta, eps):
    """Orvieto & Gower 2025, Proposition 1: β times the moving average of (m₋ − g)² beside m²."""
    m = variance = 0.0

    def step(t, g, w):
        nonlocal m, variance
        variance = beta * variance + (1 - beta) * (m - g) ** 2
        m = beta * m + (1 - beta) * g
        return lr * over(m, np.sqrt(m**2 + beta * variance) + eps)

    return step


def signgd(lr):
    return lambda t, g, w: lr * np.sign(g)


def signum(lr, beta, eps):
    """Bernstein et al. 2018; eps as in the code of Orvieto & Gower 2025."""
    m = 0.0

    def step(t, g, w):
        nonlocal m
        m = beta * m + (1 - beta) * g
        return lr * np.sign(m) if eps == 0 else lr * m / (np.abs(m) + eps)

    return step


def lion(lr, beta1, beta2, weight_decay):
    """Chen et al. 2023, Algorithm 2."""
    m = 0.0

    def step(t, g, w):
        nonlocal m
        c = beta1 * m + (1 - beta1) * g
        m = beta2 * m + (1 - beta2) * g
        return lr * (np.sign(c) + weight_decay * w)

    return step


def adam_mini(sizes, lr, beta1, beta2, eps, bias_correction):
    """Zhang et al. 2024, Algorithm 1: v averages the mean square of each block's gradient."""

    def square(g):
        parts = np.split(g, np.cumsum(sizes)[:-1])
        return np.concatenate([np.full(part.size, np.mean(part**2)) for part in parts])

    update = moments(beta1, beta2, bias_correction, square)

    def step(t, g, w):
        m, v = update(t, g)
        return lr * over(m, np.sqrt(v) + eps)

    return step


def adasgd(sizes, **settings):
    """Wang & Wiens 2020: one block holds all coordinates. The momentum is Adam's."""
    return adam_mini([sum(sizes)], **settings)


def muon(sizes, lr, beta, eps, nesterov, weight_decay, rows, ns_steps):
    """Jordan 2024 with the momentum of optax: corrected for bias, Nesterov's by the next step's correction."""
    m = 0.0

    def orthogonal(x):
        """Newton & Schulz's iteration on the singular values themselves."""
        left, values, right = np.linalg.svd(x, full_matrices=False)
        values = values / (np.sqrt(np.sum(values**2)) + eps)
        for _ in range(ns_steps):
            values = 3.4445 * values - 4.7750 * values**3 + 2.0315 * values**5
        return np.sqrt(max(1, x.shape[1] / x.shape[0])) * left @ np.diag(values) @ right

    def step(t, g, w):
        nonlocal m
        m = beta * m + (1 - beta) * g
        mixed = m / (1 - beta**t)
        if nesterov:
            mixed = beta * m / (1 - beta ** (t + 1)) + (1 - beta) * g / (1 - beta**t)
        parts = np.split(mixed, np.cumsum(sizes)[:-1])
        heights = [rows or max(d for d in range(1, n + 1) if n % d == 0 and d * d <= n) for n in sizes]
        moved = [orthogonal(part.reshape(height, -1)).ravel() for part, height in zip(parts, heights, strict=True)]
        return lr * (np.concatenate(moved) + weight_decay * w)

    return step


def skip_update(through, lr, beta1, beta2, eps, bias_correction, keep, rescale):
    """Joo et al. 2026, Algorithm 1; `through(t)` is whether each coordinate's step is let through."""
    base = adamw(lr, beta1, beta2, eps, bias_correction, 0.0)
    return lambda t, g, w: base(t, g, w) * through(t) / (keep if rescale else 1)


def magma(sizes, through, lr, beta1, beta2, eps, bias_correction, momentum, tau, smoothing, first_scale):
    """Joo et al. 2026, Algorithm 1: each block's steps are scaled by how well momentum and gradient agree."""
    base, mean, scale = adamw(lr, beta1, beta2, eps, bias_correction, 0.0), 0.0, np.full(len(sizes), first_scale)

    def cosine(one, other):
        return one @ other / (np.linalg.norm(one) * np.linalg.norm(other))

    def step(t, g, w):
        nonlocal mean, scale
        mean = momentum * mean + (1 - momentum) * g
        pairs = zip(np.split(mean, np.cumsum(sizes)[:-1]), np.split(g, np.cumsum(sizes)[:-1]), strict=True)
        scores = np.array([1 / (1 + np.exp(-cosine(*pair) / tau)) for pair in pairs])
        scale = smoothing * scale + (1 - smoothing) * scores
        return np.repeat(scale, sizes) * through(t) * base(t, g, w)

    return step


def measures(hessian, path):
    """Loss and gradient norm along a path of errors."""
    gradients = path @ hessian
    return 0.5 * np.einsum("ti,ti->t", path, gradients), np.linalg.norm(gradients, axis=1)


# ---- random numbers and noise

BATCH, GRADIENT, LABELS, RULE = range(4)  # what random numbers are for: the third word of the counter


def random_words(seed, step, count, use):
    """The first `count` random words of a run for a step, 1 for the first, and a use."""
    return np.random.Philox(key=run_key(seed), counter=[0, step, use, 0]).random_raw(count)


def uniforms(seed, step, count):
    """The uniform numbers that rules see as `random`, one for each coordinate (or block)."""
    return (random_words(seed, step, count, RULE) >> np.uint64(11)) * 2.0**-53


def gaussians(seed, step, count, use):
    """The standard normal numbers of a step."""
    from scipy.special import ndtri

    return ndtri(((random_words(seed, step, count, use) >> np.uint64(12)) + 0.5) * 2.0**-52)


def minibatch_rows(seed, step, batch, count):
    """The rows, of `count`, that the minibatch of a step holds."""
    few = min(batch, count - batch)
    drawn = set()
    for pick, word in enumerate(random_words(seed, step, few, BATCH) if few else []):
        last = count - few + pick
        row = (int(word) * (last + 1)) >> 64
        drawn.add(last if row in drawn else row)
    taken = drawn if few == batch else set(range(count)) - drawn
    return np.array(sorted(taken), dtype=np.int64)


def noisy_gradient(noise, problem, error, seed, step):
    """The gradient that a step sees at an error."""
    n = problem.dim
    scales = {"residual": 0.0, "gradient": 0.0}
    for model in noise.models:
        scales["residual" if model.on_residual else "gradient"] = model.kernel_scale(n)
    if noise.on_rows:
        examples = noise.examples(problem)
        residual = np.concatenate([a @ part for a, part in zip(examples, problem.split(error), strict=True)])
        residual += scales["residual"] * gaussians(seed, step, n, LABELS)
        if noise.batch is not None:
            weight = np.zeros(n)
            weight[minibatch_rows(seed, step, noise.batch, n)] = n / noise.batch
            residual *= weight
        seen = np.concatenate([a.T @ part for a, part in zip(examples, problem.split(residual), strict=True)])
    else:
        seen = problem.hvp(error)
    return seen + scales["gradient"] * gaussians(seed, step, n, GRADIENT)
