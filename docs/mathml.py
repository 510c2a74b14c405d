"""Formulas as MathML, which browsers draw without a script and without the network."""

from __future__ import annotations

from docutils import nodes
from latex2mathml.converter import convert


def _inline(self, node):
    self.body.append(convert(node.astext()))
    raise nodes.SkipNode


def _block(self, node):
    self.body.append(f'<div class="math">{convert(node.astext(), display="block")}</div>')
    raise nodes.SkipNode


def setup(app):
    """Add the renderer, which ``html_math_renderer`` selects."""
    app.add_html_math_renderer("mathml", inline_renderers=(_inline, None), block_renderers=(_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
