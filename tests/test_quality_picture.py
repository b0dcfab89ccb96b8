"""The first table and the chart of docs/quality.md show the means of the runs."""

from scripts.figures.draw_quality import PAGE, RUNS, Result, first_table, quality_svg, rows


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

| scene (photographs) | 2,500 steps | default | splats | FastGS | gsplat |
| --- | --- | --- | --- | --- | --- |
| ball, red (9) | 29.0 / 0.8, 1.5 s | **30.0, 31.0** / 0.9, 11.0 s | 9k | 29.5 / 0.9, 99.0 s | 29.25, 9.5 s |
| cube (9) | | **30.0** / 0.9, 11.0 s | 9k | 29.5 / 0.9 | |

"""
    ball, cube = rows(page)
    assert (ball.scene, ball.splat) == ("ball", [Result(29.0, 1.5), Result(30.5, 11.0)])
    assert ball.others == {"FastGS": Result(29.5, 99.0), "gsplat": Result(29.25, 9.5)}
    assert (cube.splat, cube.others) == ([Result(30.0, 11.0)], {"FastGS": Result(29.5, None)})
    assert first_table([ball, cube]).splitlines()[2:] == [
        "| ball | **30.50 dB, 11 s** | 29.50 dB, 99 s | 29.25 dB, 10 s |",
        "| cube (9) | **30.00 dB, 11 s** | 29.50 dB | |",
    ]
    assert quality_svg([ball, cube]).count("<g ") == 1  # a scene without times of others has no curve
