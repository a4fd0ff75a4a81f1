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

  // Saved filters: names and addresses in this browser alone, shown as text. The address of the page holds the filters.
  const SAVED = "mnema_console_filters:";
  const MOST_SAVED = 50;

  function readSaved(key) {
    try {
      const found = JSON.parse(localStorage.getItem(SAVED + key)) ?? [];
      return found.filter((one) => typeof one.name === "string" && typeof one.query === "string");
    } catch {
      return [];
    }
  }

  function addElement(parent, tag, properties) {
    return parent.appendChild(Object.assign(document.createElement(tag), properties));
  }

  function showSaved(place) {
    const key = place.dataset.savedFilters;
    const saved = readSaved(key);
    place.replaceChildren();
    const list = addElement(place, "ul", { className: "chips plain", ariaLabel: "Saved filters" });
    for (const one of saved) {
      const entry = addElement(list, "li", { className: "chip" });
      const link = { className: "link", href: location.pathname + one.query, textContent: one.name };
      addElement(entry, "a", link);
      const remove = addElement(entry, "button", { type: "button", textContent: "×", className: "remove" });
      remove.ariaLabel = `Remove the saved filter ${one.name}`;
      remove.addEventListener("click", () => keepSaved(place, saved.filter((other) => other !== one)));
    }
    const form = addElement(place, "form", { className: "row" });
    const name = addElement(form, "input", { placeholder: "Name", maxLength: 60, autocomplete: "off" });
    name.ariaLabel = "Name for these filters";
    addElement(form, "button", { type: "submit", textContent: "Save these filters", className: "plain-button" });
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      const given = name.value.trim();
      if (!given) return name.focus();
      const others = saved.filter((one) => one.name !== given);
      keepSaved(place, [{ name: given, query: location.search }, ...others].slice(0, MOST_SAVED));
    });
  }

  function keepSaved(place, saved) {
    localStorage.setItem(SAVED + place.dataset.savedFilters, JSON.stringify(saved));
    showSaved(place);
    place.querySelector("input").focus();
  }

  new MutationObserver(() => {
    for (const place of document.querySelectorAll("[data-saved-filters]:empty")) showSaved(place);
  }).observe(document, { childList: true, subtree: true });

  // The editor of code has no label of its own.
  new MutationObserver(() => {
    for (const content of document.querySelectorAll("[data-label] .cm-content:not([aria-label])")) {
      content.setAttribute("aria-label", content.closest("[data-label]").dataset.label);
    }
  }).observe(document, { childList: true, subtree: true });
})();
