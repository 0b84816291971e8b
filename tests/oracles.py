"""Plain numpy loops, written from the papers: slow, obvious, and sharing no code with the package.

Each returns the errors e = w − w* after 0, 1, … steps, one row a step; H is dense.
"""

import numpy as np


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


def measures(hessian, path):
    """Loss and gradient norm along a path of errors."""
    gradients = path @ hessian
    return 0.5 * np.einsum("ti,ti->t", path, gradients), np.linalg.norm(gradients, axis=1)
