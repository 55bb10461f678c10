// Tables that sort by a click (or Enter) on a head, and buttons that copy a command. Without this a page is complete.
"use strict";
(() => {
  // The first number of a cell; an em dash is a time that was never reached, an en dash nothing at all.
  const valueOf = (cell) => {
    const text = cell.textContent.trim();
    if (/^[\u2014\u221e]/.test(text)) return Infinity;
    if (text === "" || text === "\u2013") return NaN;
    return parseFloat(text.replace(/[,\u202f]/g, ""));
  };
  // Cells that hold nothing come last in either direction.
  const compare = (words, sign) => (a, b) => {
    if (words) return sign * a.text.localeCompare(b.text, undefined, { numeric: true });
    if (Number.isNaN(a.value) || Number.isNaN(b.value)) return Number.isNaN(a.value) - Number.isNaN(b.value);
    return a.value === b.value ? 0 : sign * (a.value < b.value ? -1 : 1);
  };
  const sort = (table, head, index) => {
    const sign = head.getAttribute("aria-sort") === "ascending" ? -1 : 1;
    const body = table.tBodies[0];
    const rows = [...body.rows].map((row) => {
      const cell = row.cells[index];
      return { row, text: cell.textContent.trim(), value: valueOf(cell) };
    });
    const words = !rows.some((one) => !Number.isNaN(one.value)) || head.classList.contains("word");
    rows.sort(compare(words, sign));
    body.append(...rows.map((one) => one.row));
    for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", sign > 0 ? "ascending" : "descending");
  };
  for (const table of document.querySelectorAll(".sheet table")) {
    if (table.tBodies[0].rows.length < 2) continue;
    [...table.tHead.rows[0].cells].forEach((head, index) => {
      const button = document.createElement("button");
      button.type = "button";
      button.append(...head.childNodes);
      button.addEventListener("click", () => sort(table, head, index));
      head.append(button);
    });
  }
  const copy = async (code) => {
    try {
      await navigator.clipboard.writeText(code.textContent);
    } catch { // where the page may not, the selection is copied
      getSelection().selectAllChildren(code);
      document.execCommand("copy");
    }
  };
  for (const button of document.querySelectorAll("button.copy")) {
    button.hidden = false;
    button.addEventListener("click", async () => {
      await copy(button.parentElement.querySelector("code"));
      button.textContent = "copied";
      setTimeout(() => { button.textContent = "copy"; }, 1500);
    });
  }
})();
