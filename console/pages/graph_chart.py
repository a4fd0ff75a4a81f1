"""The picture of a graph: memories as circles in a ring, relations as lines. Texts of callers are only texts in it."""

import math
import unicodedata
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple
from uuid import UUID

from mnema_wire.overview import RelatedMemory, Relation, Relations
from nicegui import ui

from console.context import page_address
from console.session import COOKIE_PATH
from console.texts import shorten_text
from console.widgets.svg import TONES, draw, show_legend, tone, write

LABEL_LENGTH = 26
SHORT_LABEL_LENGTH = 20
TIP_LENGTH = 80
MOST_CATEGORY = 40
RADIUS = 200.0
MOST_BESIDE = 16
"""The most memories whose names stand on lines beside them; names of more stand around the ring like rays."""
MOST_AROUND = 64
"""The most memories whose names are shown; names of more are only tooltips, as there is no room for them."""
VIEWS = {"beside": (420, 255), "around": (350, 350), "bare": (230, 230)}
"""Half the width and half the height of the picture, by the place of the names."""
LARGEST = 5


class Spot(NamedTuple):
    """The place of a memory in the ring. The middle of the ring is at (0, 0); y points down. `angle` is in radians."""

    x: float
    y: float
    angle: float
    size: float
    """The radius of its circle."""


def place_ring(importances: Sequence[int]) -> list[Spot]:
    """Return a spot for each memory, clockwise from the top. Circles of neighbours never touch."""
    count = len(importances)
    room = 0.9 * RADIUS * math.sin(math.pi / count) if count > 1 else RADIUS
    largest = max((_wish_size(importance) for importance in importances), default=1.0)
    scale = min(1.0, room / largest)
    spots = []
    for place, importance in enumerate(importances):
        angle = 2 * math.pi * place / count - math.pi / 2
        size = scale * _wish_size(importance)
        spots.append(Spot(RADIUS * math.cos(angle), RADIUS * math.sin(angle), angle, size))
    return spots


def place_names(count: int) -> str:
    """Return where the names of so many memories have room: `beside` the circles, `around` the ring, or `bare`."""
    if count <= MOST_BESIDE:
        return "beside"
    return "around" if count <= MOST_AROUND else "bare"


def fit_name(text: str, columns: int) -> str:
    """Return the beginning of a text that takes at most so many columns. Letters such as those of Chinese take two."""
    name = shorten_text(text, columns)
    wide = sum(unicodedata.east_asian_width(char) in "WF" for char in name)
    return shorten_text(text, columns // 2) if len(name) + wide > columns else name


def show_picture(found: Relations) -> ui.element:
    """Show the picture and its legend. A circle's size is its importance, a line's width its strength."""
    ranks = Counter(node.category for node in found.nodes)
    categories = [name for name, _count in sorted(ranks.items(), key=lambda item: (-item[1], item[0]))]
    places = {name: place for place, name in enumerate(categories)}
    nodes = sorted(found.nodes, key=lambda node: places[node.category])
    spots = dict(zip((node.id for node in nodes), place_ring([node.importance for node in nodes]), strict=True))
    names = place_names(len(nodes))
    wide, high = VIEWS[names]
    legend = [(tone(place), shorten_text(name, MOST_CATEGORY)) for name, place in places.items() if place < TONES]
    show_legend([*legend, *([(tone(TONES), "other categories")] if len(places) > TONES else [])], "Categories")
    box = f"{-wide} {-high} {2 * wide} {2 * high}"
    with draw("svg", f"graph {names}", viewBox=box, preserveAspectRatio="xMidYMid slice") as picture, draw("g", "ring"):
        for edge in found.edges:
            if edge.from_id in spots and edge.to_id in spots:
                _draw_line(edge, spots)
        for node in nodes:
            _draw_node(node, spots[node.id], tone(places[node.category]), names)
    picture.props["role"] = "group"  # not "img", which would hide the links in it
    picture.props["aria-label"] = (
        f"Graph of {len(found.nodes)} memories and {len(found.edges)} relations. The table below has all of them."
    )
    return picture


def _wish_size(importance: int) -> float:
    return 5 + 2.5 * max(1, min(LARGEST, importance))


def _draw_line(edge: Relation, spots: dict[UUID, Spot]) -> None:
    """Draw a relation, bent to the middle of the ring so that neighbours' lines stay inside it."""
    begin, end = spots[edge.from_id], spots[edge.to_id]
    bend = (0.3 * (begin.x + end.x), 0.3 * (begin.y + end.y))
    path = f"M{begin.x:.0f} {begin.y:.0f}Q{bend[0]:.0f} {bend[1]:.0f} {end.x:.0f} {end.y:.0f}"
    with draw("path", "line", d=path, stroke_width=0.5 + 4 * max(0.0, min(1.0, edge.strength))):
        kind = shorten_text(edge.relation_type, 40).replace("_", " ")
        write("title", f"{kind}, strength {edge.strength:.2f}")


def _draw_node(node: RelatedMemory, spot: Spot, colour: str, names: str) -> None:
    """Draw a memory as a link. Its title is the name for screen readers and the tooltip."""
    text = node.text or "(no text)"
    marks = ", pinned" if node.pinned else ""
    with draw("a", href=COOKIE_PATH + page_address(f"/memories/{node.id}")):
        about = f"{shorten_text(node.category, MOST_CATEGORY)}, importance {node.importance}{marks}"
        write("title", f"{shorten_text(text, TIP_LENGTH)}\n{about}")
        if node.pinned:
            size = 1.25 * spot.size  # a diamond with the area of the circle
            draw("path", f"dot {colour}", d=f"M{spot.x:.1f} {spot.y - size:.1f}l{size:.1f} {size:.1f} "
                 f"{-size:.1f} {size:.1f} {-size:.1f} {-size:.1f}z")  # fmt: skip
        else:
            draw("circle", f"dot {colour}", cx=f"{spot.x:.1f}", cy=f"{spot.y:.1f}", r=f"{spot.size:.1f}")
        if names == "beside":
            _write_beside(fit_name(text, LABEL_LENGTH), spot)
        elif names == "around":
            _write_around(fit_name(text, SHORT_LABEL_LENGTH), spot)


def _write_beside(name: str, spot: Spot) -> None:
    """Write a name on a line, outside of the ring."""
    across, down = math.cos(spot.angle), math.sin(spot.angle)
    far = RADIUS + 1.25 * spot.size + 8
    is_side = abs(across) > 0.1
    anchor = "middle" if not is_side else "start" if across > 0 else "end"
    y = far * down + (4 if is_side else 4 + 4 * down)
    write("text", name, "name", x=f"{far * across:.1f}", y=f"{y:.1f}", text_anchor=anchor, aria_hidden="true")


def _write_around(name: str, spot: Spot) -> None:
    """Write a name as a ray of the ring, never upside down."""
    far = RADIUS + 1.25 * spot.size + 6
    turn = math.degrees(spot.angle)
    is_left = math.cos(spot.angle) < 0
    write("text", name, "name", x=f"{-far if is_left else far:.1f}", y="4", text_anchor="end" if is_left else "start",
          transform=f"rotate({turn + 180 if is_left else turn:.1f})", aria_hidden="true")  # fmt: skip
