"""The frame of the HTML report: its style, its script and the document around its sections.

`document` joins them. The page loads nothing: style and script are inline, images are data, and its security policy
forbids everything else.
"""

from __future__ import annotations

import base64
import html
from collections.abc import Mapping

__all__ = ["data_uri", "document"]

_STYLE = """
:root { --ink: #1c1c1c; --muted: #5a5a5a; --line: #d5d5d5; --accent: #0b4f87; }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 76rem; padding: 1rem; color: var(--ink); background: #fff;
  font: 1rem/1.5 system-ui, sans-serif; overflow-wrap: anywhere; }
h1 { font-size: 1.6rem; line-height: 1.2; margin: .5rem 0; }
h2 { font-size: 1.25rem; margin: 2.2rem 0 .6rem; padding-top: .6rem; border-top: 2px solid var(--line); }
h3 { font-size: 1.05rem; margin: 1.4rem 0 .4rem; }
nav ul { display: flex; flex-wrap: wrap; gap: .2rem 1rem; padding: 0; list-style: none; }
a { color: var(--accent); }
dl { display: grid; grid-template-columns: minmax(7rem, 12rem) 1fr; gap: .3rem 1rem; }
dt { color: var(--muted); }
dd { margin: 0; }
figure { margin: 1.2rem 0; }
figcaption { font-weight: 600; margin-bottom: .3rem; }
.caption, .notes { color: var(--muted); font-size: .9rem; }
.notes { padding-left: 1.2rem; margin: .4rem 0; }
.scroll { overflow-x: auto; max-width: 100%;  /* a shadow at the right edge while there is more to scroll to */
  background: linear-gradient(to left, #fff 30%, #fff0) 100% 0 / 3rem 100% local no-repeat,
    linear-gradient(to left, #0003, #0000) 100% 0 / .9rem 100% scroll no-repeat; }
.scroll:focus-visible { outline: 2px solid var(--accent); }
.picture img { display: block; max-width: 100%; min-width: 34rem; height: auto; }
.sheet img { display: block; height: 6rem; width: auto; image-rendering: pixelated; }
table { border-collapse: collapse; font-size: .85rem; }
th, td { padding: .25rem .6rem; border-bottom: 1px solid var(--line); vertical-align: top; max-width: 26rem;
  overflow-wrap: normal; }
thead th { vertical-align: bottom; border-bottom: 2px solid var(--ink); }
td.left, th.left { text-align: left; }
td.right, th.right { text-align: right; font-variant-numeric: tabular-nums; }
td.right { white-space: nowrap; }
td.long { min-width: 10rem; }
th button { font: inherit; font-weight: 600; color: inherit; background: none; border: 0; padding: .2rem 0;
  cursor: pointer; text-align: inherit; }
th[aria-sort=ascending] button::after { content: " \\25b2"; }
th[aria-sort=descending] button::after { content: " \\25bc"; }
details { border: 1px solid var(--line); border-radius: .3rem; margin: .4rem 0; padding: .3rem .7rem; }
summary { cursor: pointer; }
.status { font-weight: 600; }
.missing { border-left: 4px solid var(--line); padding: .3rem .8rem; color: var(--muted); }
@media (max-width: 40rem) { dl { grid-template-columns: 1fr; gap: 0; } dd { margin-bottom: .5rem; } }
@media print { nav { display: none; } .scroll { overflow: visible; } .picture img { min-width: 0; } }
"""

_SCRIPT = """
document.querySelectorAll("table.sortable thead button").forEach(button => {
  button.addEventListener("click", () => {
    const heading = button.parentElement, body = heading.closest("table").tBodies[0];
    const ascending = heading.getAttribute("aria-sort") !== "ascending";
    heading.parentElement.querySelectorAll("th").forEach(other => other.removeAttribute("aria-sort"));
    heading.setAttribute("aria-sort", ascending ? "ascending" : "descending");
    const compare = (a, b) => {
      if (a === "" || b === "") return (a === "") - (b === "");  // what is missing stays below
      return (ascending ? 1 : -1) * (isNaN(a) || isNaN(b) ? a.localeCompare(b) : a - b);
    };
    const key = row => row.cells[heading.cellIndex].dataset.value;
    [...body.rows].sort((first, second) => compare(key(first), key(second))).forEach(row => body.append(row));
  });
});
"""

_POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'unsafe-inline'"


def document(title: str, lead: str, sections: Mapping[str, str]) -> str:
    """Return the whole page.

    Args:
        title: Title, as text.
        lead: What stands below the title, as HTML.
        sections: HTML by heading, in order.
    """
    anchors = {heading: heading.lower().replace(" ", "-") for heading in sections}
    links = "".join(f'<li><a href="#{anchor}">{heading}</a></li>' for heading, anchor in anchors.items())
    body = "".join(
        f'<section><h2 id="{anchors[heading]}">{heading}</h2>\n{content}</section>\n'
        for heading, content in sections.items()
    )
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        f'<link rel="icon" href="data:,">\n<title>{html.escape(title)}</title>\n<style>{_STYLE}</style>\n</head>\n'
        f"<body>\n<header><h1>{html.escape(title)}</h1>\n{lead}<nav><ul>{links}</ul></nav></header>\n"
        f"<main>{body}</main>\n<script>{_SCRIPT}</script>\n</body>\n</html>\n"
    )


def data_uri(content: bytes, mime: str) -> str:
    """Return bytes as a data URI."""
    return f"data:{mime};base64,{base64.b64encode(content).decode()}"
