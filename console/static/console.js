// Keyboard, theme and help, in the browser so that they are immediate. No text of a caller is read here.
(() => {
  const THEME = "mnema_console_theme";
  let waiting = 0;

  function switchTheme() {
    const dark = !document.body.classList.contains("body--dark");
    document.cookie = `${THEME}=${dark ? "dark" : "light"}; path=/console; SameSite=Strict; max-age=31536000`;
    Quasar.Dark.set(dark);
    document.getElementById("nicegui-color-scheme").setAttribute("content", dark ? "dark" : "light");
  }

  function isTyping(target) {
    return target.isContentEditable || ["INPUT", "TEXTAREA", "SELECT"].includes(target.tagName);
  }

  function openHelp() {
    document.querySelector("[data-open-help]")?.click();
  }

  document.addEventListener("click", (event) => {
    if (event.target.closest("[data-theme]")) switchTheme();
    if (event.target.closest("[data-help]")) openHelp();
  });

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
    if (document.querySelector(".q-dialog")) return;
    if (Date.now() - waiting < 1500) {
      waiting = 0;
      const link = document.querySelector(`[data-shortcut="${CSS.escape(event.key)}"]`);
      if (link) {
        event.preventDefault();
        window.location.assign(link.getAttribute("href"));
      }
      return;
    }
    if (event.key === "g") waiting = Date.now();
    else if (event.key === "t") switchTheme();
    else if (event.key === "?") openHelp();
    else if (event.key === "/") {
      const field = document.querySelector("[data-search] input, input[data-search]");
      if (!field) return;
      event.preventDefault();
      field.focus();
    }
  });

  // The editor of code has no label of its own.
  new MutationObserver(() => {
    for (const content of document.querySelectorAll("[data-label] .cm-content:not([aria-label])")) {
      content.setAttribute("aria-label", content.closest("[data-label]").dataset.label);
    }
  }).observe(document, { childList: true, subtree: true });
})();
