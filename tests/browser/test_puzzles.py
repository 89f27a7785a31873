"""Pages of puzzles: hints and solutions stay folded, without scripts too."""

PUZZLES = "lessons/memory/puzzles/"


def test_hints_and_solutions_are_folded_without_scripts(open_context, site):
    page = open_context(java_script_enabled=False).new_page()
    page.goto(site + PUZZLES)
    for puzzle in page.locator(".exercise.puzzle").all():
        assert puzzle.locator("details.hint").count() >= 3
        assert puzzle.locator("details[open]").count() == 0
        solution = puzzle.locator("details.answer .highlight")
        assert not solution.is_visible()
        puzzle.locator("details.answer > summary").click()
        assert solution.is_visible()
