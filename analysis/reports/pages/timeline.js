// The timeline of a run: lanes of workers and servers on a canvas, which zoom and pan by mouse, touch and keyboard.
"use strict";
(() => {
  const box = document.querySelector(".timeline"), source = document.querySelector(".timeline-data");
  if (!box || !source) return;
  const data = JSON.parse(source.textContent), end = data.end, count = data.lanes.length;
  const TOP = 46, RIGHT = 10, wide = matchMedia("(min-width: 48rem)");
  const axis = box.querySelector("canvas.axis"), lanes = box.querySelector(".lanes canvas");
  const tip = box.querySelector(".tip"), said = box.querySelector("output");
  let from = 0, to = end, width = 0, left = 0, pitch = 0, colours = [], ink = "", faint = "", mark = "", chosen = -1, drawn = 0, strip = null;

  const sums = (steps) => { let sum = 0; return Float64Array.from(steps, (step) => (sum += step)); };
  const at = (numbers, i) => (Array.isArray(numbers) ? numbers[i] : numbers);
  const after = (times, t) => { // the first place whose time is later than t
    let low = 0, high = times.length;
    while (low < high) { const middle = (low + high) >> 1; if (times[middle] <= t) low = middle + 1; else high = middle; }
    return low;
  };
  const workers = new Map((data.detail || []).map((one) => [one.lane, { t: sums(one.t), d: one.d, n: sums(one.n), s: one.s, v: sums(one.v), f: one.f }]));
  const servers = new Map(data.servers.map((one) => [one.lane, { t: sums(one.t), b: one.b, u: one.u }]));
  const updates = sums(data.updates);
  const bins = data.bins && { ...data.bins, bytes: Uint8Array.from(atob(data.bins.bytes), (letter) => letter.charCodeAt(0)) };
  const digits = () => Math.max(0, Math.min(6, 2 - Math.floor(Math.log10((to - from) * data.tick_s))));
  const plain = (s, places) => `${s.toFixed(places)} s`;
  // As figures choose it (time_axis.py): the unit of a job so long, and steps that divide the next one.
  const [unit, unitS, steps] = [[2000, "s", 1, [1, 2, 5, 10]], [10800, "min", 60, [1, 2, 3, 6, 10]], [345600, "h", 3600, [1, 2, 3, 6, 10]], [Infinity, "d", 86400, [1, 2, 5, 10]]].find(([most]) => end * data.tick_s <= most).slice(1);
  const seconds = (ticks, places = digits()) => { // what is short within a long job remains in seconds
    const s = ticks * data.tick_s;
    return unitS === 1 || Math.abs(s) < unitS ? plain(s, places) : `${(s / unitS).toFixed(Math.min(6, places + 2))} ${unit}`;
  };
  const place = (t) => left + ((t - from) / (to - from)) * (width - left - RIGHT);
  const timeAt = (x) => from + ((x - left) / (width - left - RIGHT)) * (to - from);

  // ---- what is drawn ----
  // The pieces of iteration i, backwards from its end, and never before the last one's: (phase, start, end).
  const pieces = function* (work, i) {
    const floor = i ? work.t[i - 1] : 0;
    let stop = work.t[i];
    for (let phase = 4; phase >= 0; phase--) {
      const start = Math.max(stop - work.d[5 * i + phase], floor);
      if (stop > start) yield [phase, start, stop];
      stop = start;
    }
  };
  const stack = (pen, x, w, y, h, shares) => { // shares of a bin: one above another, or mixed in a thin lane
    let top = y + h;
    for (const phase of [2, 3, 1, 4, 0]) {
      const part = shares[phase] * h;
      pen.fillStyle = colours[phase];
      pen.fillRect(x, top - part, w + 0.3, part + (phase ? 0 : 0.2));
      top -= part;
    }
  };
  const thick = () => Math.max(1, pitch >= 8 ? pitch * 0.7 : pitch);
  const drawWorker = (pen, work, y) => {
    const first = after(work.t, from), last = Math.min(after(work.t, to), work.t.length - 1), h = thick();
    if (last - first > (width - left) / 2.5 && pitch >= 8) { // iterations too thin to be seen
      const step = 4, columns = Math.ceil((width - left - RIGHT) / step), each = (to - from) / columns;
      const sum = Array.from({ length: columns }, () => [0, 0, 0, 0, 0]);
      for (let i = first; i <= last; i++) for (const [phase, start, stop] of pieces(work, i)) {
        for (let c = Math.max(0, Math.floor((start - from) / each)); c < columns && from + c * each < stop; c++)
          sum[c][phase] += (Math.min(stop, from + (c + 1) * each) - Math.max(start, from + c * each)) / each;
      }
      sum.forEach((shares, c) => stack(pen, left + c * step, step, y, h, shares));
      return;
    }
    for (let i = first; i <= last; i++) {
      for (const [phase, start, stop] of pieces(work, i)) {
        pen.fillStyle = colours[phase];
        pen.fillRect(place(start), y, Math.max(0.5, place(stop) - place(start)), h);
      }
      if (at(work.f, i) >= data.lost) { pen.fillStyle = ink; pen.fillRect(place(work.t[i]) - 1.5, y, 2, h); }
    }
  };
  const share = (lane, bin) => {
    const start = 5 * (lane * bins.count + bin), found = [0, ...bins.bytes.subarray(start, start + 4)].map((byte) => byte / 255);
    found[0] = Math.max(0, 1 - found[1] - found[2] - found[3] - found[4]);
    return found;
  };
  const makeStrip = () => { // thin lanes: a picture with a pixel per lane and bin, made once
    strip = new OffscreenCanvas(bins.count, bins.lanes);
    const pen = strip.getContext("2d"), image = pen.createImageData(bins.count, bins.lanes);
    const rgb = colours.map((colour) => [1, 3, 5].map((i) => parseInt(colour.slice(i, i + 2), 16)));
    for (let cell = 0; cell < bins.count * bins.lanes; cell++) {
      const shares = share(Math.floor(cell / bins.count), cell % bins.count);
      for (let c = 0; c < 3; c++) image.data[4 * cell + c] = shares.reduce((sum, part, phase) => sum + part * rgb[phase][c], 0);
      image.data[4 * cell + 3] = 255;
    }
    pen.putImageData(image, 0, 0);
  };
  const drawBins = (pen) => {
    const each = end / bins.count, first = Math.floor(from / each), last = Math.min(bins.count, Math.ceil(to / each));
    if (pitch < 8) {
      if (!strip) makeStrip();
      pen.imageSmoothingEnabled = false;
      pen.drawImage(strip, first, 0, last - first, bins.lanes, place(first * each), 0, place(last * each) - place(first * each), bins.lanes * pitch);
    } else for (let lane = 0; lane < bins.lanes; lane++) for (let bin = first; bin < last; bin++)
      stack(pen, place(bin * each), place((bin + 1) * each) - place(bin * each), lane * pitch + pitch * 0.15, thick(), share(lane, bin));
  };
  const sized = (canvas, height) => {
    const scale = Math.min(devicePixelRatio || 1, 2), pen = canvas.getContext("2d");
    const w = Math.round(width * scale), h = Math.round(height * scale);
    if (canvas.width !== w || canvas.height !== h) { canvas.width = w; canvas.height = h; canvas.style.height = `${height}px`; }
    pen.setTransform(scale, 0, 0, scale, 0, 0);
    pen.clearRect(0, 0, width, height);
    pen.font = "12px system-ui, sans-serif";
    pen.textBaseline = "middle";
    return pen;
  };
  const inside = (pen, height) => { pen.save(); pen.beginPath(); pen.rect(left, 0, width - left - RIGHT, height); pen.clip(); };
  const diamond = (pen, x, y) => {
    const r = Math.max(2.5, Math.min(5, pitch * 0.3));
    pen.beginPath(); pen.moveTo(x, y - r); pen.lineTo(x + r, y); pen.lineTo(x, y + r); pen.lineTo(x - r, y); pen.closePath();
    pen.fillStyle = ink; pen.fill();
  };
  const drawLanes = () => {
    const height = count * pitch, pen = sized(lanes, height);
    pen.fillStyle = faint;
    pen.textAlign = "right";
    const every = Math.ceil(14 / pitch);
    data.lanes.forEach((name, lane) => { if (lane % every === 0 || (lane === count - 1 && pitch > 8)) pen.fillText(name, left - 9, Math.max(8, (lane + 0.5) * pitch), left - 10); });
    inside(pen, height);
    pen.fillStyle = data.planned;
    if (pitch >= 8) { pen.globalAlpha = 0.2; for (const [lane, start, stop] of data.windows) pen.fillRect(place(start), lane * pitch, place(stop) - place(start), pitch); pen.globalAlpha = 1; }
    if (bins) drawBins(pen);
    for (const [lane, work] of workers) drawWorker(pen, work, lane * pitch + (pitch - thick()) / 2);
    pen.fillStyle = data.busy;
    for (const [lane, busy] of servers) {
      for (let i = after(busy.t, from); i < busy.t.length && (i === 0 || busy.t[i - 1] < to); i++) {
        const start = i ? busy.t[i - 1] : 0, h = busy.b[i] || busy.u[i] ? Math.max(1.2, (thick() * busy.b[i]) / 1000) : 0;
        pen.fillRect(place(start), (lane + 0.5) * pitch + thick() / 2 - h, Math.max(0.5, place(busy.t[i]) - place(start)), h);
      }
    }
    pen.fillStyle = data.planned;
    if (pitch >= 8) for (const [lane, start, stop] of data.windows) pen.fillRect(place(start), lane * pitch, Math.max(1, place(stop) - place(start)), 2.5);
    for (const [t, lane] of data.marks) if (lane >= 0) diamond(pen, place(t), (lane + 0.5) * pitch);
    pen.restore();
    if (chosen >= 0) { pen.strokeStyle = mark; pen.lineWidth = 1.5; pen.strokeRect(left + 0.75, chosen * pitch + 0.75, width - left - RIGHT - 1.5, Math.max(2, pitch - 1.5)); }
  };
  const drawAxis = () => {
    const pen = sized(axis, TOP), tickS = data.tick_s / unitS, rough = ((to - from) * tickS) / Math.max(2, (width - left) / 110), power = 10 ** Math.floor(Math.log10(rough));
    const step = power * steps.find((factor) => factor * power >= rough), places = Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
    pen.fillStyle = faint;
    pen.strokeStyle = faint;
    pen.textAlign = "center";
    for (let k = Math.ceil((from * tickS) / step - 1e-9); k * step <= to * tickS * (1 + 1e-12); k++) {
      const x = place((k * step) / tickS);
      pen.fillRect(x, 18, 1, 5);
      pen.fillText(`${(k * step).toFixed(places)} ${unit}`, Math.min(Math.max(x, left + 14), width - 22), 9);
    }
    pen.textAlign = "right";
    pen.fillText("updates", left - 9, 34, left - 10);
    inside(pen, TOP);
    pen.fillStyle = ink;
    const first = after(updates, from), last = after(updates, to);
    pen.globalAlpha = Math.max(0.25, Math.min(0.8, width / (3 * Math.max(1, last - first))));
    for (let i = first; i < last; i++) pen.fillRect(place(updates[i]), 28, 1, 12);
    pen.globalAlpha = 1;
    for (const [t, lane] of data.marks) if (lane < 0) diamond(pen, place(t), 34);
    pen.restore();
    pen.fillStyle = mark; // the visible part of all
    if (to - from < end) pen.fillRect(left + (from / end) * (width - left - RIGHT), TOP - 3, Math.max(3, ((to - from) / end) * (width - left - RIGHT)), 2.5);
  };
  const draw = () => {
    drawn = 0;
    drawAxis();
    drawLanes();
    if (chosen < 0) said.textContent = `${seconds(from)} to ${seconds(to)}`;
  };
  const redraw = () => { if (!drawn) drawn = requestAnimationFrame(draw); };
  const restyle = () => { // colours and sizes, as they are now
    const style = getComputedStyle(document.documentElement), value = (name) => style.getPropertyValue(name).trim();
    [ink, faint, mark] = ["--ink", "--faint", "--accent"].map(value);
    colours = [value("--line"), ...data.colours.slice(1)];
    box.querySelector(".keys i").style.background = colours[0];
    strip = null;
    width = box.clientWidth;
    left = wide.matches ? 84 : 68;
    pitch = Math.max(2, Math.min(28, Math.floor(620 / count)));
    draw();
  };

  // ---- where one is ----
  const view = (start, length) => {
    length = Math.min(end, Math.max(length, Math.min(end, 200, end / 50)));
    from = Math.min(Math.max(0, start), end - length);
    to = from + length;
    box.dataset.from = from * data.tick_s;
    box.dataset.to = to * data.tick_s;
    redraw();
  };
  const zoom = (factor, t = (from + to) / 2) => view(t - (t - from) * factor, (to - from) * factor);
  const pan = (part) => view(from + part * (to - from), to - from);

  // ---- what is there ----
  const about = (lane, t) => {
    const lines = [], work = workers.get(lane), busy = servers.get(lane), near = 6 * ((to - from) / width);
    for (const [when, where, what] of data.marks) if (where === lane && Math.abs(when - t) < near) lines.push(`${what} (${seconds(when)})`);
    if (work) {
      const i = after(work.t, t), found = i < work.t.length && [...pieces(work, i)].find(([, start, stop]) => start <= t && t < stop);
      if (found) lines.push(`${data.phases[found[0]]}: ${seconds(found[2] - found[1], digits() + 1)}`, `iteration ${work.n[i]}: ${at(work.s, i)} samples, on version ${work.v[i]}, ${data.fates[at(work.f, i)]}`);
    } else if (bins && lane < bins.lanes) {
      const bin = Math.min(bins.count - 1, Math.floor((t / end) * bins.count));
      lines.push(share(lane, bin).map((part, phase) => [part, phase]).filter(([part]) => part >= 0.01).map(([part, phase]) => `${data.phases[phase]} ${Math.round(100 * part)} %`).join(", "));
      lines.push(`${bins.bytes[5 * (lane * bins.count + bin) + 4]} iterations end in these ${seconds(end / bins.count)}`);
    }
    if (busy) { const i = after(busy.t, t); if (i < busy.t.length) lines.push(`${(busy.b[i] / 10).toFixed(0)} % busy, ${busy.u[i]} updates until ${seconds(busy.t[i])}`); }
    for (const [where, start, stop, what] of data.windows) if (where === lane && start <= t && t <= stop) lines.push(`planned: ${what}, ${seconds(start)} to ${seconds(stop)}`);
    return [`${data.lanes[lane]}, ${seconds(t)}`, ...lines];
  };
  const aboutJob = (t) => {
    const near = 5 * ((to - from) / width), lines = data.marks.filter(([when, lane]) => lane < 0 && Math.abs(when - t) < near).map(([when, , what]) => `${what} (${seconds(when)})`);
    const number = after(updates, t + near) - after(updates, t - near);
    return [`the job, ${seconds(t)}`, ...lines, ...(number ? [`${number} update${number > 1 ? "s" : ""}`] : [])];
  };
  const show = (lines, x, y) => {
    tip.textContent = lines.slice(0, 8).join("\n");
    tip.hidden = false;
    tip.style.left = `${Math.max(0, Math.min(x + 14, width - tip.offsetWidth - 2))}px`;
    tip.style.top = `${y + 18}px`;
  };
  const hover = (event) => {
    const area = event.currentTarget.getBoundingClientRect(), whole = box.getBoundingClientRect(), x = event.clientX - area.left, y = event.clientY - area.top;
    if (x < left || x > width - RIGHT) { tip.hidden = true; return; }
    const lane = Math.floor(y / pitch), lines = event.currentTarget === axis ? aboutJob(timeAt(x)) : lane < count ? about(lane, timeAt(x)) : [];
    if (lines.length) show(lines, x, event.clientY - whole.top);
  };

  // ---- mouse, touch, keyboard ----
  const fingers = new Map();
  for (const canvas of [axis, lanes]) {
    canvas.addEventListener("pointerdown", (event) => { fingers.set(event.pointerId, event.clientX); canvas.setPointerCapture(event.pointerId); });
    canvas.addEventListener("pointermove", (event) => {
      if (!fingers.has(event.pointerId)) { hover(event); return; }
      const before = [...fingers.values()], whole = canvas.getBoundingClientRect().left;
      fingers.set(event.pointerId, event.clientX);
      const now = [...fingers.values()];
      tip.hidden = true;
      if (now.length === 2) {
        const gap = Math.max(8, Math.abs(now[0] - now[1])), was = Math.max(8, Math.abs(before[0] - before[1])), middle = (before[0] + before[1]) / 2 - whole;
        zoom(was / gap, timeAt(middle));
      }
      view(from - ((now.reduce((a, b) => a + b) - before.reduce((a, b) => a + b)) / now.length) * ((to - from) / (width - left - RIGHT)), to - from);
    });
    canvas.addEventListener("pointerup", (event) => { fingers.delete(event.pointerId); hover(event); });
    canvas.addEventListener("pointercancel", (event) => fingers.delete(event.pointerId));
    canvas.addEventListener("pointerleave", () => { tip.hidden = true; });
    canvas.addEventListener("dblclick", (event) => zoom(0.4, timeAt(event.clientX - canvas.getBoundingClientRect().left)));
    canvas.addEventListener("wheel", (event) => { // alone it scrolls the page, as everywhere
      const sideways = Math.abs(event.deltaX) > Math.abs(event.deltaY);
      if (!event.ctrlKey && !event.metaKey && !sideways) return;
      event.preventDefault();
      if (sideways) pan(event.deltaX / width);
      else zoom(Math.exp(Math.max(-60, Math.min(60, event.deltaY)) * 0.008), timeAt(event.clientX - canvas.getBoundingClientRect().left));
    }, { passive: false });
  }
  const choose = (lane, t) => {
    chosen = Math.min(count - 1, Math.max(0, lane));
    if (t < from || t > to) view(t - (to - from) / 2, to - from);
    said.textContent = about(chosen, t).join("; ");
    box.dataset.at = t * data.tick_s;
    const y = chosen * pitch, scroll = lanes.parentElement;
    if (y < scroll.scrollTop || y > scroll.scrollTop + scroll.clientHeight - pitch) scroll.scrollTop = y - scroll.clientHeight / 2;
    show(about(chosen, t), place(t), TOP + lanes.offsetTop + y - scroll.scrollTop);
    redraw();
  };
  const step = (sign) => { // to the middle of the next piece of the chosen lane
    const lane = Math.max(0, chosen), now = Number(box.dataset.at ?? box.dataset.from) / data.tick_s, work = workers.get(lane) || servers.get(lane);
    const times = work ? work.t : Float64Array.from({ length: 101 }, (_, i) => (i * end) / 100), i = Math.max(0, Math.min(times.length - 1, after(times, now) + sign));
    choose(lane, ((i ? times[i - 1] : 0) + times[i]) / 2);
  };
  const middle = () => Math.min(to, Math.max(from, Number(box.dataset.at ?? NaN) / data.tick_s || (from + to) / 2));
  const keys = {
    ArrowLeft: () => pan(-0.15), ArrowRight: () => pan(0.15), "+": () => zoom(0.6), "=": () => zoom(0.6), "-": () => zoom(1 / 0.6), 0: () => view(0, end), Home: () => view(0, end),
    ArrowUp: () => choose(chosen - 1, middle()), ArrowDown: () => choose(chosen + 1, middle()), ",": () => step(-1), ".": () => step(1),
    Escape: () => { chosen = -1; tip.hidden = true; redraw(); },
  };
  lanes.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || !(event.key in keys)) return;
    event.preventDefault();
    keys[event.key]();
  });
  for (const button of box.querySelectorAll("[data-key]")) button.addEventListener("click", () => keys[button.dataset.key]());
  box.hidden = false;
  view(0, end);
  restyle();
  new ResizeObserver(() => { if (box.clientWidth !== width) restyle(); }).observe(box);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", restyle);
})();
