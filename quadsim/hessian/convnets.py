"""ResNet18, VGG16 and an MLP in plain torch, with torchvision's layout, parameter names and initialization."""

from __future__ import annotations

import itertools

from torch import Tensor, nn
from torch.nn import functional as F


class BasicBlock(nn.Module):
    """Two 3×3 convolutions and a shortcut."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride=stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.downsample = nn.Identity()
        if stride != 1 or inputs != outputs:
            convolution = nn.Conv2d(inputs, outputs, 1, stride=stride, bias=False)
            self.downsample = nn.Sequential(convolution, nn.BatchNorm2d(outputs))

    def forward(self, x: Tensor) -> Tensor:
        y = F.relu(self.bn1(self.conv1(x)))
        return F.relu(self.bn2(self.conv2(y)) + self.downsample(x))


class ResNet18(nn.Module):
    """He et al. 2016; 11,689,512 parameters with 1000 classes."""

    def __init__(self, classes: int = 1000) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 64, 7, stride=2, padding=3, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        self.layer1 = nn.Sequential(BasicBlock(64, 64, 1), BasicBlock(64, 64, 1))
        self.layer2 = nn.Sequential(BasicBlock(64, 128, 2), BasicBlock(128, 128, 1))
        self.layer3 = nn.Sequential(BasicBlock(128, 256, 2), BasicBlock(256, 256, 1))
        self.layer4 = nn.Sequential(BasicBlock(256, 512, 2), BasicBlock(512, 512, 1))
        self.fc = nn.Linear(512, classes)  # with torch's initialization, as in torchvision
        _kaiming(self)

    def forward(self, images: Tensor) -> Tensor:  # (batch, 3, height, width) → (batch, classes)
        x = F.max_pool2d(F.relu(self.bn1(self.conv1(images))), 3, stride=2, padding=1)
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(x.mean((2, 3)))


class VGG16(nn.Module):
    """Simonyan & Zisserman 2015 with BatchNorm, without dropout; 138,365,992 parameters with 1000 classes.

    In evaluation mode a BatchNorm that has seen no data is the identity (up to its eps), so at initialization this is
    VGG16 without BatchNorm.
    """

    WIDTHS = ((64, 64), (128, 128), (256, 256, 256), (512, 512, 512), (512, 512, 512))

    def __init__(self, classes: int = 1000) -> None:
        super().__init__()
        features: list[nn.Module] = []
        inputs = 3
        for stage in self.WIDTHS:
            for outputs in stage:
                features += [nn.Conv2d(inputs, outputs, 3, padding=1), nn.BatchNorm2d(outputs), nn.ReLU()]
                inputs = outputs
            features.append(nn.MaxPool2d(2))
        self.features = nn.Sequential(*features)
        # nn.Identity in place of Dropout keeps torchvision's parameter names.
        self.classifier = nn.Sequential(
            nn.Linear(512 * 7 * 7, 4096),
            nn.ReLU(),
            nn.Identity(),
            nn.Linear(4096, 4096),
            nn.ReLU(),
            nn.Identity(),
            nn.Linear(4096, classes),
        )
        _kaiming(self)
        for part in self.classifier:
            if isinstance(part, nn.Linear):
                nn.init.normal_(part.weight, std=0.01)
                nn.init.zeros_(part.bias)

    def forward(self, images: Tensor) -> Tensor:
        x = F.adaptive_avg_pool2d(self.features(images), 7)
        return self.classifier(x.flatten(1))


class MLP(nn.Module):
    """Fully connected layers with torch's initialization, on flattened images."""

    def __init__(self, inputs: int = 784, hidden: tuple[int, ...] = (128, 128), classes: int = 10) -> None:
        super().__init__()
        widths = (inputs, *hidden, classes)
        for number, sizes in enumerate(itertools.pairwise(widths)):
            self.add_module(f"layer{number}", nn.Linear(*sizes))

    def forward(self, images: Tensor) -> Tensor:
        *hidden, last = self.children()
        x = images.flatten(1)
        for layer in hidden:
            x = F.relu(layer(x))
        return last(x)


def _kaiming(module: nn.Module) -> None:
    """Convolutions from N(0, 2/fan_out), their biases 0."""
    for part in module.modules():
        if isinstance(part, nn.Conv2d):
            nn.init.kaiming_normal_(part.weight, mode="fan_out", nonlinearity="relu")
            if part.bias is not None:
                nn.init.zeros_(part.bias)
