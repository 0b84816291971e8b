"""When a call is shown: the oldest task counts, also if shorter ones end before it."""

import pytest

from quadsim import _progress, _progress_bars


class Display:
    def __init__(self, labels):
        self.labels = labels

    def show(self, task, label):
        self.labels.append(label)

    def erase(self):
        pass


@pytest.fixture
def display(monkeypatch):
    """Labels that are drawn, and a clock that the test moves; no thread draws."""
    labels, clock = [], [100.0]
    monkeypatch.setattr(_progress, "_watch", lambda: None)
    monkeypatch.setattr(_progress, "_tasks", [])
    monkeypatch.setattr(_progress_bars, "clock", lambda: clock[0])
    monkeypatch.setattr(_progress_bars, "shown_as", lambda: "test")
    monkeypatch.setitem(_progress_bars.DISPLAYS, "test", lambda: Display(labels))
    return labels, clock


def test_a_short_task_does_not_delay_that_of_the_command(display):
    labels, clock = display
    with _progress.Task("command", background=True):
        with _progress.Task("building"):
            clock[0] += 1.0
            _progress.draw()
        with _progress.Task("tuning"):
            clock[0] += 0.4
            _progress.draw()
            assert labels == []
            clock[0] += 0.2  # 1.6 s since the command began
            _progress.draw()
            assert labels == ["tuning"]
        clock[0] += 1.0
        _progress.draw()
        assert labels == ["tuning"]  # the command is shown again only if it lasts
        clock[0] += 1.0
        _progress.draw()
        assert labels == ["tuning", "command"]


@pytest.mark.parametrize("silent", [False, True])
def test_what_begins_in_a_silent_call_is_not_shown(display, silent):
    labels, clock = display
    with _progress.Task("call", silent=silent), _progress.Task("solve"), _progress.compiling("gd"):
        clock[0] += 5.0
        _progress.draw()
    assert bool(labels) is not silent


def test_a_call_of_two_seconds_is_shown():
    assert _progress.DELAY + _progress.POLL_SECONDS < 2.0
