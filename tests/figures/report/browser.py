"""A real browser (Chromium, in the wheel PyQt6-WebEngine) without a screen and without a network, in a process of its own.

``python browser.py < request.json`` opens a file, does what the request's steps say and prints what was seen as JSON:

- ``{"run": "JavaScript"}``: the value of an expression.
- ``{"click": "selector"}``: a mouse click in the middle of the first element that matches, scrolled into view before.
- ``{"press": "Enter"}``: a key, typed into what has the focus.
- ``{"picture": "file.png"}``: what is seen, as a picture.

Every request but that of the file itself is refused and reported.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from typing import Any

LIMIT_MS = 60_000
SETTLE_MS = 50
"""Time for an event to go to the page's process and back before its effect is looked at."""

_WHERE = """(() => {
  const found = document.querySelector(%s);
  if (!found) return null;
  found.scrollIntoView({block: "center", inline: "center"});
  const box = found.getBoundingClientRect();
  return [box.x + box.width / 2, box.y + box.height / 2];
})()"""


def main() -> None:
    """Read a request from standard input, print a report to standard output."""
    request: dict[str, Any] = json.load(sys.stdin)
    os.environ["QT_QPA_PLATFORM"] = "offscreen"
    os.environ["QTWEBENGINE_CHROMIUM_FLAGS"] = " ".join(
        (
            "--no-sandbox",
            "--disable-gpu",
            "--disable-background-networking",
            "--proxy-server=127.0.0.1:9",
        )
    )
    from PyQt6.QtCore import QEventLoop, QPoint, QSize, Qt, QTimer, QUrl
    from PyQt6.QtTest import QTest
    from PyQt6.QtWebEngineCore import QWebEnginePage, QWebEngineProfile, QWebEngineUrlRequestInterceptor
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

    def step(wanted: dict[str, str]) -> Any:
        ((kind, what),) = wanted.items()
        if kind == "run":
            return run(what)
        if kind == "click":
            place = run(_WHERE % json.dumps(what))
            if place is None:
                raise LookupError(what)
            QTest.qWait(SETTLE_MS)
            QTest.mouseClick(view.focusProxy(), Qt.MouseButton.LeftButton, pos=QPoint(round(place[0]), round(place[1])))
        elif kind == "press":
            QTest.keyClick(view.focusProxy(), Qt.Key[f"Key_{what}"])
        else:
            QTest.qWait(10 * SETTLE_MS)
            return view.grab().save(what)
        QTest.qWait(SETTLE_MS)
        return None

    report = {"opened": wait(loaded), "steps": [], "console": console, "requests": requests}
    report["steps"] = [step(wanted) for wanted in request["steps"]]
    json.dump(report, sys.stdout)
    sys.stdout.flush()
    application.processEvents()
    os._exit(0)  # all is said; taking a browser down would only cost time


if __name__ == "__main__":
    main()
