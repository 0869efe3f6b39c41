"""A real browser (Chromium, in the wheel PyQt6-WebEngine) without a screen and without a network, in a process of its own.

``python browser.py < request.json`` opens a file, does what the request's steps say and prints what was seen as JSON:

- ``{"run": "JavaScript"}``: the value of an expression.
- ``{"until": "JavaScript"}``: whether an expression became true before a time limit.
- ``{"click": "selector"}``: a mouse click in the middle of the first element that matches, scrolled into view before.
- ``{"press": "Enter"}``: a key, typed into what has the focus.
- ``{"picture": "file.png"}``: what is seen, as a picture.

Every request but that of the file itself is refused and reported.
"""

from __future__ import annotations

import itertools
import json
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any

LIMIT_MS = 60_000
POLL_MS = 20

_FRAMES = (
    "requestAnimationFrame(() => requestAnimationFrame(() => { window.framesDrawn = (window.framesDrawn ?? 0) + 1; }))"
)
_WHERE = """(() => {
  const found = document.querySelector(%s);
  if (!found) return null;
  found.scrollIntoView({block: "center", inline: "center"});
  const box = found.getBoundingClientRect();
  return [box.x + box.width / 2, box.y + box.height / 2];
})()"""


def _grid(width: int, height: int) -> Iterator[tuple[int, int]]:
    return itertools.product(range(0, width, 7), range(0, height, 7))


def main() -> None:
    """Read a request from standard input, print a report to standard output."""
    request: dict[str, Any] = json.load(sys.stdin)
    os.environ["QT_QPA_PLATFORM"] = "offscreen"
    os.environ["QTWEBENGINE_CHROMIUM_FLAGS"] = " ".join(
        (
            "--no-sandbox",
            "--disable-gpu",
            "--disable-background-networking",
            "--disable-dev-shm-usage",
            "--proxy-server=127.0.0.1:9",
        )
    )
    from PyQt6.QtCore import QEventLoop, QPoint, QSize, Qt, QTimer, QUrl
    from PyQt6.QtTest import QTest
    from PyQt6.QtWebEngineCore import (
        QWebEnginePage,
        QWebEngineProfile,
        QWebEngineSettings,
        QWebEngineUrlRequestInterceptor,
    )
    from PyQt6.QtWebEngineWidgets import QWebEngineView
    from PyQt6.QtWidgets import QApplication

    console: list[str] = []
    requests: list[str] = []
    page_url = QUrl.fromLocalFile(request["file"])

    class Page(QWebEnginePage):
        def javaScriptConsoleMessage(self, level: Any, message: str, line: int, source: str) -> None:  # noqa: N802
            console.append(f"{level.name}: {message} ({source}:{line})")

    class Gate(QWebEngineUrlRequestInterceptor):
        def interceptRequest(self, info: Any) -> None:  # noqa: N802
            url = info.requestUrl()
            if url.scheme() == "data" or url.adjusted(QUrl.UrlFormattingOption.RemoveFragment) == page_url:
                return
            requests.append(url.toString())
            info.block(True)

    application = QApplication(sys.argv[:1])  # must outlive all below
    profile = QWebEngineProfile()  # without a name: nothing is kept
    gate = Gate()
    profile.setUrlRequestInterceptor(gate)
    view = QWebEngineView()
    page = Page(profile, view)
    # A file may ask for anything, as in other browsers; it is the gate that refuses and reports.
    page.settings().setAttribute(QWebEngineSettings.WebAttribute.LocalContentCanAccessRemoteUrls, True)
    view.setPage(page)
    view.resize(QSize(*request["size"]))
    view.show()

    def wait(start: Callable[[Callable[[Any], None]], object]) -> Any:
        loop, found = QEventLoop(), []
        QTimer.singleShot(LIMIT_MS, loop.quit)

        def finish(value: Any) -> None:
            found.append(value)
            loop.quit()

        start(finish)
        if not found:
            loop.exec()
        if not found:
            raise TimeoutError(f"no answer within {LIMIT_MS} ms")
        return found[0]

    def loaded(finish: Callable[[Any], None]) -> None:
        page.loadFinished.connect(finish)
        page.load(page_url)

    def run(script: str) -> Any:
        text = wait(lambda finish: page.runJavaScript(f"JSON.stringify({script}) ?? 'null'", finish))
        return json.loads(text) if isinstance(text, str) and text else f"failed: {script}"

    def until(script: str) -> bool:
        for _ in range(LIMIT_MS // POLL_MS):
            if run(script) is True:
                return True
            QTest.qWait(POLL_MS)
        return False

    def drawn() -> None:
        """Wait until what the page looks like now is what is on the screen, so that a click meets it."""
        before = run("window.framesDrawn ?? 0")
        run(_FRAMES)
        until(f"window.framesDrawn > {before}")

    def click(selector: str) -> None:
        place = run(_WHERE % json.dumps(selector))
        if place is None:
            raise LookupError(selector)
        drawn()
        QTest.mouseClick(view.focusProxy(), Qt.MouseButton.LeftButton, pos=QPoint(round(place[0]), round(place[1])))

    def picture() -> Any:
        """What the window shows once it has caught up with the page: not empty, and twice the same."""
        before, now = None, view.grab().toImage()
        for _ in range(LIMIT_MS // (5 * POLL_MS)):
            if before == now and any(now.pixel(x, y) != now.pixel(0, 0) for x, y in _grid(now.width(), now.height())):
                break
            QTest.qWait(5 * POLL_MS)
            before, now = now, view.grab().toImage()
        return now

    def step(wanted: dict[str, str]) -> Any:
        ((kind, what),) = wanted.items()
        if kind == "run":
            return run(what)
        if kind == "until":
            return until(what)
        if kind == "click":
            return click(what)
        if kind == "press":
            return QTest.keyClick(view.focusProxy(), Qt.Key[f"Key_{what}"])
        drawn()
        return picture().save(what)

    opened = wait(loaded) and until("document.readyState === 'complete'")
    report: dict[str, Any] = {"opened": opened, "console": console, "requests": requests}
    report["steps"] = [step(wanted) for wanted in request["steps"]]
    json.dump(report, sys.stdout)
    sys.stdout.flush()
    application.processEvents()
    os._exit(0)  # all is said; taking a browser down would only cost time


if __name__ == "__main__":
    main()
