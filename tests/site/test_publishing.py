"""What a published site has and ``mkdocs serve`` leaves out: policy, one stylesheet, previews, licences."""

import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
import synthetic
from sites import link_assets

from tilewise.site.folded import FILE
from tilewise.site.publishing import finish

ROOT = Path(__file__).resolve().parents[2]
SITE = "https://course.example/kernels/"
REPOSITORY = "https://host.example/owner/name"


def publish(project: Path, site: Path, web_cache: Path, cache: Path) -> str:
    """Build a project to be published; what was said."""
    link_assets(web_cache, cache)
    config = project / "mkdocs.yml"
    text = re.sub(
        r"site_url: .*", "site_url: !ENV SITE_URL\nrepo_url: !ENV [REPO_URL, '']", config.read_text()
    )
    config.write_text(text, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(site)],
        cwd=project,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "TILEWISE_CACHE": str(cache), "SITE_URL": SITE, "REPO_URL": REPOSITORY},
    )
    return done.stdout + done.stderr if done.returncode else ""


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory, web_cache: Path) -> Path:
    """A small site, built once to be published below a folder of its host; tests only read it."""
    folder = tmp_path_factory.mktemp("published")
    project = folder / "project"
    synthetic.write_project(project, 4)
    said = publish(project, folder / "site", web_cache, folder / "cache")
    assert "is no git checkout" in said, "notebooks could not name a revision"
    git = ["git", "-c", "user.name=A", "-c", "user.email=a@example.org"]
    for command in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "One"], ["tag", "v1"]):
        subprocess.run([*git, *command], cwd=project, check=True)
    assert publish(project, folder / "site", web_cache, folder / "cache") == ""
    return folder / "site"


def pages(site: Path) -> dict[str, str]:
    found = {path.relative_to(site).as_posix(): path.read_text("utf-8") for path in site.rglob("*.html")}
    return {name: text for name, text in found.items() if not name.endswith(FILE)}


def test_every_page_is_described_and_addressed(published):
    for name, text in pages(published).items():
        if name == "404.html":
            assert '<meta name="robots" content="noindex">' in text
            continue
        inside = name.removesuffix("index.html")
        assert f'<link rel="canonical" href="{SITE}{inside}">' in text
        assert f'<meta property="og:url" content="{SITE}{inside}">' in text
        assert '<html lang="en"' in text
        assert text.count('<meta name="description" content="') == 1
        assert text.count('<meta http-equiv="Content-Security-Policy" content="default-src') == 1
    sitemap = ET.parse(published / "sitemap.xml").getroot()
    listed = {str(entry.text) for entry in sitemap.iter("{http://www.sitemaps.org/schemas/sitemap/0.9}loc")}
    made = {SITE + name.removesuffix("index.html") for name in pages(published) if name != "404.html"}
    assert listed == made


def test_a_page_has_one_stylesheet_that_keeps_what_the_page_uses(published):
    for name, text in pages(published).items():
        (sheet,) = re.findall(r'<link rel="stylesheet" href="([^"]+)">', text)
        start = published if sheet.startswith("/") else (published / name).parent
        styles = (start / sheet.removeprefix("/kernels/")).read_text(encoding="utf-8")
        for used in (
            ".md-header",
            ".md-typeset",
            ".md-search-result__item",
            ".tw-",
            "data-md-color-scheme=slate",
        ):
            assert used in styles, used
    fonts = re.findall(r"url\(['\"]?([^)'\"]+\.woff2)", styles)
    assert fonts
    assert all((published / "assets/tilewise" / font).is_file() for font in fonts), fonts


def test_plain_tables_stand_in_the_box_that_the_themes_script_would_make(tmp_path):
    data = '<script type="application/json">"<table></table>"</script>'
    (tmp_path / "a.css").write_text("a{}")
    link = '<link rel="stylesheet" href="a.css">'
    (tmp_path / "index.html").write_text(
        f'<head>{link}</head>{data}<table data-line="7"><tr></table>'
        '<table><tr></table><table class="b"></table>'
    )
    finish(tmp_path, "a.css", "/")
    text = (tmp_path / "index.html").read_text()
    plain = [
        f'<div class="md-typeset__scrollwrap"><div class="md-typeset__table">'
        f'<table class="tw-plain"{line}><tr></table></div></div>'
        for line in (' data-line="7"', "")
    ]
    assert text.endswith(f'{data}{"".join(plain)}<table class="b"></table>')


def test_listings_and_many_rows_say_how_long_they_are(tmp_path):
    (tmp_path / "a.css").write_text("a{}")
    listing = "<pre><span></span><code><span>a\n</span><span>b\n</span></code></pre>"
    rows = "<tr></tr>" * 300
    measured = '<tr><td data-provenance="x"></td></tr>'
    tables = f"<table>{rows}</table><table>{rows}</table><table>{measured}</table>"
    head = '<head><link rel="stylesheet" href="a.css"></head>'
    (tmp_path / "index.html").write_text(f"{head}{listing}{tables}")
    finish(tmp_path, "a.css", "/")
    text = (tmp_path / "index.html").read_text()
    assert '<pre style="--tw-lines:2"><span></span><code>' in text
    assert text.count(' style="--tw-rows:300"') == 2
    assert "--tw-rows:1" not in text


def test_the_404_page_works_from_any_depth(published):
    addresses = re.findall(r'(?:href|src)="([^"#]+)"', pages(published)["404.html"])
    assert addresses
    assert all(address.startswith(("/kernels/", "https://", "data:")) for address in addresses), addresses


def test_notebooks_name_the_revision_that_is_checked_out(published):
    notebook = next(published.rglob("*.ipynb")).read_text(encoding="utf-8")
    assert f"git clone --quiet --filter=blob:none {REPOSITORY} tilewise" in notebook
    assert "checkout --quiet v1" in notebook
    assert "api.github" not in "".join(pages(published).values())
