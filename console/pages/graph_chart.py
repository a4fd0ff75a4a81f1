"""The picture of a graph: circles for memories, lines for relations. Texts of callers are only values in it."""

from typing import Any

from mnema_client.overview import RelatedMemory, Relation, Relations

from console.texts import shorten_text

LABEL_LENGTH = 26
TIP_LENGTH = 90
COLOURS = ["#3f7fd0", "#b8602c", "#2f8f5b", "#a352ad", "#8f7a1e", "#c4456a", "#2b8a9e", "#7d6fd1"]
"""Colours with a contrast of at least 3 to the light and to the dark ground."""
GROUND = "#3d4a58"
CHIP = {"color": "#ffffff", "backgroundColor": GROUND, "borderRadius": 4, "padding": [2, 5], "lineHeight": 16}
"""White on a dark ground of its own: it can be read on a light page and on a dark one."""


def chart_options(found: Relations) -> dict[str, Any]:
    """Return the options of the chart. A circle's size is its importance, a line's width its strength."""
    categories = sorted({node.category for node in found.nodes})
    places = {name: place for place, name in enumerate(categories)}
    return {
        "animation": False,
        "color": COLOURS,
        "legend": {
            "data": [shorten_text(name, 40) for name in categories],
            "selectedMode": False,
            "top": 0,
            "textStyle": CHIP,
        },
        "tooltip": {"renderMode": "richText", "backgroundColor": GROUND, "textStyle": {"color": "#ffffff"}},
        "series": [
            {
                "type": "graph",
                "layout": "circular",
                "top": 60,
                "categories": [{"name": shorten_text(name, 40)} for name in categories],
                "data": [_draw_node(node, places[node.category]) for node in found.nodes],
                "links": [_draw_line(edge) for edge in found.edges],
                "left": 90,
                "right": 90,
                "bottom": 40,
                "label": {"show": True, "position": "bottom", "fontSize": 12, **CHIP},
                "labelLayout": {"hideOverlap": True},
                "lineStyle": {"color": "#7b8794", "curveness": 0.05},
            }
        ],
    }


def _draw_node(node: RelatedMemory, category: int) -> dict[str, Any]:
    text = node.text or "(no text)"
    return {
        "id": str(node.id),
        "name": shorten_text(text, LABEL_LENGTH),
        "value": node.importance,
        "category": category,
        "symbolSize": 10 + 5 * node.importance,
        "symbol": "diamond" if node.pinned else "circle",
        "tooltip": {"formatter": f"{_as_words(shorten_text(text, TIP_LENGTH))}\nimportance {node.importance}"},
    }


def _draw_line(edge: Relation) -> dict[str, Any]:
    kind = shorten_text(edge.relation_type, 40).replace("_", " ")
    return {
        "source": str(edge.from_id),
        "target": str(edge.to_id),
        "value": round(edge.strength, 3),
        "lineStyle": {"width": 0.5 + 4 * max(0.0, min(1.0, edge.strength))},
        "tooltip": {"formatter": f"{_as_words(kind)}, strength {edge.strength:.2f}"},
    }


def _as_words(text: str) -> str:
    """Return a text without braces, which are templates of the chart."""
    return text.replace("{", "(").replace("}", ")")
