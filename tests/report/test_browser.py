"""The report in a browser: no errors, no overflow, all figures, working buttons. Skipped without Chromium."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

import blockbasis as bb
from blockbasis.experiments import compare as comparison
from blockbasis.report import factorization_page, model_page, write_page

pytest.importorskip("matplotlib")
pytest.importorskip("typer")

from blockbasis.cli import compare

webdriver = pytest.importorskip("selenium.webdriver", reason="the browser tests need selenium (extra test)")
CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
if CHROMIUM is None or DRIVER is None:
    pytest.skip("the browser tests need Debian's chromium and chromium-driver", allow_module_level=True)

PHONE, DESKTOP = 390, 1280


@pytest.fixture(scope="module")
def browser():
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))
    yield driver
    driver.quit()


@pytest.fixture(scope="module")
def pages(fitted, factorization, tmp_path_factory):
    folder = tmp_path_factory.mktemp("pages")
    made = {kind: model_page(*fitted[kind], stages={"search": 1.0}) for kind in fitted}
    made["factorization"] = factorization_page(factorization, title="300 points", findings=[])
    points = np.random.default_rng(0).normal(size=(60, 2))
    methods = ["bbf", "svd", "nystrom"]
    made["comparison"] = compare._page(comparison(points, bb.Gaussian(1.0), methods=methods, budgets=[5, 10], runs=1))
    for name, page in made.items():
        write_page(page, folder / f"{name}.html")
    return folder


def show(browser, path, width, theme="light"):
    metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width == PHONE}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    scheme = {"features": [{"name": "prefers-color-scheme", "value": theme}]}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", scheme)
    browser.get(path.as_uri())


@pytest.mark.parametrize("name", ["regression", "classification", "factorization", "comparison"])
@pytest.mark.parametrize("width", [PHONE, DESKTOP])
def test_a_page_fits_and_has_its_figures(browser, pages, name, width):
    show(browser, pages / f"{name}.html", width)
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width
    figures = "[...document.querySelectorAll('figure svg')].map(svg => svg.getBoundingClientRect())"
    sizes = browser.execute_script(f"return {figures}.map(box => [box.width, box.height])")
    assert len(sizes) >= (2 if name == "comparison" else 4)
    assert all(wide > 200 and high > 120 for wide, high in sizes)
    assert browser.execute_script("return document.querySelectorAll('svg[role=img][aria-label]').length") == len(sizes)
    assert browser.get_log("browser") == []


def test_the_theme_follows_the_system_and_the_button(browser, pages):
    background = "return getComputedStyle(document.body).backgroundColor"
    show(browser, pages / "regression.html", DESKTOP, "light")
    light = browser.execute_script(background)
    show(browser, pages / "regression.html", DESKTOP, "dark")
    dark = browser.execute_script(background)
    assert light != dark
    ink = "return getComputedStyle(document.querySelector('figure svg text')).fill"
    on_dark = browser.execute_script(ink)
    browser.find_element("id", "theme").click()
    assert browser.execute_script(background) == light
    assert browser.execute_script(ink) != on_dark


def test_a_page_is_printed_in_dark_ink_on_a_dark_system(browser, pages):
    show(browser, pages / "regression.html", DESKTOP, "dark")
    dark = {"media": "print", "features": [{"name": "prefers-color-scheme", "value": "dark"}]}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", dark)
    try:
        style = "const body = getComputedStyle(document.body); return [body.color, body.backgroundColor]"
        assert browser.execute_script(style) == ["rgb(0, 0, 0)", "rgb(255, 255, 255)"]
        shown = "return getComputedStyle(document.querySelector('.controls')).display"
        assert browser.execute_script(shown) == "none"
    finally:
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})


def test_all_tables_open_and_close(browser, pages):
    show(browser, pages / "regression.html", PHONE)
    count = "return document.querySelectorAll('details[open]').length"
    assert browser.execute_script(count) == 0
    browser.find_element("id", "tables").click()
    total = browser.execute_script("return document.querySelectorAll('details').length")
    assert browser.execute_script(count) == total > 0
    assert browser.execute_script("return document.documentElement.scrollWidth") <= PHONE
    browser.find_element("id", "tables").click()
    assert browser.execute_script(count) == 0
