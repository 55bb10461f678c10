// Looks at every page that was asked for, works it as a reader would, and writes down what it found.
"use strict";
(async () => {
  const asked = JSON.parse(document.getElementById("asked").textContent);
  const rgb = (text) => (text.match(/[\d.]+/g) || []).map(Number);
  const light = (colour) => colour.slice(0, 3).map((c) => c / 255).map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)).reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
  const contrast = (a, b) => { const [low, high] = [light(a), light(b)].sort((x, y) => x - y); return (high + 0.05) / (low + 0.05); };
  const ground = (view, node) => {
    for (let one = node; one; one = one.parentElement) { const colour = rgb(view.getComputedStyle(one).backgroundColor); if (colour.length === 3 || colour[3] === 1) return colour; }
    return [255, 255, 255];
  };
  const faintest = (view, page) => {
    let worst = { ratio: 99, text: "" };
    for (const node of page.body.querySelectorAll("*")) {
      const text = [...node.childNodes].filter((one) => one.nodeType === 3).map((one) => one.textContent.trim()).join("");
      if (!text || ["SCRIPT", "STYLE", "NOSCRIPT"].includes(node.tagName) || !node.getClientRects().length) continue;
      const ratio = contrast(rgb(view.getComputedStyle(node).color), ground(view, node));
      if (ratio < worst.ratio) worst = { ratio, text: `${node.tagName} ${node.className}: ${text.slice(0, 40)}` };
    }
    return worst;
  };
  const sorted = (page) => [...page.querySelectorAll(".sheet table")].map((table) => {
    const column = (index) => [...table.tBodies[0].rows].map((row) => row.cells[index].textContent.trim());
    return [...table.tHead.rows[0].cells].map((head, index) => {
      const button = head.querySelector("button"), orders = [column(index)], said = [head.getAttribute("aria-sort")];
      for (let click = 0; button && click < 2; click++) { button.click(); orders.push(column(index)); said.push(head.getAttribute("aria-sort")); }
      return { head: head.textContent, orders, said, marked: table.querySelectorAll("[aria-sort]").length };
    });
  });
  const frames = () => new Promise((done) => setTimeout(done, 120));
  const look = async ({ html, width, scheme }) => {
    const frame = document.createElement("iframe");
    frame.style = `width:${width}px;height:900px;border:0;color-scheme:${scheme}`;
    frame.srcdoc = html;
    document.body.prepend(frame);
    await new Promise((done) => { frame.onload = done; });
    const view = frame.contentWindow, page = frame.contentDocument, root = page.documentElement, found = {};
    await frames();
    found.dark = view.matchMedia("(prefers-color-scheme: dark)").matches;
    found.overflow = root.scrollWidth - root.clientWidth;
    found.tables = [...page.querySelectorAll(".sheet")].map((one) => { const box = one.querySelector(".wide"); return { overflow: box.scrollWidth - box.clientWidth, heads: [...box.querySelectorAll("th")].filter((head) => head.getClientRects().length).length }; });
    found.pictures = [...page.querySelectorAll("figure .picture")].map((box) => ({ width: box.firstChild.getBoundingClientRect().width, scrolls: box.scrollWidth > box.clientWidth, filters: [box, box.firstChild].map((one) => view.getComputedStyle(one).filter) }));
    found.contrast = faintest(view, page);
    found.sorted = sorted(page);
    for (const box of page.querySelectorAll(".switch input")) box.checked = true;
    for (const one of page.querySelectorAll("details")) one.open = true;
    await frames();
    found.overflow_unfolded = root.scrollWidth - root.clientWidth;
    found.heads_unfolded = [...page.querySelectorAll(".sheet")].map((one) => [...one.querySelectorAll("th")].filter((head) => head.getClientRects().length).length);
    found.copies = [...page.querySelectorAll("button.copy")].filter((one) => !one.hidden).length;
    frame.remove();
    return found;
  };
  const results = [];
  for (const one of asked) results.push(await look(one).catch((error) => ({ error: `${error}` })));
  document.getElementById("found").textContent = JSON.stringify(results);
})();
