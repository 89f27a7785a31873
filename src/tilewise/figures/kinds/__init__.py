"""The kinds of figures, one folder for each; its name is the figure's ``kind``.

A folder contains the Python function that a lesson calls, which returns a ``Figure`` with a specification;
``draw.js``, whose ``mount`` draws it on a page, or ``draw_on_demand.js`` if few pages need it; and optionally
``style.css``. The site's scripts and styles include every folder here; ``tilewise.figures`` lists the public
names. Shared Python code is there, and shared scripts are in ``site/web/figures``, imported as
``tilewise-figures``.
"""
