"""Measuring curvature: operators, Lanczos and networks against dense matrices, finite differences and curvlinops."""

import gzip
import json
import math
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose

torch = pytest.importorskip("torch", reason="torch is not installed: pip install 'quadsim[torch]'")

from torch import nn
from torch.nn.functional import cross_entropy

import quadsim as qs
from quadsim import hessian
from quadsim._validation import InputError
from quadsim.cli import main as cli
from quadsim.hessian import batches, lanczos, memory, models
from quadsim.hessian.convnets import MLP, VGG16, ResNet18
from quadsim.hessian.transformers import BERT, GPT2, ViT

pytestmark = pytest.mark.slow
F64 = torch.float64
torch.set_num_threads(1)  # networks this small gain nothing from two, and are much slower on a busy machine


@pytest.fixture(scope="module")
def tiny():
    """Small networks of every kind in float64, each with outputs and loss."""
    torch.manual_seed(0)
    tokens = torch.randint(0, 40, (2, 12))
    nexts = torch.randint(0, 40, (2, 12))
    images = torch.randn(6, 3, 16, 16, dtype=F64)
    classes = torch.randint(0, 5, (6,))
    flat = torch.randn(20, 1, 4, 4, dtype=F64)
    labels = torch.randint(0, 4, (20,))
    nets = {
        "gpt2": (GPT2(layers=2, width=16, heads=2, vocabulary=40, context=12), tokens, nexts),
        "bert": (BERT(layers=2, width=16, heads=2, vocabulary=40, context=12), tokens, nexts),
        "vit": (ViT(layers=2, width=12, heads=2, patch=4, image=(16, 16), classes=5), images, classes),
        "resnet": (ResNet18(classes=5), images, classes),
        "mlp": (MLP(inputs=16, hidden=(10, 8), classes=4), flat, labels),
    }

    def task(name, mode="evaluation"):
        net, x, y = nets[name]
        net = net.double().train(mode == "training")
        return net, lambda: net(x), lambda z: cross_entropy(z.flatten(0, -2), y.flatten())

    return task


BLOCKS = [
    ("gpt2", "embedding.weight"),
    ("gpt2", "layer1.query.weight"),
    ("gpt2", "layer1.norm1.weight"),
    ("bert", "layer0.value.weight"),
    ("vit", "layer1.mlp_in.weight"),
    ("vit", "patches.weight"),
    ("mlp", "layer1.weight"),
]


@pytest.mark.parametrize(("net", "block"), BLOCKS)
def test_products_are_finite_differences_of_gradients(tiny, net, block):
    module, outputs, loss = tiny(net)
    parameter = dict(module.named_parameters())[block]
    v = torch.from_numpy(np.random.default_rng(0).standard_normal(parameter.numel()))
    v /= v.norm()
    with hessian.operator(module, block, outputs, loss) as product:
        found = product(v)
    step, ends = 1e-5, []
    kept = parameter.detach().clone()
    for sign in (1, -1):
        with torch.no_grad():
            parameter.copy_(kept + sign * step * v.view_as(parameter))
        ends.append(torch.autograd.grad(loss(outputs()), parameter)[0].reshape(-1))
    with torch.no_grad():
        parameter.copy_(kept)
    by_difference = (ends[0] - ends[1]) / (2 * step)
    # Central differences in float64: about step² of the fourth derivative, and 1e-16/step of rounding.
    assert_allclose(found.numpy(), by_difference.detach().numpy(), atol=1e-6 * float(found.norm()) + 1e-11)


SMALL = [
    ("gpt2", "layer1.query.weight"),
    ("bert", "layer0.value.weight"),
    ("vit", "layer1.query.weight"),
    ("mlp", "layer1.weight"),
]


@pytest.mark.parametrize(("net", "block"), SMALL)
def test_products_of_gauss_newton(tiny, net, block):
    """JᵀQJ written out: J row by row, Q by torch.autograd.functional.hessian."""
    module, outputs, loss = tiny(net)
    parameters = dict(module.named_parameters())
    z = outputs()
    rows = [torch.autograd.grad(one, parameters[block], retain_graph=True)[0].reshape(-1) for one in z.reshape(-1)]
    jacobian = torch.stack(rows)
    flat = z.detach().reshape(-1)
    curve = torch.autograd.functional.hessian(lambda u: loss(u.view_as(z)), flat)
    dense = jacobian.T @ curve @ jacobian
    with hessian.operator(module, block, outputs, loss, curvature="gauss-newton") as product:
        found = hessian.dense(product, parameters[block].numel())
    assert_allclose(found.numpy(), dense.numpy(), atol=1e-12 * float(dense.abs().max()) + 1e-18)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torch's, in its forward mode
def test_products_are_those_of_curvlinops():
    curvlinops = pytest.importorskip("curvlinops", reason="curvlinops is not installed")
    module, x = nn.Sequential(nn.Linear(5, 7), nn.Tanh(), nn.Linear(7, 3)).double(), torch.randn(9, 5, dtype=F64)
    y = torch.randint(0, 3, (9,))
    for parameter in module.parameters():
        parameter.requires_grad_(parameter is module[0].weight)
    chosen = [module[0].weight]
    v = torch.randn(35, dtype=F64)
    for kind, peer in (("hessian", curvlinops.HessianLinearOperator), ("gauss-newton", curvlinops.GGNLinearOperator)):
        theirs = peer(module, nn.CrossEntropyLoss(), chosen, [(x, y)]) @ v
        parts = (lambda: module(x), lambda z: cross_entropy(z, y))
        with hessian.operator(module, "0.weight", *parts, curvature=kind) as product:
            assert_allclose(product(v).numpy(), theirs.detach().numpy(), rtol=1e-9, atol=1e-12)


def test_the_hessian_of_a_relu_network_is_its_gauss_newton_matrix_in_evaluation_mode_only(tiny):
    for mode, same in (("evaluation", True), ("training", False)):
        module, outputs, loss = tiny("resnet", mode)
        v = torch.ones(module.conv1.weight.numel(), dtype=F64)
        products = []
        for kind in ("hessian", "gauss-newton"):
            with hessian.operator(module, "conv1.weight", outputs, loss, curvature=kind) as product:
                products.append(product(v))
        apart = float((products[0] - products[1]).norm() / products[1].norm())
        assert (apart < 1e-10) == same, (mode, apart)


def test_the_module_is_restored(tiny):
    module, outputs, loss = tiny("resnet", "training")
    module.fc.bias.requires_grad_(False)
    before = {name: value.clone() for name, value in module.state_dict().items()}
    with hessian.operator(module, "conv1.weight", outputs, loss) as product:
        product(torch.ones(module.conv1.weight.numel(), dtype=F64))
    for name, value in module.state_dict().items():
        assert torch.equal(value, before[name]), name
    before = {name: value.clone() for name, value in module.state_dict().items()}
    hessian.measure(module, outputs, loss, blocks=["fc"], lanczos_steps=2, probes=1)
    for name, value in module.state_dict().items():
        assert torch.equal(value, before[name]), name
    assert module.fc.weight.requires_grad
    assert not module.fc.bias.requires_grad
    module.fc.bias.requires_grad_(True)


@pytest.mark.parametrize(("net", "block"), [("gpt2", "layer1.value.weight"), ("mlp", "layer0.weight")])
def test_lanczos_finds_the_dense_spectrum(tiny, net, block):
    """Extremes to 1e-6, and the density's first four moments within the sampling error of 60 probes."""
    module, outputs, loss = tiny(net)
    size = dict(module.named_parameters())[block].numel()
    with hessian.operator(module, block, outputs, loss) as product:
        eigenvalues = np.linalg.eigvalsh(hessian.dense(product, size).numpy())
        rules = [
            hessian.quadrature(product, np.random.default_rng(probe).standard_normal(size), 60, F64)
            for probe in range(60)
        ]
    scale = abs(eigenvalues).max()
    for rule in rules[:5]:
        assert_allclose(rule.nodes[-1], eigenvalues[-1], rtol=1e-6)
        assert_allclose(rule.nodes[0], eigenvalues[0], atol=1e-6 * scale)
        assert rule.residuals[-1] < 1e-6 * scale
        assert rule.asymmetry < 1e-10
    for power in (1, 2, 3, 4):
        exact = np.mean((eigenvalues / scale) ** power)
        samples = np.array([rule.weights @ (rule.nodes / scale) ** power for rule in rules])
        error = samples.std(ddof=1) / math.sqrt(len(samples))
        assert abs(samples.mean() - exact) < 4 * error, (power, samples.mean(), exact, error)


def test_the_quadrature_is_exact_for_polynomials():
    """Gauss: m nodes integrate powers up to 2m − 1 against the spectral measure of the start, and not the next."""
    eigenvalues = np.linspace(-1, 1, 50)
    start = np.random.default_rng(0).standard_normal(50)
    rule = hessian.quadrature(lambda v: torch.from_numpy(eigenvalues) * v, start, 5, F64)
    weights = start**2 / (start @ start)
    for power in range(10):
        assert_allclose(rule.weights @ rule.nodes**power, weights @ eigenvalues**power, rtol=1e-12, atol=1e-13)
    assert abs(rule.weights @ rule.nodes**10 - weights @ eigenvalues**10) > 1e-5


def test_float32_keeps_the_basis_orthogonal():
    """A basis in float32, sums in float64: the outer nodes are eigenvalues to float32's rounding after 60 steps."""
    rng = np.random.default_rng(1)
    eigenvalues = np.concatenate([rng.standard_normal(3 * lanczos.MAX_COLUMNS + 7) * 1e-3, [5.0, -4.0, 3.0, 2.9]])
    diagonal = torch.from_numpy(eigenvalues.astype(np.float32))
    rule = hessian.quadrature(lambda v: diagonal * v, rng.standard_normal(eigenvalues.size), 60, torch.float32)
    assert_allclose(rule.nodes[[-1, -2, -3, 0]], [5, 3, 2.9, -4], rtol=1e-6)
    assert sum(rule.nodes > 1) == 3  # none appears twice, as it would without reorthogonalization
    assert_allclose(rule.weights.sum(), 1, rtol=1e-12)


def test_an_invariant_subspace_ends_the_steps():
    rule = hessian.quadrature(lambda v: v * torch.tensor([1.0, 2.0, 2.0, 2.0], dtype=F64), np.ones(4), 4, F64)
    assert_allclose(rule.nodes, [1, 2])
    assert_allclose(rule.weights, [0.25, 0.75])
    assert (rule.residuals < 1e-12).all()


COUNTS = {
    "gpt2": 124_439_808,  # as in the released weights
    "resnet18": 11_689_512,  # torchvision's
    "vgg16": 138_365_992,  # torchvision's vgg16_bn
    "mlp": 784 * 128 + 128 + 128 * 128 + 128 + 1280 + 10,
}


@pytest.mark.parametrize("name", COUNTS)
def test_parameter_counts(name):
    with torch.device("meta"):
        module = models.MODELS[name].build(models.MODELS[name].size)
    assert models.count(module) == COUNTS[name]


@pytest.mark.parametrize("name", ["gpt2-nano", "vit-small", "resnet18", "mlp"])
def test_networks_start_near_the_loss_of_guessing(name):
    """ln of the number of classes, 10.82 for GPT2, plus half the variance of the logits, which is large in ResNet18."""
    described = models.MODELS[name]
    network = models.build(name, seed=0).eval()
    rng = torch.Generator().manual_seed(0)
    if described.reads == "images":
        x = torch.randn(8, described.channels, *described.size, generator=rng)
        y, classes = torch.randint(0, described.classes, (8,), generator=rng), described.classes
    else:
        x = torch.randint(0, network.vocabulary, (2, 32), generator=rng)
        y, classes = torch.randint(0, network.vocabulary, (2, 32), generator=rng), network.vocabulary
    with torch.no_grad():
        logits = network(x).flatten(0, -2)
        loss = float(cross_entropy(logits, y.flatten()))
    # The mean over y has a standard error of the logits' deviation over the root of the batch.
    spread = float(logits.std(1).mean())
    assert abs(loss - math.log(classes) - spread**2 / 2) < 3 * spread / math.sqrt(len(logits)) + 0.05


def test_initialization_is_that_of_the_papers():
    net = GPT2(layers=4, width=256, heads=4, vocabulary=500, context=64)
    stds = {"embedding": 0.02, "layer2.query": 0.02, "layer2.mlp_in": 0.02}
    stds |= {"layer2.attention_out": 0.02 / math.sqrt(8), "layer2.mlp_out": 0.02 / math.sqrt(8)}
    for name, std in stds.items():
        part = net.get_submodule(name)
        assert_allclose(float(part.weight.detach().std()), std, rtol=0.02)
    assert float(net.layer0.query.bias.detach().abs().max()) == 0
    vit = ViT(layers=1, width=192, heads=3, classes=400)
    assert_allclose(float(vit.layer0.mlp_in.weight.detach().std()), 0.02, rtol=0.02)
    assert_allclose(float(vit.patches.weight.detach().std()), 1 / math.sqrt(3 * 192), rtol=0.02)  # uniform ±1/√fan_in
    bert = BERT(layers=1, width=128, heads=2, vocabulary=300, context=64)
    assert float(bert.layer0.mlp_in.weight.detach().abs().max()) <= 0.04  # cut at two standard deviations
    conv = ResNet18().layer3[0].conv1.weight.detach()
    assert_allclose(float(conv.std()), math.sqrt(2 / (256 * 9)), rtol=0.02)
    with torch.device("meta"):
        assert not any(isinstance(part, nn.Dropout) for part in VGG16().modules())


def test_gpt2_is_causal():
    net = GPT2(layers=2, width=16, heads=2, vocabulary=40, context=12).eval()
    one, other = torch.arange(12)[None], torch.arange(12)[None].clone()
    other[0, 7:] = 3
    with torch.no_grad():
        apart = (net(one) - net(other)).abs().amax(2)[0]
    assert float(apart[:7].max()) == 0
    assert float(apart[7:].min()) > 0


def test_the_memory_estimate_agrees_with_a_real_run(tiny):
    """The estimate on fake tensors is near the peak of the same run on real ones; `_Live` counts live tensors."""
    live = memory._Live()
    with live:
        held = [torch.zeros(1000) for _ in range(10)]
        del held[5:]
        torch.zeros(100)
    assert (live.peak, live.now) == (40_000, 20_000)
    module, outputs, loss = tiny("gpt2")
    estimate = memory.graph_bytes(module, "embedding.weight", outputs, loss, "hessian")
    live = memory._Live()
    with live, hessian.operator(module, "embedding.weight", outputs, loss) as product:
        product(torch.zeros(640, dtype=F64))
    assert estimate is not None
    assert 0.7 * live.peak <= estimate <= 1.5 * live.peak
    assert memory.available() is None or memory.available() > 2**20


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.two = nn.Linear(6, 5), nn.Linear(5, 3)

    def forward(self, x):
        return self.two(torch.tanh(self.one(x)))


@pytest.fixture
def network():
    torch.manual_seed(3)
    net, x, y = Net(), torch.randn(20, 6), torch.randint(0, 3, (20,))
    return net, lambda: net(x), lambda z: cross_entropy(z, y)


def test_a_user_defined_network_in_five_lines(network, tmp_path):
    net, outputs, loss = network
    measured = hessian.measure(net, outputs, loss, blocks=["one", "two"], lanczos_steps=30, out=tmp_path / "mine.npz")
    problem = qs.case(1, network=tmp_path / "mine.npz", blocks=["one", "two"], block_size=6)
    assert problem.kappa == 5000
    again = qs.spectra.load(tmp_path / "mine.npz")
    assert again.finished
    assert [block.size for block in again.blocks.values()] == [30, 15]
    with hessian.operator(net, "one.weight", outputs, loss) as product:
        dense = hessian.dense(product, 30, torch.float32).double().numpy()
    assert_allclose(measured.blocks["one"].nodes[0][-1], np.linalg.eigvalsh(dense)[-1], rtol=1e-5)


def same(one, other):
    """Whether all numbers are bit-identical."""
    return one.blocks.keys() == other.blocks.keys() and all(
        (a == b).all()
        for name in one.blocks
        for part in ("nodes", "weights", "residuals")
        for a, b in zip(getattr(one.blocks[name], part), getattr(other.blocks[name], part), strict=True)
    )


def test_the_same_seed_gives_the_same_numbers_and_another_does_not(network):
    one, again, other = (hessian.measure(*network, lanczos_steps=5, seed=seed) for seed in (4, 4, 5))
    assert same(one, again)
    assert not same(one, other)


def test_an_interrupted_measurement_continues_with_the_same_result(network, tmp_path):
    net, outputs, loss = network
    whole = hessian.measure(net, outputs, loss, lanczos_steps=5, probes=3, out=tmp_path / "whole.npz")
    path = tmp_path / "parts.npz"
    for products in (13, 9):  # in the middle of a probe: the third of block one, then the first of block two
        ticks = iter(range(products))

        def cut(stage, ticks=ticks):
            if next(ticks, None) is None:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            hessian.measure(net, outputs, loss, lanczos_steps=5, probes=3, out=path, progress=cut)
    assert {name: block.probes for name, block in qs.spectra.load(path).blocks.items()} == {"one": 3}
    assert not qs.spectra.load(path).finished
    assert same(hessian.measure(net, outputs, loss, lanczos_steps=5, probes=3, out=path), whole)
    with pytest.raises(InputError, match="is finished: choose another out=, or set overwrite=true"):
        hessian.measure(net, outputs, loss, lanczos_steps=5, probes=3, out=path)
    with pytest.raises(InputError, match="was measured with lanczos_steps=5, not 6"):
        hessian.measure(net, outputs, loss, lanczos_steps=6, probes=3, out=path)
    assert same(qs.spectra.load(path), whole)
    assert hessian.measure(net, outputs, loss, lanczos_steps=6, probes=3, out=path, overwrite=True).finished


def test_another_block_is_added_to_a_finished_file(network, tmp_path):
    net, outputs, loss = network
    path = tmp_path / "net.npz"
    hessian.measure(net, outputs, loss, blocks=["one"], lanczos_steps=5, out=path)
    hessian.measure(net, outputs, loss, blocks=["one", "two"], lanczos_steps=5, out=path)
    both = qs.spectra.load(path)
    assert list(both.blocks) == ["one", "two"]
    assert both.finished


def test_a_file_with_an_unfinished_block_is_not_finished(network, tmp_path):
    net, outputs, loss = network
    path = tmp_path / "net.npz"

    def cut(stage):
        if stage.probe == 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        hessian.measure(net, outputs, loss, blocks=["one"], lanczos_steps=5, out=path, progress=cut, command="first")
    after = hessian.measure(net, outputs, loss, blocks=["two"], lanczos_steps=5, out=path, command="second")
    assert {name: block.probes for name, block in after.blocks.items()} == {"one": 1, "two": 2}
    assert not after.finished
    assert after.provenance["command"] == "first && second"
    assert hessian.measure(net, outputs, loss, blocks=["one", "two"], lanczos_steps=5, out=path, command="all").finished
    assert qs.spectra.load(path).provenance["command"] == "all"


def test_a_file_is_not_continued_with_another_network(network, tmp_path):
    net, outputs, loss = network
    hessian.measure(net, outputs, loss, blocks=["one"], lanczos_steps=5, out=tmp_path / "net.npz")
    with torch.no_grad():
        net.two.weight.mul_(2)
    with pytest.raises(InputError, match=r"was measured at a loss of .*, not"):
        hessian.measure(net, outputs, loss, blocks=["two"], lanczos_steps=5, out=tmp_path / "net.npz")


def test_two_processes_do_not_measure_into_one_file(network, tmp_path):
    net, outputs, loss = network
    path, refused = tmp_path / "net.npz", []

    def meanwhile(message):
        if "probe" in message and not refused:
            with pytest.raises(InputError, match="another process is measuring into") as caught:
                hessian.measure(net, outputs, loss, blocks=["two"], lanczos_steps=5, out=path)
            refused.append(caught.value)

    hessian.measure(net, outputs, loss, blocks=["one"], lanczos_steps=5, out=path, state=meanwhile)
    assert len(refused) == 1
    assert [file.name for file in tmp_path.iterdir()] == ["net.npz"]
    assert hessian.measure(net, outputs, loss, blocks=["two"], lanczos_steps=5, out=path).finished


def test_the_attention_of_torch_can_be_measured():
    layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
    x = torch.randn(3, 5, 8)
    measured = hessian.measure(
        layer, lambda: layer(x), lambda z: (z**4).mean(), blocks=["self_attn.in_proj_weight"], lanczos_steps=4
    )
    assert measured.blocks["self_attn.in_proj_weight"].largest > 0


def module_with(parameter):
    module = nn.Module()
    module.p = parameter
    return module


@pytest.mark.parametrize(
    ("module", "loss", "message"),
    [
        (nn.Linear(2, 2).bfloat16(), lambda z: z.sum(), "block weight must be float32 or float64"),
        (module_with(nn.Parameter(torch.ones(2) * 1j)), lambda z: z, "block p must be float32 or float64"),
        (module_with(nn.Parameter(torch.zeros(0))), lambda z: z.sum(), "block p is empty or uninitialized"),
        (nn.LazyLinear(2), lambda z: z.sum(), "is empty or uninitialized"),
        (nn.Linear(2, 2), lambda z: z, "the loss must be a tensor of one real number"),
        (nn.Linear(2, 2), lambda z: 3.0, "the loss must be a tensor of one real number, got 3.0"),
        (nn.Linear(2, 2), lambda z: z.sum() * float("nan"), "the loss must be finite, got nan"),
        (nn.Linear(2, 2), 3, "loss must be a function, got 3"),
        (nn.Sequential(), lambda z: z, "at least one block"),
        (7, lambda z: z, "module must be a torch.nn.Module, got 7"),
    ],
)
def test_odd_modules_and_losses(module, loss, message, check_refused):
    x = torch.ones(3, 2)
    check_refused(lambda: hessian.measure(module, lambda: module(x), loss, lanczos_steps=3), message)


class Linear(nn.Module):
    """A block in which the loss is linear, one on which it does not depend, and one that is neither."""

    def __init__(self):
        super().__init__()
        self.slope, self.unseen = nn.Parameter(torch.ones(4)), nn.Parameter(torch.ones(4))
        self.real = nn.Parameter(torch.ones(4))


def test_a_zero_hessian_is_refused_and_earlier_results_are_kept(tmp_path):
    net = Linear()
    path = tmp_path / "net.npz"

    def outputs():
        return net.slope.sum() + (net.real**4).sum()

    for block in ("slope", "unseen"):
        with pytest.raises(InputError, match=f"block {block}: its hessian is zero: .*earlier results are in") as caught:
            hessian.measure(net, outputs, lambda z: z, blocks=["real", block], lanczos_steps=3, out=path)
        assert "\n" not in str(caught.value)
        assert list(qs.spectra.load(path).blocks) == ["real"]


@pytest.mark.parametrize("seed", range(6))
def test_rounding_is_not_taken_for_curvature(seed):
    """Softmax does not depend on a key's bias: its Hessian is rounding noise, and noise is not symmetric."""
    torch.manual_seed(seed)
    net, tokens = GPT2(layers=2, width=32, heads=2, vocabulary=60, context=16), torch.randint(0, 60, (4, 16))
    how = {"outputs": lambda: net(tokens), "loss": lambda z: cross_entropy(z.flatten(0, 1), tokens.flatten())}
    with pytest.raises(InputError, match=r"block layer1.key.bias: its hessian is zero up to rounding"):
        hessian.measure(net, **how, blocks=["layer1.key.bias"], lanczos_steps=5)
    assert hessian.measure(net, **how, blocks=["layer1.query.bias"], lanczos_steps=5).finished


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"blocks": ["onne"]}, "unknown block 'onne': did you mean one?"),
        ({"blocks": []}, "at least one block"),
        ({"blocks": [3]}, "blocks must be names, got 3"),
        ({"lanczos_steps": 1}, "lanczos_steps must be a whole number from 2 to 2000, got 1"),
        ({"probes": 0}, "probes must be a whole number from 1"),
        ({"curvature": "fisher"}, "unknown curvature 'fisher': allowed are hessian, gauss-newton"),
        ({"out": "there/x.npz"}, "there is no folder 'there'"),
        ({"out": "x.pkl"}, "out must end in .npz"),
        ({"seed": -1}, "seed must be a whole number"),
        ({"out": 5}, "out must be the path of an .npz file, got 5"),
        ({"out": "/proc/self/x.npz"}, "out='/proc/self' cannot be written"),
        ({"blocks": "one"}, "blocks must be a list of names, got 'one'"),
        ({"settings": {"n": np.int64(3)}}, "settings must be JSON values"),
    ],
)
def test_bad_settings(network, change, message, check_refused):
    check_refused(lambda: hessian.measure(*network, **{"lanczos_steps": 3, **change}), message)


def test_too_little_memory_raises_before_the_measurement(network, monkeypatch, tmp_path):
    monkeypatch.setattr(memory, "available", lambda: 1000)
    with pytest.raises(
        InputError, match=r"block one needs about .* are free: use fewer Lanczos steps, a smaller batch"
    ):
        hessian.measure(*network, lanczos_steps=3, out=tmp_path / "x.npz")
    assert not (tmp_path / "x.npz").exists()


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A working folder with a text, images of digits and damaged files."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    Path("text.txt").write_bytes(bytes(rng.choice(list(b"the quick brown fox "), 3000)))
    Path("short.txt").write_text("too short")
    images, labels = rng.integers(0, 256, (40, 28, 28), dtype=np.uint8), rng.integers(0, 10, 40, dtype=np.uint8)
    np.savez("digits.npz", images=images, labels=labels)
    np.savez("odd.npz", images=rng.integers(0, 256, (40, 28, 28, 4), dtype=np.uint8), labels=labels)
    np.savez("floats.npz", images=images / 255, labels=labels)
    np.savez("pickled.npz", images=np.array([{}] * 3, dtype=object), labels=labels)
    np.savez("unlabelled.npz", images=images)
    np.savez("grey.npz", images=np.full((9, 28, 28), 7, dtype=np.uint8), labels=labels[:9])
    np.save("renamed.npy", images)
    Path("renamed.npy").rename("renamed.npz")
    Path("wide.idx").write_bytes(b"\0\0\x08\x03" + (2**31).to_bytes(4, "big") * 2 + (4).to_bytes(4, "big"))
    Path("cut.gz").write_bytes(gzip.compress(images.tobytes())[:200])
    Path("images.idx").write_bytes(
        b"\0\0\x08\x03" + b"".join(n.to_bytes(4, "big") for n in (40, 28, 28)) + images.tobytes()
    )
    Path("labels.idx").write_bytes(b"\0\0\x08\x01" + (40).to_bytes(4, "big") + labels.tobytes())
    return tmp_path


MLP_ARGUMENTS = ["measure", "model=mlp", "images=digits.npz", "batch=16", "lanczos_steps=6", "probes=2", "seed=1"]


def test_the_command_measures_reports_and_keeps_a_finished_file(folder, capsys):
    assert cli.main([*MLP_ARGUMENTS, "out=a.npz", "--json"]) == 0
    out, err = capsys.readouterr()
    result = json.loads(out)
    assert [block["block"] for block in result["blocks"]] == ["layer0", "layer1", "layer2"]
    assert result["finished"]
    assert "of memory beside the network" in err.splitlines()[0]
    assert "layer1, probe 2 of 2: eigenvalues" in err
    assert " left" in err
    measured = qs.spectra.load("a.npz")
    assert measured.provenance["command"] == "python -m quadsim " + " ".join(MLP_ARGUMENTS)
    assert abs(measured.provenance["loss"] - math.log(10)) < 0.3
    before = Path("a.npz").read_bytes()
    assert cli.main([*MLP_ARGUMENTS, "out=a.npz"]) == 2
    assert "a.npz is finished" in capsys.readouterr().err
    assert Path("a.npz").read_bytes() == before
    assert cli.main(["case=1", "network=a.npz", "block_size=6", "max_steps=50", "out=figures"]) == 0


def test_idx_files_are_the_same_images(folder):
    one, other = (
        batches.images(Path(path), 9, seed=3, size=(28, 28), channels=1, classes=10, labels=labels)
        for path, labels in (("digits.npz", None), ("images.idx", Path("labels.idx")))
    )
    assert torch.equal(one.inputs, other.inputs)
    assert torch.equal(one.targets, other.targets)
    assert_allclose(float(one.inputs.mean()), 0, atol=1e-6)
    assert_allclose(float(one.inputs.std()), 1, rtol=1e-3)


def test_windows_of_a_text_do_not_overlap_and_targets_are_the_next_tokens(folder):
    Path("numbers.txt").write_bytes(bytes(range(256)))
    batch = batches.text(Path("numbers.txt"), (7, 30), seed=5, vocabulary=256)
    assert (batch.targets == batch.inputs + 1).all()
    seen = torch.cat([batch.inputs, batch.targets[:, -1:]], dim=1).flatten()
    assert seen.unique().numel() == seen.numel()
    masked = batches.text(Path("numbers.txt"), (7, 30), seed=5, vocabulary=257, masked=True)
    hidden = masked.inputs == 256
    assert (hidden == (masked.targets >= 0)).all()
    assert hidden.any(dim=1).all()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("measure", "measure needs model=, one of gpt2, gpt2-nano"),
        ("measure model=gpt3", "unknown model 'gpt3': did you mean gpt2?"),
        ("measure model=gpt2-nano", "model=gpt2-nano needs text=FILE"),
        ("measure model=mlp", "model=mlp needs images=FILE"),
        ("measure model=mlp text=text.txt", "model=mlp reads images, not text"),
        ("measure model=gpt2-nano images=digits.npz", "model=gpt2-nano reads text, not images"),
        ("measure model=gpt2-nano text=none.txt", "'none.txt' cannot be read (No such file"),
        ("measure model=gpt2-nano text=short.txt", "short.txt has 9 tokens: a batch of 2 x 128 needs at least 258"),
        ("measure model=gpt2-nano text=text.txt tokens=1x257", "reads at most 256 tokens at a time, got 257"),
        ("measure model=gpt2-nano text=text.txt tokens=2by8", "tokens must be two whole numbers such as 2x128"),
        ("measure model=gpt2-nano text=text.txt tokens=0x8", "tokens must be a whole number of at least 1, got 0"),
        ("measure model=gpt2-nano text=text.txt vocab=.", "vocab must be a folder with encoder.json and vocab.bpe"),
        (
            "measure model=gpt2-nano text=text.txt blocks=layer9.query",
            "unknown block 'layer9.query': did you mean layer",
        ),
        ("measure model=mlp images=odd.npz", "images must have shape (n, height, width) or (n, height, width, 3)"),
        ("measure model=mlp images=floats.npz", "images must be bytes and labels whole numbers"),
        ("measure model=mlp images=pickled.npz", "cannot be read: it is truncated, pickled, or not an .npz"),
        ("measure model=mlp images=unlabelled.npz", "must hold arrays images and labels"),
        ("measure model=mlp images=text.txt", "is not an .npz: also give labels=FILE"),
        ("measure model=mlp images=labels.idx labels=labels.idx", "not an IDX file of bytes with 3 dimensions"),
        ("measure model=mlp images=digits.npz batch=41", "has 40 images, fewer than a batch of 41"),
        ("measure model=vit-small images=digits.npz batch=4 size=30x30", "sides are multiples of 8, got 30 x 30"),
        ("measure model=vgg16 images=digits.npz batch=4 size=8x8", "images of at least 32 x 32"),
        ("measure model=mlp images=digits.npz batch=4 mode=test", "unknown mode 'test'"),
        ("measure model=mlp images=digits.npz batch=4 dtype=half", "unknown dtype 'half'"),
        ("measure model=mlp images=digits.npz batch=4 out=digits.npz", "out=digits.npz is also an input file"),
        ("measure model=mlp images=digits.npz batch=4 out=odd.npz", "odd.npz exists and was not written by quadsim"),
        ("measure model=mlp images=digits.npz batch=4 prbes=3", "unknown key 'prbes': did you mean probes?"),
        (
            "measure model=mlp images=digits.npz batch=4 overwrite=yes",
            "overwrite is true or false: write python -m quadsim measure",
        ),
        ("measure gpt2", "keys are written key=value: write python -m quadsim measure model=gpt2"),
        ("measure model=mlp images=digits.npz labels=labels.idx", "labels=labels.idx is not needed"),
        ("measure model=mlp images=digits.npz tokens=2x8", "model=mlp reads images, not text: give images=FILE"),
        ("measure model=gpt2-nano text=text.txt batch=3", "model=gpt2-nano reads text, not images"),
        (
            "measure model=resnet18 images=digits.npz batch=1 mode=training",
            "batch must be a whole number of at least 2",
        ),
        ("measure model=mlp images=grey.npz batch=4", "a channel of the batch is constant"),
        ("measure model=mlp images=renamed.npz", "cannot be read"),
        ("measure model=mlp images=wide.idx labels=labels.idx", "wide.idx is damaged"),
        ("measure model=mlp images=cut.gz labels=labels.idx", "it is a damaged gzip file"),
        ("measure model=gpt2-nano text=text.txt blocks=*.weight.weight", "unknown block"),
    ],
    ids=str,
)
def test_bad_arguments_are_one_line(folder, capsys, words, message):
    before = {path: path.read_bytes() for path in folder.iterdir()}
    assert cli.main(words.split()) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert message in err
    assert err.count("\n") == 1
    assert {path: path.read_bytes() for path in folder.iterdir()} == before


def test_a_killed_process_is_continued_with_the_same_result(folder):
    """SIGKILL in the middle; the next run finishes, bit-identical to a run without a kill."""
    arguments = [*MLP_ARGUMENTS[:-3], "lanczos_steps=30", "probes=3", "seed=1"]
    words, alone = [sys.executable, "-m", "quadsim", *arguments], {**os.environ, "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen([*words, "out=parts.npz"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=alone)
    for line in process.stderr:
        if b"probe 2" in line:
            process.kill()
            break
    process.stderr.close()
    assert process.wait() == -signal.SIGKILL
    assert not qs.spectra.load("parts.npz").finished
    for out in ("parts.npz", "whole.npz"):
        assert cli.main([*arguments, f"out={out}", "--json"]) == 0
    assert same(qs.spectra.load("parts.npz"), qs.spectra.load("whole.npz"))
    assert not [path for path in folder.iterdir() if path.name.startswith(".draft")]


def test_training_lowers_the_loss_and_is_deterministic(folder):
    how = {"images": "digits.npz", "batch": 16, "lanczos_steps": 3, "probes": 1, "blocks": ["layer2"]}
    start, one, again = (hessian.measure_model("mlp", train_steps=steps, **how) for steps in (0, 25, 25))
    assert same(one, again)
    assert one.provenance["loss"] < start.provenance["loss"] - 0.1
    assert one.provenance["settings"]["trained"] == 25


def test_gpt2_from_the_command_line(folder, capsys):
    """GPT2 nano on bytes: everything that GPT2 does, in seconds."""
    words = (
        "measure model=gpt2-nano blocks=layer0.query,layer*.norm1 text=text.txt tokens=1x16 lanczos_steps=3 probes=1 "
        "out=g.npz"
    )
    assert cli.main(words.split()) == 0
    capsys.readouterr()
    measured = qs.spectra.load("g.npz")
    assert list(measured.blocks) == ["layer0.query", *(f"layer{number}.norm1" for number in range(6))]
    assert measured.provenance["settings"]["data"]["tokenizer"] == "bytes"
