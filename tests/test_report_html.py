"""The HTML report: complete, well formed, self-contained, and right in a real browser at both widths."""

from __future__ import annotations

import base64
import io
import os
import re
import shutil
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from judging_data import evaluation, failures
from PIL import Image
from report_runs import FORBIDDEN_WORDS, REPLAY, run_of, tabletop_run

from roep_gym.error import InvalidInputError
from roep_gym.evaluate.judging.checks import CHECKS
from roep_gym.evaluate.report.episodes import example_episodes, shield_trace
from roep_gym.evaluate.report.figures import FIGURES
from roep_gym.evaluate.report.html import data_uri
from roep_gym.evaluate.report.records import open_run
from roep_gym.evaluate.report.statements import facts, limits
from roep_gym.evaluate.report.tables import TABLES
from roep_gym.evaluate.report.videos import episode_video, overlay_text
from roep_gym.evaluate.report.write import write_report

VOID = {"meta", "link", "img", "br", "hr"}
CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")


class Page(HTMLParser):
    """Collects tags, text and attributes, and refuses tags that do not close in order."""

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.text, self.ids = [], [], [], []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self.ids += [value for name, value in attrs if name == "id"]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open[-1:] not in (["style"], ["script"]):
            self.text.append(data)

    def attributes(self, name):
        return [attrs[name] for _, attrs in self.tags if name in attrs]


@pytest.fixture(scope="module")
def native(tmp_path_factory):
    return tabletop_run(tmp_path_factory)


@pytest.fixture(scope="module")
def written(native, tmp_path_factory):
    """Return the page of each run by name: the replay, and a run with steps and frames, reported inside its folder."""
    folders = {REPLAY: tmp_path_factory.mktemp("page"), native: native / "report"}
    return {
        folder.name: write_report(open_run(folder), out, ["html"]).page for folder, out in folders.items()
    }


@pytest.fixture(scope="module", params=["replay", "tabletop-run"])
def page(request, written):
    return written[request.param]


@pytest.fixture(scope="module")
def parsed(page):
    return Page(page.read_text())


def test_videos_show_every_stored_frame_and_are_linked(native, tmp_path):
    run = open_run(native)
    written = write_report(run, tmp_path, ["html"], videos=True)
    parsed = Page(written.page.read_text())
    videos = [href for href in parsed.attributes("href") if href.endswith(".gif")]
    keys = example_episodes(run)
    # The exact policy never fails and has no shield; the other one fails and succeeds in every condition.
    assert [(key.row, key.condition) for key in keys] == [
        (0, "baseline"), (0, "perturb"), *[(1, name) for name in ("baseline", "perturb", "full") for _ in range(2)]
    ]  # fmt: skip
    assert [run.reason(key) == "success" for key in keys] == [True, True, *[True, False] * 3]
    for key, href in zip(keys, videos, strict=True):
        with Image.open(written.page.parent / href) as video:
            assert video.n_frames == len(run.frames(key)["step"])
    with pytest.raises(InvalidInputError, match="Expected stored images at"):
        episode_video(run, keys[0]._replace(episode=99))


def test_a_video_draws_patch_and_shield_over_the_frame(native):
    run = open_run(native)
    key = next(
        key for key in example_episodes(run) if key.condition == "full" and run.reason(key) == "timeout"
    )
    trace, patches = shield_trace(run, key), run.episode_steps(key)["patch"].values
    step = int(np.flatnonzero(trace.intervened)[0])
    with Image.open(io.BytesIO(episode_video(run, key))) as video:
        video.seek(step)
        picture = np.asarray(video.convert("RGB")).astype(int)
    row, column, _ = patches[step, 0] * 8 + 6
    red, green, blue = picture[row, column]
    assert min(red, green) > 200 > blue + 100, "the outline of the patch is yellow"
    assert tuple(picture[1, 1]) != (255, 255, 255), "the border is coloured while the shield intervenes"
    text = overlay_text(key, step, trace)
    assert text.startswith(f"step {step}  medium  r/tau ")
    assert "intervened" in text
    assert overlay_text(key, 3, None) == "step 3  medium"


def test_the_page_is_well_formed(parsed, page):
    assert page.read_text().startswith("<!DOCTYPE html>")
    assert len(parsed.ids) == len(set(parsed.ids))
    targets = [href[1:] for href in parsed.attributes("href") if href.startswith("#")]
    assert targets
    assert set(targets) <= set(parsed.ids)
    assert all(attrs.get("alt") for tag, attrs in parsed.tags if tag == "img")


def test_the_page_loads_nothing(parsed, page):
    assert all(source.startswith("data:") for source in parsed.attributes("src"))
    assert not {tag for tag, _ in parsed.tags} & {
        "iframe",
        "object",
        "embed",
        "audio",
        "video",
        "form",
        "base",
    }
    assert not re.search(r"https?://|url\(|@import|fetch\(|XMLHttp", page.read_text())
    assert "default-src 'none'" in parsed.attributes("content")[-1]
    # What an image refers to, inside its data, must be in it too.
    for source in parsed.attributes("src"):
        if source.startswith("data:image/svg+xml"):
            svg = base64.b64decode(source.partition(",")[2]).decode()
            assert all(link.startswith(("#", "data:")) for link in re.findall(r'href="([^"]*)"', svg))


def test_links_to_files_are_relative_and_lead_there(parsed, page):
    files = [href for href in parsed.attributes("href") if not href.startswith(("#", "data:"))]
    assert all((page.parent / href).is_file() and not os.path.isabs(href) for href in files)
    assert bool(files) == (page.parent.parent.name == "tabletop-run")


def test_every_table_figure_and_check_is_there(parsed):
    text = "".join(parsed.text)
    tables = set(TABLES) - {"checks"}
    assert {f"table-{name}" for name in tables} <= set(parsed.ids)
    assert all(f"Figure {name}. " in text for name in FIGURES)
    rows = sum(value.startswith("table-checks-") for value in parsed.ids)
    assert rows in (24, 2)
    for check in CHECKS:
        assert text.count(check.name) >= rows


def test_values_thresholds_and_verdicts_are_those_of_the_gate(written):
    run = open_run(REPLAY)
    text = written["replay"].read_text()
    verdicts = run.judgement.verdicts
    for row in range(run.rows):
        table = text.partition(f'<table id="table-checks-{row}"')[2].partition("</table>")[0]
        lines = [re.findall(r"<td[^>]*>([^<]*)</td>", line) for line in table.split("<tr>")[2:]]
        for k, (_, name, _, value, threshold, verdict, _) in enumerate(lines):
            expected = float(verdicts["value"].values[row, k])
            assert name == CHECKS[k].name
            assert value == ("N/A [1]" if expected != expected else f"{expected:.4g}")
            assert float(threshold) == float(verdicts["threshold"].values[row, k])
            assert verdict == verdicts["verdict"].values[row, k]


def test_missing_figures_say_why(written):
    text = written["replay"].read_text()
    assert text.count('<p class="missing">') == 8
    assert "Figure 2. Representative rollouts: N/A, flat tables hold no frames." in text


def test_no_status_is_worded_as_a_recommendation(parsed):
    text = " ".join(parsed.text).lower()
    assert [word for word in FORBIDDEN_WORDS if word in text] == []


def test_names_are_escaped(tmp_path):
    rows = {"model": "<b>bold</b>", "task": 'a"b&c', "contract_note": "<script>alert(1)</script>"}
    written = write_report(run_of(evaluation(rows=rows), tmp_path), tmp_path / "out", ["html"])
    parsed = Page(written.page.read_text())
    assert "b" not in {tag for tag, _ in parsed.tags}
    assert sum(tag == "script" for tag, _ in parsed.tags) == 1
    assert "<b>bold</b>" in "".join(parsed.text)


def test_facts_are_those_of_the_records(written):
    stated = facts(open_run(REPLAY))
    assert stated["Episodes"] == "7100 recorded of 7100 planned; 0 aborted attempts"
    native = facts(open_run(written["tabletop-run"].parent.parent))
    assert native["Step budget"] == "60 control steps"
    given, _, total = re.match(r"(\d+) (of) (\d+) frames", native["Perturbed frames"]).groups()
    assert given == total


def test_limits_name_what_the_records_lack():
    said = " ".join(
        limits(run_of(evaluation({"full": failures(3)}, conditions=["baseline", "perturb", "full"])))
    )
    assert "1 of 1 rows lack clones" in said
    assert "The outcomes are attested" in said
    assert "No severity sweep was run" in said
    assert "have no shield" not in said
    small = {name: ["success"] * 4 for name in ("baseline", "perturb", "recovery", "full")}
    said = " ".join(limits(run_of(evaluation(small, conditions=list(small)))))
    assert "1 of 1 rows have 4 episodes a condition, fewer than the protocol's 50" in said
    assert "1 of 1 rows have fewer than 10 paired base successes" in said


def test_a_data_uri_holds_its_bytes():
    assert data_uri(b"abc", "text/plain") == "data:text/plain;base64,YWJj"


# In a browser

needs_browser = pytest.mark.skipif(
    not (CHROMIUM and DRIVER), reason="no browser: install the Debian packages chromium and chromium-driver"
)


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    webdriver = pytest.importorskip("selenium.webdriver")
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    profile = tmp_path_factory.mktemp("profile")
    for argument in (
        "headless", "no-sandbox", "disable-gpu", "disable-quic", "disable-dev-shm-usage", "no-first-run",
        "disable-background-networking", "disable-component-update", "disable-sync", f"user-data-dir={profile}",
    ):  # fmt: skip
        options.add_argument(f"--{argument}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))
    yield driver
    driver.quit()


def open_page(browser, page: Path, width: int) -> None:
    browser.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": width, "height": 844, "deviceScaleFactor": 1, "mobile": width < 500},
    )
    browser.get(page.as_uri())


@needs_browser
@pytest.mark.parametrize("width", [1280, 390])
def test_nothing_overflows_and_the_console_is_silent(browser, page, width):
    open_page(browser, page, width)
    browser.execute_script("document.querySelectorAll('details').forEach(part => part.open = true)")
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width
    # Whatever is wider than the page scrolls inside a box of its own.
    wide = browser.execute_script(
        "return [...document.querySelectorAll('body *')].filter(e => !e.closest('.scroll')"
        " && e.getBoundingClientRect().right > document.documentElement.clientWidth + 1).map(e => e.outerHTML)"
    )
    assert wide == []
    broken = browser.execute_script(
        "return [...document.images].filter(i => !i.complete || !i.naturalWidth).length"
    )
    assert broken == 0
    assert browser.get_log("browser") == []


@needs_browser
@pytest.mark.parametrize("width", [1280, 390])
def test_tables_sort_on_click(browser, written, width):
    open_page(browser, written["replay"], width)

    def column():
        return browser.execute_script(
            "return [...document.querySelectorAll('#table-3 tbody tr')].map(r => +r.cells[5].dataset.value)"
        )

    values = column()
    button = browser.find_element("css selector", "#table-3 th:nth-child(6) button")
    browser.execute_script("arguments[0].scrollIntoView({block: 'center', inline: 'center'})", button)
    button.click()
    assert column() == sorted(values)
    assert browser.execute_script("return arguments[0].parentElement.ariaSort", button) == "ascending"
    button.click()
    assert column() == sorted(values, reverse=True)
    # What is missing stays below, whichever way the column is sorted.
    for _ in range(2):
        shown = browser.execute_script(
            "document.querySelector('#table-A5 th:nth-child(11) button').click();"
            "return [...document.querySelectorAll('#table-A5 tbody tr')].map(r => r.cells[10].dataset.value)"
        )
        assert shown.index("") == len(shown) - 1
        assert shown != sorted(shown)
