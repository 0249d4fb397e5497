"""Knowledge-graph scores written by hand in float64 NumPy: what the models mean, apart from any text of them.

Sources: the papers named with each function; TransE to RESCAL in cuKE's Table II, whose signs are kept (the Trans
models but TransF are distances). Rows are `x @ W`: `y[k] = sum_d x[d] W[d, k]`. Each takes the rows of E, R and so
on already gathered, any leading axes first: `[..., D]`, matrices `[..., D, K]`.
"""

import numpy as np


def transe_l1(h, r, t):
    """Bordes et al. 2013: ||h + r - t||_1."""
    return np.sum(np.abs(h - t + r), axis=-1)


def transe_l2(h, r, t):
    """Bordes et al. 2013: ||h + r - t||_2."""
    return np.sqrt(np.sum((h - t + r) ** 2, axis=-1))


def transh(h, r, t, w):
    """Wang et al. 2014, w not normalised: ||e + r - (w.e) w||_2 with e = h - t."""
    e = h - t
    a = np.sum(w * e, axis=-1, keepdims=True)
    return np.sqrt(np.sum((e + r - a * w) ** 2, axis=-1))


def transr(h, r, t, P):
    """Lin et al. 2015: ||(h - t) P + r||_2; h, t are [D], r is [K], P is [D, K]."""
    return np.sqrt(np.sum((np.einsum("...d,...dk->...k", h - t, P) + r) ** 2, axis=-1))


def transf(h, r, t):
    """Feng et al. 2016: (h + r).t + h.(t - r) = 2 h.t + (t - h).r."""
    return 2 * np.sum(h * t, axis=-1) + np.sum((t - h) * r, axis=-1)


def rescal(h, P, t):
    """Nickel et al. 2011: h P t."""
    return np.einsum("...d,...dk,...k->...", h, P, t)


def distmult(h, r, t):
    """Yang et al. 2015: sum_d h_d r_d t_d."""
    return np.sum(h * r * t, axis=-1)


def complex_(h, r, t, h_imaginary, r_imaginary, t_imaginary):
    """Trouillon et al. 2016: the real part of sum_d h_d r_d conj(t_d)."""
    product = (h + 1j * h_imaginary) * (r + 1j * r_imaginary) * np.conj(t + 1j * t_imaginary)
    return np.sum(product, axis=-1).real


def rotate(h, phase, t, h_imaginary, t_imaginary):
    """Sun et al. 2019: sum_d |h_d exp(i phase_d) - t_d|, over complex numbers."""
    return np.sum(np.abs((h + 1j * h_imaginary) * np.exp(1j * phase) - (t + 1j * t_imaginary)), axis=-1)


def transd(h, r, t, h_projection, r_projection, t_projection):
    """Ji et al. 2015, D = K: ||h' + r - t'||_2 with e' = (r_p e_p^T + I) e."""
    identity = np.eye(h.shape[-1])

    def project(e, e_projection):
        matrix = np.einsum("...k,...d->...kd", r_projection, e_projection) + identity
        return np.einsum("...kd,...d->...k", matrix, e)

    return np.sqrt(np.sum((project(h, h_projection) + r - project(t, t_projection)) ** 2, axis=-1))


def simple(h_head, r, t_tail, h_tail, r_inverse, t_head):
    """Kazemi and Poole 2018: (<h_H, r, t_T> + <t_H, r^-1, h_T>) / 2; an entity has a row as head and one as tail."""
    forward = np.sum(h_head * r * t_tail, axis=-1)
    backward = np.sum(t_head * r_inverse * h_tail, axis=-1)
    return (forward + backward) / 2
