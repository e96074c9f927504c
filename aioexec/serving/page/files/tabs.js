/* Tabs as the ARIA practices describe them: arrow keys, Home and End choose, one tab stop. */

export class Tabs {
  /** @param onChoose called with a tab's id when it is chosen */
  constructor(list, onChoose) {
    this.tabs = [...list.querySelectorAll("[role=tab]")];
    this.onChoose = onChoose;
    for (const tab of this.tabs) tab.addEventListener("click", () => this.choose(tab.id));
    list.addEventListener("keydown", (event) => this.onKey(event));
  }

  get chosen() {
    return this.tabs.find((tab) => tab.getAttribute("aria-selected") === "true")?.id;
  }

  choose(id) {
    for (const tab of this.tabs) {
      const chosen = tab.id === id;
      tab.setAttribute("aria-selected", String(chosen));
      tab.tabIndex = chosen ? 0 : -1;
      document.getElementById(tab.getAttribute("aria-controls")).hidden = !chosen;
    }
    this.onChoose(id);
  }

  onKey(event) {
    const at = this.tabs.indexOf(document.activeElement);
    const count = this.tabs.length;
    const to = { ArrowRight: (at + 1) % count, ArrowLeft: (at + count - 1) % count, Home: 0, End: count - 1 }[event.key];
    if (at < 0 || to === undefined) return;
    event.preventDefault();
    this.tabs[to].focus();
    this.choose(this.tabs[to].id);
  }
}
