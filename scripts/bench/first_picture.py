"""Measure the seconds from opening a page with splats until Chromium shows the first picture of them.

Needs Chromium and playwright; a GPU is not used. A picture's time is taken from its frame in a screencast. Example:

  splat export runs/garden garden.html && python scripts/bench/first_picture.py garden.html
"""

import base64
import io
import shutil
import time
from pathlib import Path

import click
import numpy as np
from playwright.sync_api import Browser, sync_playwright

from splat_cli.io.image_files import open_image

_OPTIONS = ["--no-sandbox", "--use-angle=swiftshader", "--enable-unsafe-swiftshader", "--ignore-gpu-blocklist"]
_SECONDS = 12.0


def first_picture(browser: Browser, url: str) -> float:
    """Seconds from the navigation to the first frame that is not one colour; inf without one in _SECONDS."""
    page = browser.new_page(viewport={"width": 1280, "height": 800})
    page.goto("about:blank")
    session, frames = page.context.new_cdp_session(page), []

    def keep(event: dict) -> None:
        frames.append((event["metadata"]["timestamp"], event["data"]))
        session.send("Page.screencastFrameAck", {"sessionId": event["sessionId"]})

    session.on("Page.screencastFrame", keep)
    session.send("Page.startScreencast", {"format": "png", "maxWidth": 320, "maxHeight": 200})
    began = time.time()
    page.goto(url, wait_until="commit")
    page.wait_for_timeout(1000 * _SECONDS)
    for at, data in frames:
        if np.asarray(open_image(io.BytesIO(base64.b64decode(data))).convert("L")).std() > 5:
            return float(at - began)
    return float("inf")


@click.command()
@click.argument("page", type=click.Path(path_type=Path, exists=True))
@click.option("--times", default=6, show_default=True, help="Number of browsers started one after another.")
def main(page: Path, times: int) -> None:
    """Print the seconds until PAGE shows splats, sorted."""
    url = f"{page.resolve().as_uri()}?noui"  # without buttons and photographs
    seconds = []
    with sync_playwright() as playwright:
        for _ in range(times):
            browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=_OPTIONS)
            seconds.append(first_picture(browser, url))
            browser.close()
    print(f"first picture after {', '.join(f'{one:.2f}' for one in sorted(seconds))} s")


if __name__ == "__main__":
    main()
