"""From lessons to pages: runs their cells, fills numbers into their prose, and writes Markdown."""
