"""A question before something that is hard to undo."""

from nicegui import ui

from console.texts import reveal_text


async def ask_confirmation(title: str, consequence: str, *, action: str, typed: str = "") -> bool:
    """Ask before `action`, which names the button. With `typed`, the person must type this text first.

    `title`, `consequence` and `typed` may hold texts of callers.
    """
    with ui.dialog() as dialog, ui.card().classes("dialog"):
        dialog.props["aria-label"] = reveal_text(title, 200)
        ui.label(reveal_text(title, 200)).classes("dialog-title")
        ui.label(reveal_text(consequence, 2000)).classes("text")
        button = ui.button(action, color="negative", on_click=lambda: dialog.submit(True)).mark("confirm")
        if typed:
            label = f"Type {reveal_text(typed, 200)} to confirm"
            field = ui.input(label, on_change=lambda event: button.set_enabled(event.value == typed))
            field.classes("wide").props("autofocus autocomplete=off").mark("confirmation")
            field.on("keydown.enter", lambda: dialog.submit(True) if field.value == typed else None)
            button.disable()
        with ui.row().classes("row end"):
            cancel = ui.button("Cancel", on_click=lambda: dialog.submit(False)).props("outline")
            button.move()
        if not typed:
            cancel.props("autofocus")
    try:
        return bool(await dialog)
    finally:
        dialog.delete()
