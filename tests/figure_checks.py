"""What is wrong with a drawn figure: texts that touch or leave it, panels without content, data beyond the limits."""

import itertools

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_rgb

from quadsim.plots.text import missing_glyphs_ignored

SLACK = 1.0  # pixels that two texts may share: their boxes are wider than their letters
CLIPPED = ("beyond", "theory")  # what a figure marks as cut, and lines of theory, which end where the panel does
MIN_SHARE = 0.15  # of a log axis that its data must span, if they span a factor of 3


def faults(figure):
    """Sentences, one for each fault; none for a figure that can be read."""
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    renderer = canvas.get_renderer()
    with missing_glyphs_ignored():
        texts = [(text, axes, _corners(text, renderer)) for text, axes in _texts(figure)]
    return [
        *_outside(figure, texts),
        *_touching(texts),
        *_over_panels(figure, texts),
        *(fault for axes in figure.axes for fault in (*_emptiness(axes), *_beyond(axes), *_ticks(axes))),
        *_same_names(figure),
    ]


def visible_colours(figure, colours, least=12):
    """Which of these colours at least so many pixels have."""
    figure.set_dpi(250)  # so that thin lines are more than edges of pixels
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    pixels = np.asarray(canvas.buffer_rgba())[..., :3].astype(int)
    wanted = {colour: np.round(255 * np.array(to_rgb(colour))) for colour in colours}
    return {name for name, rgb in wanted.items() if (np.abs(pixels - rgb).max(axis=-1) <= 12).sum() >= least}


def _texts(figure):
    """All visible texts, each with its axes, or None if it is the figure's."""
    parts = [figure, *figure.subfigs]
    found = [(text, None) for part in parts for text in (part._suptitle, part._supxlabel, part._supylabel)]
    found += [(text, None) for part in parts for text in part.texts if text not in [other for other, _ in found]]
    found += [(text, None) for part in parts for legend in part.legends for text in legend.get_texts()]
    for axes in figure.axes:
        mine = [*axes.texts, axes.xaxis.label, axes.yaxis.label, axes.title, axes._left_title, axes._right_title]
        mine += axes.get_legend().get_texts() if axes.get_legend() else []
        for axis, limits in ((axes.xaxis, axes.get_xlim()), (axes.yaxis, axes.get_ylim())):
            ticks = [tick for tick in _ticks_inside(axis, limits) if axis.get_visible()]
            mine += [label for tick in ticks for label in (tick.label1, tick.label2)] + [axis.get_offset_text()]
        found += [(text, axes) for text in mine]
    return [(text, axes) for text, axes in found if text is not None and text.get_visible() and text.get_text().strip()]


def _ticks_inside(axis, limits):
    low, high = min(limits), max(limits)
    room = 1e-9 * (high - low)
    return [
        tick
        for tick in (*axis.get_major_ticks(), *axis.get_minor_ticks())
        if low - room <= tick.get_loc() <= high + room
    ]


def _corners(text, renderer):
    """The corners of a text's box, which may be rotated, in pixels."""
    around = text.get_window_extent(renderer)
    turned = text.get_rotation()
    text.set_rotation(0)
    flat = text.get_window_extent(renderer)
    text.set_rotation(turned)
    angle = np.deg2rad(turned)
    half = np.array([[-1, -1], [1, -1], [1, 1], [-1, 1]]) * [flat.width / 2, flat.height / 2]
    rotation = np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])
    return half @ rotation + [(around.x0 + around.x1) / 2, (around.y0 + around.y1) / 2]


def _apart(one, other, slack=SLACK):
    """Whether two rectangles are apart: some side separates them."""
    for sides in (one, other):
        for side in np.diff(sides[:3], axis=0):
            normal = side / (np.linalg.norm(side) or 1.0)
            a, b = one @ normal, other @ normal
            if a.max() - slack <= b.min() or b.max() - slack <= a.min():
                return True
    return False


def _name(text):
    return repr(text.get_text()[:60])


def _outside(figure, texts):
    width, height = figure.bbox.size
    for text, _, corners in texts:
        (left, bottom), (right, top) = corners.min(axis=0), corners.max(axis=0)
        if left < -SLACK or bottom < -SLACK or right > width + SLACK or top > height + SLACK:
            yield f"{_name(text)} leaves the figure"


def _touching(texts):
    for (text, _, box), (other, _, beside) in itertools.combinations(texts, 2):
        if not _apart(box, beside):
            yield f"{_name(text)} touches {_name(other)}"


def _over_panels(figure, texts):
    """Texts of the figure, or of one panel, that are over another panel."""
    for axes in figure.axes:
        box = axes.get_window_extent()
        panel = np.array([[box.x0, box.y0], [box.x1, box.y0], [box.x1, box.y1], [box.x0, box.y1]])
        for text, owner, corners in texts:
            if owner is not axes and not _apart(corners, panel):
                yield f"{_name(text)} is over a panel that it does not belong to"


def _emptiness(axes):
    """No point of a line, no area, no image and no sentence inside the limits."""
    shown = [text for text in axes.texts if text.get_text().strip()]
    for line in axes.lines:
        if line.get_visible() and line.get_transform() == axes.transData and _inside(axes, line.get_xydata()).any():
            return
    if shown or axes.images or any(collection.get_visible() for collection in axes.collections):
        return
    if any(patch.get_width() * patch.get_height() for patch in axes.patches if hasattr(patch, "get_width")):
        return
    yield f"the panel {axes.get_title() or axes.get_title(loc='left')!r} is empty"


def _inside(axes, points, room=1e-6):
    points = np.asarray(points, dtype=float).reshape(-1, 2)
    at = axes.transAxes.inverted().transform(axes.transData.transform(points))
    return ((at >= -room) & (at <= 1 + room)).all(axis=1)


def _beyond(axes):
    """Points of lines beyond the limits, unless the figure marks that a curve goes on."""
    cut = any(line.get_gid() == "beyond" for line in axes.lines)
    across, heights = [], []
    for line in axes.lines:
        if line.get_transform() != axes.transData or line.get_gid() in CLIPPED or not line.get_visible():
            continue
        points = np.asarray(line.get_xydata(), dtype=float)
        points = points[np.isfinite(points).all(axis=1)]
        lost = ~_inside(axes, points) if len(points) else np.zeros(0, dtype=bool)
        if cut:  # to the right only
            lost &= points[:, 0] <= max(axes.get_xlim())
        if lost.any():
            at = ", ".join(f"{value:.4g}" for value in points[lost][0])
            yield f"{lost.sum()} of {len(points)} points are beyond the limits, the first at {at}"
        across += list(points[:, 0])
        heights += list(points[:, 1])
    for axis, values, limits in (("x", across, axes.get_xlim()), ("y", heights, axes.get_ylim())):
        values = np.array(values)
        if getattr(axes, f"get_{axis}scale")() == "log" and values.size and values.min() > 0:
            span = np.ptp(np.log10(values))
            whole = abs(np.diff(np.log10(limits))[0])
            if span > np.log10(3) and span < MIN_SHARE * whole:
                yield f"the data span {span:.2g} decades of a {axis} axis of {whole:.2g}"


def _ticks(axes):
    """An axis with numbers of which only one is shown, though its data have several, or of which some are equal."""
    for name, axis, limits in (("x", axes.xaxis, axes.get_xlim()), ("y", axes.yaxis, axes.get_ylim())):
        ticks = _ticks_inside(axis, limits)
        if not any(label.get_visible() for tick in ticks for label in (tick.label1, tick.label2)):
            continue  # a panel inside a grid
        texts = [tick.label1.get_text() or tick.label2.get_text() for tick in ticks]
        texts = [text for text in texts if text]
        named = any(character.isalpha() for text in texts for character in text.replace("e", ""))
        values = {value for line in axes.lines for value in np.ravel(line.get_data(orig=False)[name == "y"])}
        if len(texts) < 2 and not named and len(values) > 1:
            yield f"the {name} axis has {len(texts)} numbers"
        if len(set(texts)) < len(texts) and (not named or any("…" in text for text in texts)):
            yield f"the {name} axis has equal tick labels: {texts}"


def _same_names(figure):
    """Entries of a legend that read the same."""
    legends = [*figure.legends, *(axes.get_legend() for axes in figure.axes if axes.get_legend())]
    for legend in legends:
        names = [text.get_text() for text in legend.get_texts()]
        if len(set(names)) < len(names):
            yield f"a legend has equal entries: {names}"
