"""From lessons to pages: their cells run, numbers are filled into prose, and Markdown is written."""
