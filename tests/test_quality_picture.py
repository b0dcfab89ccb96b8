"""The first table and the chart of docs/quality.md show the means of the runs."""

from scripts.figures.draw_quality import PAGE, RUNS, first_table, quality_svg, rows


def test_the_chart_of_quality_is_current():
    picture = (PAGE.parent / "images" / "quality.svg").read_text()
    assert picture == quality_svg(rows(RUNS.read_text())), (
        "run: python scripts/figures/draw_quality.py chart > docs/images/quality.svg"
    )


def test_the_first_table_of_quality_is_current():
    assert first_table(rows(RUNS.read_text())) in PAGE.read_text(), (
        "paste the output of: python scripts/figures/draw_quality.py table"
    )


def test_rows_are_means_over_seeds():
    page = """

| scene (photographs) | splat | seconds | splats | FastGS | gsplat |
| --- | --- | --- | --- | --- | --- |
| ball, red | **30.0, 31.0** / 0.9 | 10.0, 12.0 (1a2b3c) | 9k | 29.5 / 0.9, 99.0 s | |

"""
    (row,) = rows(page)
    assert (row.scene, row.splat, row.splat_seconds, row.fastgs, row.fastgs_seconds) == ("ball", 30.5, 11.0, 29.5, 99.0)
    assert row.gsplat is None
