"""The kinds of figures, each a folder whose name a figure has as its ``kind``.

In a folder: what a lesson calls, in Python, which returns a ``Figure`` with a specification; ``draw.js``,
whose ``mount`` draws it on a page, or ``draw_on_demand.js`` where few pages need it; and perhaps
``style.css``. Scripts and styles of the site take in every folder that is here; ``tilewise.figures`` lists
the public names. What kinds share stands there and, for scripts as ``tilewise-figures``, in
``site/web/figures``.
"""
