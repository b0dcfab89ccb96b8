"""Contents of an exported page."""

import base64
import json
from dataclasses import dataclass, field
from html.parser import HTMLParser

from splat_cli.gaussians.formats import read_splats


@dataclass
class _Parts(HTMLParser):
    """Texts by the id of their element, and all addresses in elements."""

    texts: dict = field(default_factory=dict)
    addresses: list = field(default_factory=list)
    policy: str = ""

    def __post_init__(self):
        super().__init__()
        self._id = None

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        self._id = attributes.get("id")
        self.addresses += [attributes[name] for name in ("src", "href") if name in attributes]
        if attributes.get("http-equiv") == "Content-Security-Policy":
            self.policy = attributes["content"]

    def handle_data(self, data):
        if self._id:
            self.texts.setdefault(self._id, data)


class Page:
    """`scene` as the page's script reads it, `addresses` in elements, content security `policy`."""

    def __init__(self, path):
        self.text = path.read_text(encoding="utf-8")
        parts = _Parts()
        parts.feed(self.text)
        self.scene = json.loads(parts.texts["scene"])
        self.addresses, self.policy = parts.addresses, parts.policy
        self._splats = base64.b64decode(parts.texts["splats"])

    def splats(self, folder):
        """The splats of the page; `folder`: for a temporary file."""
        (folder / "page.sog").write_bytes(self._splats)
        return read_splats(folder / "page.sog")
