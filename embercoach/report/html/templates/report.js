"use strict";
(() => {
  const ROWS = 100; // findings in the page at once
  const LINES = 1000; // lines of source at once
  const MARKED = 4; // lines of a finding in its excerpt at most
  const PRINTED = 1000; // findings on paper at most
  const data = JSON.parse(document.getElementById("data").textContent);
  const $ = (id) => document.getElementById(id);
  const number = (value) => value.toLocaleString("en");

  const findings = data.findings.map((row, index) => {
    const [file, line, column, endLine, endColumn, rule, severity, message, help, context, fix, safe, cell, flow, related, fingerprint] = row;
    const text = (id) => data.texts[id];
    // Its place in the source that is shown: a notebook's cells one below the other.
    const start = (cell) => data.files[file].source?.cells.find(([number]) => number === cell)?.[1] ?? 1;
    const step = ([line, column, cell, message]) => ({ line, column, cell, at: start(cell) + line - 1, message: text(message) });
    return {
      index, file, line, column, endLine, endColumn, rule, severity, safe, cell, at: start(cell) + line - 1,
      flow: flow.map(step), related: related.map(step),
      message: text(message), help: text(help), context: text(context),
      fix: fix === null ? null : text(fix), fingerprint,
    };
  });
  // Half a million columns of tokens: read when their line is shown.
  const colored = (encoded) => {
    let at = 0;
    return encoded.split(",").filter(Boolean).map((one) => {
      const [, gap, kind, length] = /^(\d+)([a-z])(\d+)$/.exec(one);
      const start = at + Number(gap);
      at = start + Number(length);
      return { start, end: at, kind };
    });
  };
  function sourceLine(file, at) {
    const { source } = data.files[file];
    const part = source?.parts.findIndex(([first, lines]) => first <= at && at < first + lines.length) ?? -1;
    if (part < 0) return null;
    const index = at - source.parts[part][0];
    return { text: source.parts[part][1][index], tokens: source.tokens[part][index] };
  }
  const byFile = data.files.map(() => []);
  for (const finding of findings) byFile[finding.file].push(finding);

  // Findings of one cause: a row says the same of all, and their lines are equal.
  for (const found of byFile) {
    const firsts = new Map();
    for (const finding of found) {
      const { rule, severity, message, help, context, fix, safe, file, at, index } = finding;
      const line = sourceLine(file, at)?.text.trim() ?? index;
      finding.cause = JSON.stringify([rule, severity, message, help, context, fix, safe, line]);
      finding.like = firsts.get(finding.cause) ?? null; // the first one in this file
      if (!finding.like) firsts.set(finding.cause, finding);
    }
  }

  // Text gets into the page by textContent alone: nothing in it can be markup.
  function element(tag, { text, className, ...properties } = {}, ...children) {
    const made = document.createElement(tag);
    if (className) made.className = className;
    if (text !== undefined) made.textContent = text;
    Object.assign(made, properties);
    made.append(...children);
    return made;
  }

  function prose(tag, className, text) {
    const made = element(tag, { className });
    text.split("`").forEach((part, index, all) => {
      const code = index % 2 === 1 && index < all.length - 1;
      if (part) made.append(code ? element("code", { text: part }) : part);
    });
    return made;
  }

  const hashOf = (values) => `#${new URLSearchParams(values)}`;
  // Fingerprints stay the same in later reports, numbers don't.
  const linkTo = (finding, more = {}) => hashOf({ view: "file", ...(finding.fingerprint === null ?
    { file: finding.file, finding: finding.index } :
    { rule: data.rules[finding.rule].code, fingerprint: finding.fingerprint }), ...more });
  const linked = (values) => findings.find((finding) => finding.fingerprint === values.get("fingerprint") &&
    data.rules[finding.rule].code === values.get("rule"));
  const severityOf = (finding) => data.severities[finding.severity];

  const place = (finding) => `${finding.cell === null ? "" : `cell ${finding.cell}:`}${finding.line}:${finding.column}`;
  const plural = (count, name) => `${number(count)} ${name}${count === 1 ? "" : "s"}`;

  function described(finding, placed) {
    const rule = data.rules[finding.rule];
    const severity = severityOf(finding);
    const button = element("button", { type: "button", className: "rule", text: rule.code });
    button.setAttribute("aria-haspopup", "dialog");
    button.addEventListener("click", () => openRule(rule.code));
    const meta = element("div", { className: "meta" },
      element("span", { className: `badge ${severity}`, text: severity }),
      button, element("span", { className: "name", text: rule.name }));
    if (finding.context && finding.context !== "default") {
      meta.append(element("span", { className: "name", text: `in: ${finding.context}` }));
    }
    if (placed) {
      const text = `${data.files[finding.file].path}:${place(finding)}`;
      meta.append(element("a", { className: "path", href: linkTo(finding), text }));
    }
    const parts = [meta, prose("p", "message", finding.message)];
    if (placed) parts.push(...excerpt(finding));
    if (finding.help) parts.push(prose("p", "help", finding.help));
    if (finding.fix !== null) {
      const kind = finding.safe ? "Safe fix" : "Unsafe fix";
      parts.push(prose("p", "help", `${kind}: ${finding.fix}`));
    }
    for (const [title, steps, kind] of [["Where it came from", finding.flow, "ol"], ["See also", finding.related, "ul"]]) {
      if (steps.length) parts.push(places(finding, title, steps, kind, !placed && severity !== "note"));
    }
    return parts;
  }

  const cellAt = ({ source }, at) => source.cells.findLast(([, line]) => line <= at) ?? [null, 1];

  // The lines of a finding and one around them in its cell; of a long one the first ones.
  function excerpt(finding) {
    const last = finding.at + Math.min(finding.endLine - finding.line, MARKED - 1);
    const rows = [];
    for (let at = finding.at - 1; at <= last + 1; at += 1) {
      const line = sourceLine(finding.file, at);
      if (line === null || cellAt(data.files[finding.file], at)[0] !== finding.cell) continue;
      const found = at === finding.at ? [finding] : [];
      const inside = finding.at <= at && at <= last ? severityOf(finding) : "";
      rows.push(element("div", { className: `row ${inside}` },
        element("span", { className: "no", text: String(finding.line + at - finding.at) }), marked({ ...line, found })));
    }
    return rows.length ? [element("div", { className: "excerpt" }, ...rows)] : [];
  }

  function places(finding, title, steps, kind, open) {
    const items = steps.map((step) => {
      const href = linkTo(finding, { at: step.at });
      const cell = step.cell === null ? "" : `cell ${step.cell}, `;
      const item = prose("li", "", step.message);
      item.prepend(element("a", { href, text: `${cell}line ${step.line}` }), " ");
      return item;
    });
    const count = element("span", { className: "count", text: String(steps.length) });
    return element("details", { className: "places", open },
      element("summary", { text: `${title} ` }, count), element(kind, {}, ...items));
  }

  // A row of the list: what holds for all findings of a cause, the first one, and their places.
  function row(group) {
    const item = element("li", {}, ...described(group[0], true));
    if (group.length === 1) return item;
    item.querySelector(".meta .path").before(element("strong", { className: "times", text: `${number(group.length)} times` }));
    const all = element("details", { className: "places" },
      element("summary", { text: "All places " }, element("span", { className: "count", text: number(group.length) })));
    // Thousands of links: drawn when they are asked for.
    all.addEventListener("toggle", () => all.append(...placesByFile(group)), { once: true });
    item.append(all);
    return item;
  }

  function placesByFile(group) {
    const files = new Map();
    for (const finding of group) files.set(finding.file, [...files.get(finding.file) ?? [], finding]);
    return [...files].map(([file, found]) => element("div", {},
      element("h2", { className: "path", text: `${data.files[file].path} ` }, element("span", { className: "count", text: number(found.length) })),
      element("ul", { className: "lines" }, ...found.map((finding) => element("li", {}, element("a", { href: linkTo(finding), text: place(finding) }))))));
  }

  // The list
  const form = $("filters");
  const boxes = [...form.querySelectorAll("[name=severity]")];
  const fields = ["search", "checkout", "family", "rule", "sort"].map($).filter(Boolean);
  const isLoud = (finding) => severityOf(finding) !== "note";
  let shown = []; // lists of findings, one for each cause
  let folded = 0; // notes that only their severity excludes
  let explicit = false; // severities that the reader has chosen
  let page = 0;

  function haystack(finding) {
    const { code, name } = data.rules[finding.rule];
    const words = [code, name, finding.message, finding.help, finding.fix ?? "", data.files[finding.file].path];
    return finding.haystack ??= words.join("\n").toLowerCase();
  }

  const harm = (finding) => data.contexts.indexOf(finding.context);
  const orders = {
    path: ([a], [b]) => a.index - b.index,
    severity: ([a, ...as], [b, ...bs]) => a.severity - b.severity || bs.length - as.length || harm(a) - harm(b) || a.index - b.index,
    rule: ([a], [b]) => a.rule - b.rule || a.severity - b.severity || a.index - b.index,
  };

  // Each filter, and the findings that it lets through.
  function filters() {
    const [checkout, family, code] = ["checkout", "family", "rule"].map((id) => $(id)?.value);
    const words = $("search").value.toLowerCase().split(/\s+/).filter(Boolean);
    const wanted = checked();
    return {
      search: (finding) => words.every((word) => haystack(finding).includes(word)),
      checkout: (finding) => !checkout || data.checkouts[data.inside[finding.file]] === checkout,
      family: (finding) => !family || data.rules[finding.rule].family === family,
      rule: (finding) => !code || data.rules[finding.rule].code === code,
      severity: (finding) => wanted.includes(severityOf(finding)),
    };
  }

  function matching(...without) {
    const tests = Object.entries(filters()).filter(([name]) => !without.includes(name));
    return findings.filter((finding) => tests.every(([, test]) => test(finding)));
  }

  // Notes are folded, unless all that is chosen are notes.
  function usual() {
    const loud = matching("search", "severity").some(isLoud);
    return data.severities.filter((name) => !loud || name !== "note");
  }

  const checked = () => boxes.filter((box) => box.checked).map((box) => box.value);

  function check(names) {
    for (const box of boxes) box.checked = names.includes(box.value);
  }

  function filter() {
    const groups = new Map();
    for (const finding of matching()) {
      const group = groups.get(finding.cause);
      if (group) group.push(finding);
      else groups.set(finding.cause, [finding]);
    }
    folded = checked().includes("note") ? 0 : matching("severity").filter((finding) => !isLoud(finding)).length;
    shown = [...groups.values()].sort(orders[$("sort").value] ?? orders.path);
  }

  function showList(first, count) {
    const rows = shown.slice(first, first + count);
    $("list").replaceChildren(...rows.map(row));
    const total = shown.reduce((sum, group) => sum + group.length, 0);
    const isGrouped = total > shown.length;
    const range = rows.length === shown.length ? "" : `Showing ${isGrouped ? "groups " : ""}${number(first + 1)} to ${number(first + rows.length)} of `;
    const all = plural(total, "finding") + (isGrouped ? ` in ${plural(shown.length, "group")}` : "");
    const rest = findings.length - total;
    $("notes").hidden = !folded || !total;
    $("notes").textContent = `Show ${plural(folded, "note")}`;
    $("status").textContent = range + all + (rest ? `; ${number(rest)} filtered out` : "") + ".";
    $("empty").hidden = total > 0;
    if (!total) $("empty").replaceChildren(...remedies());
  }

  // What to do about an empty list: the filters that alone hide something, or else all of them.
  function remedies() {
    if (!findings.length) return [element("p", { text: "Nothing found." })];
    const button = (text, count, clear) => {
      const made = element("button", { type: "button", text: `${text}: ${plural(count, "finding")}` });
      made.addEventListener("click", () => {
        clear();
        refilter();
        $("findings-title").focus({ preventScroll: true });
      });
      return made;
    };
    const single = Object.keys(filters()).map((name) => [name, matching(name).length]).filter(([, count]) => count);
    const buttons = single.map(([name, count]) => (name === "severity" ?
      button("Show all severities", count, () => { explicit = true; check(data.severities); }) :
      button(`Clear ${name} “${$(name).value}”`, count, () => { $(name).value = ""; if (!explicit) check(usual()); })));
    if (!buttons.length) buttons.push(button("Clear all filters", findings.length, () => choose(new URLSearchParams("severity=error,warning,note"))));
    return [element("p", { text: "No finding passes these filters." }), ...buttons];
  }

  function showPage() {
    const pages = Math.max(Math.ceil(shown.length / ROWS), 1);
    page = Math.min(Math.max(page, 0), pages - 1);
    showList(page * ROWS, ROWS);
    $("pager").hidden = pages === 1;
    $("page").textContent = `Page ${page + 1} of ${pages}`;
    turnable($("pager"), page, pages);
  }

  function turnable(pager, at, pages) {
    for (const button of pager.querySelectorAll("[data-step]")) {
      const to = at + Number(button.dataset.step);
      button.disabled = to < 0 || to >= pages;
    }
  }

  function chosen() {
    const values = { view: "findings" };
    for (const field of fields) if (field.value && field.value !== field.dataset.usual) values[field.id] = field.value;
    if (checked().join() !== usual().join()) values.severity = checked().join();
    return values;
  }

  function choose(values) {
    for (const field of fields) {
      const value = values.get(field.id) ?? field.dataset.usual;
      if (field.value !== value) field.value = value;
      if (field.selectedIndex === -1) field.value = field.dataset.usual;
    }
    explicit = values.has("severity");
    check(values.get("severity")?.split(",") ?? usual());
  }

  // The file
  const view = { file: -1, page: -1, rows: [], last: -1 };

  function rowsOf(file) {
    const rows = [];
    const { source } = data.files[file];
    const marks = new Map();
    for (const finding of byFile[file]) {
      if (!marks.has(finding.at)) marks.set(finding.at, []);
      marks.get(finding.at).push(finding);
    }
    let next = 1;
    for (const [part, [first, lines]] of source.parts.entries()) {
      if (first > next) rows.push({ gap: first - next });
      lines.forEach((text, index) => {
        const [cell, start] = cellAt(data.files[file], first + index);
        if (cell !== null && (index === 0 || start === first + index)) rows.push({ cell });
        rows.push({ line: first + index - start + 1, at: first + index, text, tokens: source.tokens[part][index], found: marks.get(first + index) ?? [] });
      });
      next = first + lines.length;
    }
    if (next <= source.count) rows.push({ gap: source.count - next + 1 });
    // A finding after the last line end comes after all lines.
    const late = byFile[file].filter((finding) => finding.at > source.count);
    if (late.length) rows.push({ line: late[0].line, text: "", tokens: "", found: late });
    return rows;
  }

  function marked(row) {
    const text = element("span", { className: "text" });
    const characters = Array.from(row.text);
    const cuts = new Set([0, characters.length]);
    const spans = row.found.map((finding) => {
      const start = Math.min(finding.column - 1, characters.length);
      const end = finding.endLine > finding.line ? characters.length : Math.min(finding.endColumn - 1, characters.length);
      cuts.add(start).add(Math.max(start, end));
      return { start, end, severity: finding.severity };
    });
    const tokens = colored(row.tokens).filter(({ start }) => start < characters.length);
    for (const { start, end } of tokens) cuts.add(start).add(Math.min(end, characters.length));
    const sorted = [...cuts].sort((a, b) => a - b);
    for (let index = 0, token = 0; index + 1 < sorted.length; index += 1) {
      const [start, end] = [sorted[index], sorted[index + 1]];
      while (token < tokens.length && tokens[token].end <= start) token += 1;
      const kind = tokens[token]?.start <= start ? `token-${tokens[token].kind}` : "";
      const part = characters.slice(start, end).join("");
      const inside = spans.filter((span) => span.start <= start && end <= span.end);
      const worst = Math.min(...inside.map((span) => span.severity));
      if (inside.length) text.append(element("mark", { className: `${data.severities[worst]} ${kind}`, text: part }));
      else text.append(kind ? element("span", { className: kind, text: part }) : part);
    }
    return text;
  }

  function drawn(row) {
    if (row.gap) return [element("div", { className: "gap", text: `${plural(row.gap, "line")} not in this report` })];
    if (row.cell) return [element("div", { className: "gap", text: `Cell ${row.cell}` })];
    const worst = row.found.length ? data.severities[Math.min(...row.found.map((finding) => finding.severity))] : "";
    const line = element("div", { className: `row ${worst}`, id: `line-${row.at}`, tabIndex: -1 },
      element("span", { className: "no", text: String(row.line) }), marked(row));
    return [line, ...row.found.map(note)];
  }

  function note(finding) {
    const box = element("div", { className: `here ${severityOf(finding)}`, id: `finding-${finding.index}`, tabIndex: -1 });
    box.setAttribute("role", "note");
    const line = finding.cell === null ? "Line" : `Cell ${finding.cell}, line`;
    box.setAttribute("aria-label", `${line} ${finding.line}, column ${finding.column}`);
    const parts = described(finding, false);
    if (isLoud(finding) && !finding.like) {
      box.append(...parts);
      return box;
    }
    const [meta, message, ...rest] = parts;
    const [badge, rule, ...names] = meta.children;
    const like = finding.like ? ` as in line ${finding.like.line}` : "";
    const label = element("summary", {}, badge, " ", element("span", { text: data.rules[finding.rule].code + like }));
    meta.replaceChildren(rule, ...names);
    box.append(element("details", { className: "folded" }, label, meta, message, ...rest));
    return box;
  }

  function showFile(file, wanted, line) {
    if (view.file !== file) {
      const { path, source } = data.files[file];
      Object.assign(view, { file, page: -1, last: -1, rows: source ? rowsOf(file) : byFile[file].map((finding) => ({ finding })) });
      $("file-title").textContent = path;
      const notice = !source ? "The source is not shown: the file is missing, unreadable, outside the project, or not the one that was checked." :
        source.changed ? "This file was changed after the findings were saved: lines may have moved." : "";
      $("file-notice").textContent = notice;
      $("file-notice").hidden = !notice;
    }
    const at = wanted === null ? 0 : view.rows.findIndex((row) => (row.found ?? [row.finding ?? null]).some((finding) => finding?.index === wanted));
    const placed = line === null ? -1 : view.rows.findIndex((row) => row.at === line);
    showLines(Math.max(Math.floor((placed < 0 ? at : placed) / LINES), 0));
    jumpTo(wanted);
    if (placed >= 0) reach($(`line-${line}`));
  }

  function showLines(wanted) {
    const pages = Math.max(Math.ceil(view.rows.length / LINES), 1);
    const to = Math.min(wanted, pages - 1);
    $("file-pager").hidden = pages === 1;
    $("file-page").textContent = `Part ${to + 1} of ${pages}`;
    turnable($("file-pager"), to, pages);
    if (view.page === to) return;
    view.page = to;
    const rows = view.rows.slice(to * LINES, (to + 1) * LINES);
    $("source").replaceChildren(...rows.flatMap((row) => (row.finding ? [note(row.finding)] : drawn(row))));
  }

  function jumpTo(wanted) {
    const found = byFile[view.file];
    view.last = wanted === null ? -1 : found.findIndex((finding) => finding.index === wanted);
    $("file-status").textContent = view.last < 0 ? plural(found.length, "finding") : `Finding ${number(view.last + 1)} of ${number(found.length)}`;
    turnable($("jumps"), view.last, found.length);
    const box = wanted === null ? null : $(`finding-${wanted}`);
    box?.querySelector(".folded")?.setAttribute("open", "");
    if (box) reach(box);
    else $("file-title").focus();
  }

  function reach(box) {
    box.scrollIntoView({ block: "center", inline: "nearest" });
    box.focus({ preventScroll: true });
  }

  // The rule's page
  function openRule(code) {
    const { content, dataset } = $(`rule-${code}`);
    openDrawer(dataset.title, dataset.summary, content);
  }

  function openDrawer(title, summary, body) {
    $("drawer-title").textContent = title;
    $("drawer-summary").replaceChildren(...prose("p", "", summary).childNodes);
    $("drawer-body").replaceChildren(...body.cloneNode(true).childNodes);
    $("drawer").showModal();
    $("drawer").scrollTop = 0;
  }

  // Where the reader is
  let back = "#view=findings";
  let hotSpotsDrawn = false;

  function route() {
    if (location.hash === "#main") return;
    const values = new URLSearchParams(location.hash.slice(1));
    const finding = values.has("fingerprint") ? linked(values) : findings[values.get("finding") ?? -1];
    const file = finding?.file ?? (values.has("fingerprint") ? NaN : Number(values.get("file") ?? NaN));
    const lost = values.has("fingerprint") && !finding;
    const known = { findings: true, hotspots: true, file: Number.isInteger(file) && file in data.files };
    const first = !location.hash && findings.some(isLoud) ? "findings" : "overview";
    const name = lost ? "findings" : known[values.get("view")] ? values.get("view") : first;
    for (const id of ["overview", "findings", "hotspots", "file"]) $(id).hidden = id !== name;
    for (const link of document.querySelectorAll("[data-view]")) {
      if (link.dataset.view === name) link.setAttribute("aria-current", "page");
      else link.removeAttribute("aria-current");
    }
    if ($("drawer").open) $("drawer").close();
    if (name === "findings") {
      back = location.hash || "#view=findings";
      choose(values);
      filter();
      page = Number(values.get("page") ?? 1) - 1 || 0;
      showPage();
      if (lost) $("status").prepend("The linked finding is not in this report. ");
    }
    if (name === "hotspots" && !hotSpotsDrawn) {
      hotSpotsDrawn = true;
      hotSpots(data, { element, number, linkTo, findings });
    }
    $("back").href = back;
    if (name === "file") showFile(file, finding?.index ?? null, values.has("at") ? Number(values.get("at")) : null);
    else window.scrollTo(0, 0);
  }

  let waiting = 0;
  function refilter() {
    clearTimeout(waiting);
    waiting = setTimeout(() => {
      filter();
      page = 0;
      showPage();
      back = hashOf(chosen());
      history.replaceState(null, "", back);
    }, 120);
  }

  $("sort").dataset.usual = "severity";
  for (const field of fields) field.dataset.usual ??= "";
  form.addEventListener("input", (event) => {
    if (event.target.name === "severity") explicit = true;
    else if (event.target.tagName === "SELECT" && !explicit) check(usual());
    refilter();
  });
  $("notes").addEventListener("click", () => {
    explicit = true;
    check([...checked(), "note"]);
    refilter();
    $("findings-title").focus({ preventScroll: true });
  });
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("reset", (event) => {
    event.preventDefault();
    choose(new URLSearchParams());
    refilter();
  });
  $("pager").addEventListener("click", (event) => {
    const step = Number(event.target.dataset.step ?? 0);
    if (!step) return;
    page += step;
    showPage();
    back = hashOf({ ...chosen(), page: page + 1 });
    history.replaceState(null, "", back);
    $("findings-title").focus({ preventScroll: true });
    window.scrollTo(0, 0);
  });
  $("file-pager").addEventListener("click", (event) => {
    const step = Number(event.target.dataset.step ?? 0);
    if (step) showLines(view.page + step);
  });
  $("jumps").addEventListener("click", (event) => {
    const step = Number(event.target.dataset.step ?? 0);
    if (!step) return;
    history.replaceState(null, "", linkTo(byFile[view.file][view.last + step]));
    route();
  });
  $("drawer-close").addEventListener("click", () => $("drawer").close());
  $("drawer").addEventListener("click", (event) => {
    if (event.target === $("drawer")) $("drawer").close();
  });
  window.addEventListener("hashchange", route);

  // Keys
  function search() {
    if ($("findings").hidden) {
      history.pushState(null, "", back);
      route();
    }
    $("search").focus();
  }

  function step(by) {
    if (!$("file").hidden) document.querySelector(`#jumps [data-step="${by}"]`).click();
    if ($("findings").hidden) return;
    const links = [...document.querySelectorAll("#list .meta a.path")];
    const at = links.findIndex((link) => link.closest("li").contains(document.activeElement));
    links[at < 0 ? 0 : at + by]?.focus();
  }

  const openKeys = () => openDrawer("Keys", "", $("keys-help"));
  const keys = { "/": search, "?": openKeys, j: () => step(1), k: () => step(-1) };
  window.addEventListener("keydown", (event) => {
    const typing = event.target.closest?.("input, select") || $("drawer").open;
    if (typing || event.ctrlKey || event.metaKey || event.altKey || !Object.hasOwn(keys, event.key)) return;
    event.preventDefault();
    keys[event.key]();
  });
  $("keys").addEventListener("click", openKeys);
  window.addEventListener("beforeprint", () => {
    if ($("findings").hidden) return;
    showList(0, PRINTED);
  });
  window.addEventListener("afterprint", () => {
    if (!$("findings").hidden) showPage();
  });
  route();
})();
