// The page of package dashboard: snapshots come by server-sent events, and are drawn as text and paths, never as markup.
'use strict';

const $ = (id) => document.getElementById(id);
const SVG = 'http://www.w3.org/2000/svg';

// make builds an element; what is given as a child that is no node becomes text.
function make(tag, props = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (value === undefined || value === null || value === false) continue;
    if (name === 'class') node.className = value;
    else if (name.startsWith('on')) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? '' : value);
  }
  node.append(...children.filter((c) => c !== null && c !== undefined && c !== ''));
  return node;
}

function shape(tag, attributes) {
  const node = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  return node;
}

// say writes a text where it is another, so that what has not changed is left alone.
function say(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

function mark(node, name, value) {
  if (node.getAttribute(name) !== value) node.setAttribute(name, value);
}

// ---- numbers

const round = (n, digits) => n.toFixed(digits);

function count(n) {
  if (n < 1e4) return String(Math.round(n));
  if (n < 1e6) return round(n / 1e3, n < 1e5 ? 1 : 0) + 'k';
  return round(n / 1e6, n < 1e8 ? 1 : 0) + 'M';
}

const rate = (n) => (n > 0 && n < 9.95 ? round(n, 1) : count(n));

function lasting(s) {
  if (s <= 0) return '0 s';
  if (s < 1) return Math.ceil(s * 1000) + ' ms';
  if (s < 10) return round(s, 1) + ' s';
  if (s < 100) return Math.round(s) + ' s';
  const units = [[86400, 'd'], [3600, 'h'], [60, 'min'], [1, 's']];
  const at = units.findIndex(([length]) => s >= length);
  const [length, name] = units[at];
  const [next, nextName] = units[at + 1] || [0, ''];
  const rest = next ? Math.floor((s % length) / next) : 0;
  return Math.floor(s / length) + ' ' + name + (rest ? ' ' + rest + ' ' + nextName : '');
}

const milli = (n) => (n >= 100 ? Math.round(n) : round(n, n >= 10 ? 1 : 2)) + ' ms';

// Times are UTC, as in what the server says of its state and in its log, wherever who looks is.
const date = (ms) => new Date(ms).toISOString().slice(0, 19).replace('T', ' ') + ' UTC';
const clock = (s) => date(s * 1000).slice(11);

// ---- what is known

const ALLOWED = 0, DENIED = 1, DEGRADED = 2, FAILED = 3, SHADOWED = 4, KINDS = 5;
let span = 300;
let now = 0; // the second that has begun, by the clock of who counts
let facts = { limits: [], writes: false, overrides: false };
let lanes = new Map(); // id -> counts of each kind, by second % span
let trips = [[], []];
let latest = null; // tick

function laneOf(id) {
  let lane = lanes.get(id);
  if (!lane) {
    lane = Array.from({ length: KINDS }, () => new Float64Array(span));
    lanes.set(id, lane);
  }
  return lane;
}

// advance makes room for the seconds up to another, of which nothing is known yet.
function advance(to) {
  const begin = to - now > span ? to - span + 1 : now + 1;
  for (let s = begin; s <= to; s++) {
    for (const lane of lanes.values()) for (const counts of lane) counts[s % span] = 0;
    trips[0][s % span] = trips[1][s % span] = 0;
  }
  now = Math.max(now, to);
}

// enter takes in the counts of some seconds.
function enter(from, until, counted, tripped) {
  const first = Math.max(from, now - span + 1);
  for (const lane of lanes.values()) for (const counts of lane) for (let s = first; s < until; s++) counts[s % span] = 0;
  for (const [id, columns] of Object.entries(counted)) {
    const lane = laneOf(id);
    columns.forEach((column, kind) => {
      if (column && kind < KINDS) for (let s = first; s < until; s++) lane[kind][s % span] = column[s - from] || 0;
    });
  }
  tripped.forEach((column, i) => { for (let s = first; s < until; s++) trips[i][s % span] = (column && column[s - from]) || 0; });
}

const nothing = new Float64Array(0);
const series = (id, kind) => (lanes.has(id) ? lanes.get(id)[kind] : nothing);
const value = (counts, s) => counts[s % span] || 0;

function sum(counts, seconds) {
  let total = 0;
  for (let s = now - seconds + 1; s <= now; s++) total += value(counts, s);
  return total;
}

// perSecond is the mean of the last ten seconds that are over.
function perSecond(counts) {
  let total = 0;
  for (let s = now - 10; s < now; s++) total += value(counts, s);
  return total / 10;
}

// plus adds up lanes.
function plus(ids, kind) {
  const total = new Float64Array(span);
  for (const id of ids) { const counts = series(id, kind); for (let i = 0; i < counts.length; i++) total[i] += counts[i]; }
  return total;
}

const methods = () => [...new Set(facts.limits.map((l) => l.method))];

// ---- pictures

// bins are the means of a few seconds each, the oldest first, in steps that do not move with time.
function bins(counts, step) {
  const out = [];
  const end = Math.floor(now / step) * step + step;
  for (let s = end - span; s < end; s += step) {
    let total = 0;
    for (let i = s; i < s + step; i++) if (i > now - span && i <= now) total += value(counts, i);
    out.push(total / step);
  }
  return out;
}

// stairs is the outline of values, as points.
function stairs(values, height) {
  let d = '';
  values.forEach((v, i) => { const y = round(height(v), 2); d += (i ? 'V' + y + 'H' : 'M0 ' + y + 'H') + (i + 1); });
  return d;
}

const filled = (outline, width, below) => outline + 'V' + below + 'H0Z';

function largest(...all) {
  let most = 0;
  for (const values of all) for (const v of values) most = Math.max(most, v);
  return most;
}

// nice is the number at the top of a scale.
function nice(n) {
  if (n <= 1) return 1;
  const unit = 10 ** Math.floor(Math.log10(n));
  return [1, 2, 3, 5, 10].map((k) => k * unit).find((top) => top >= n);
}

// Picture draws calls: those that were allowed, on top of them those that were denied, and a line for those without the store.
class Picture {
  constructor(step, grid) {
    this.step = step;
    this.width = span / step;
    this.svg = shape('svg', { viewBox: `0 0 ${this.width} 100`, preserveAspectRatio: 'none', role: 'img' });
    if (grid) for (const y of [25, 50, 75]) this.svg.append(shape('path', { class: 'grid', d: `M0 ${y}H${this.width}` }));
    this.paths = {};
    for (const name of ['area-denied', 'area-allowed', 'line-denied', 'line-allowed', 'line-degraded']) {
      this.paths[name] = this.svg.appendChild(shape('path', { class: name }));
    }
  }

  draw(allowed, denied, degraded) {
    const [a, d, g] = [allowed, denied, degraded].map((counts) => bins(counts, this.step));
    const all = a.map((n, i) => n + d[i]);
    const top = nice(largest(all, g));
    const height = (n) => 100 - (n / top) * 96;
    const [upper, lower] = [stairs(all, height), stairs(a, height)];
    const put = (name, d) => mark(this.paths[name], 'd', d);
    put('area-denied', largest(d) ? filled(upper, this.width, 100) : '');
    put('line-denied', largest(d) ? upper : '');
    put('area-allowed', filled(lower, this.width, 100));
    put('line-allowed', largest(a) ? lower : '');
    put('line-degraded', largest(g) ? stairs(g, height) : '');
    mark(this.svg, 'aria-label', `last five minutes: ${count(sum(allowed, span))} allowed, ${count(sum(denied, span))} denied, ${count(sum(degraded, span))} without the store`);
    return top;
  }
}

// Chart is a large picture, with a scale and a reading of each second, by pointer and by arrow keys.
class Chart {
  constructor() {
    this.picture = new Picture(1, true);
    this.cross = this.picture.svg.appendChild(shape('path', { class: 'cross', d: '' }));
    this.top = make('span', { class: 'top' });
    this.read = make('span', { class: 'read', hidden: true, role: 'status' });
    this.at = null; // seconds ago
    const plot = make('div', { class: 'plot', tabindex: '0', 'aria-label': 'Chart; arrow keys read each second' }, this.picture.svg, this.top, this.read);
    plot.addEventListener('pointermove', (e) => {
      const box = plot.getBoundingClientRect();
      this.look(Math.round((1 - (e.clientX - box.left) / box.width) * span - 0.5));
    });
    plot.addEventListener('pointerleave', () => this.look(null));
    plot.addEventListener('blur', () => this.look(null));
    plot.addEventListener('keydown', (e) => {
      const by = { ArrowLeft: 1, ArrowRight: -1, PageUp: 30, PageDown: -30 }[e.key];
      if (by) { e.preventDefault(); this.look((this.at ?? 0) + by); }
      if (e.key === 'Escape') this.look(null);
    });
    this.node = make('div', { class: 'chart' }, plot,
      make('div', { class: 'axis', 'aria-hidden': 'true' }, ...['5 min ago', '4', '3', '2', '1', 'now'].map((t) => make('span', {}, t))));
  }

  look(at) {
    this.at = at === null ? null : Math.min(span - 1, Math.max(0, at));
    this.reading();
  }

  reading() {
    this.read.hidden = this.at === null;
    mark(this.cross, 'd', this.at === null ? '' : `M${span - this.at - 0.5} 0V100`);
    if (this.at === null || !this.counts) return;
    const s = now - this.at;
    const [a, d, g] = this.counts.map((counts) => value(counts, s));
    say(this.read, `${clock(s)}   ${count(a)} allowed   ${count(d)} denied` + (g ? `   ${count(g)} without the store` : ''));
  }

  draw(...counts) {
    this.counts = counts;
    say(this.top, rate(this.picture.draw(...counts)) + '/s');
    this.reading();
  }
}

// Lines is a small picture of two lines: the median and the slowest hundredth.
class Lines {
  constructor() {
    this.svg = shape('svg', { viewBox: '0 0 60 100', preserveAspectRatio: 'none', 'aria-hidden': 'true' });
    this.top = make('span', { class: 'top', 'aria-hidden': 'true' });
    this.paths = ['line-p99', 'line-p50'].map((name) => this.svg.appendChild(shape('path', { class: name })));
  }

  draw(p50, p99) {
    const [slow, median] = [bins(p99, 5), bins(p50, 5)];
    const top = Math.max(0.001, largest(slow));
    say(this.top, largest(slow) ? milli(top) : '');
    [slow, median].forEach((values, i) => mark(this.paths[i], 'd', stairs(values, (n) => 97 - (n / top) * 92)));
  }
}

// ---- the state

const timing = new Lines();
const whole = new Chart();

function drawStates() {
  const t = latest;
  const state = (id, of, title, text) => {
    const node = $(id);
    if (of) mark(node, 'data-state', of);
    say(node.querySelector('.value'), title);
    say(node.querySelector('.text'), text);
  };
  state('store', t.store.state, t.store.title, t.store.text);
  if (t.store.breaker) state('breaker', t.store.breaker, t.store.breaker === 'open' ? 'Open' : 'Closed', t.store.breaking);
  else state('breaker', 'idle', 'None', 'A store in this process needs none.');
  const [p50, p99] = t.latency;
  state('latency', '', p99 ? milli(p50) : '–', p99 ? `median of the last minute; 99 of 100 took ${milli(p99)} or less. Above, five minutes.` : 'The store has decided nothing in the last minute.');
  timing.draw(trips[0], trips[1]);
  const versions = new Set(t.instances.map((i) => i.rules));
  const of = versions.size === 1 ? `All run rules ${[...versions][0]}. ` : versions.size ? `They run ${versions.size} versions of the rules. ` : '';
  state('scope', '', t.fleet.scope === 'fleet' ? String(t.instances.length) : 'this one', of + t.fleet.text);
  const o = t.overrides;
  if (o.refused) state('overrides', 'refused', 'Refused', 'Those before stay in force: ' + o.refused);
  else state('overrides', o.count ? 'set' : 'ok', o.count ? String(o.count) : 'None', (o.count ? 'Limits that are not as written.' : 'Every limit is as written.') + (o.changed ? ` Read at ${clock(o.changed)}.` : ''));
}

function drawLists() {
  const t = latest;
  const most = Math.max(1, ...t.denied.map((d) => d.count));
  fill($('denied'), t.denied, (d) => `${d.limit}\n${d.id}`, () => {
    const bar = shape('svg', { class: 'fill', 'aria-hidden': 'true', viewBox: '0 0 100 1', preserveAspectRatio: 'none' });
    bar.append(shape('rect', { height: 1 }));
    return make('li', {}, make('span', { class: 'id mono' }), make('span', { class: 'what' }), make('span', { class: 'end' }), bar);
  }, (li, d) => {
    say(li.children[0], d.id);
    say(li.children[1], d.limit.replace(' ', ' · '));
    say(li.children[2], count(d.count));
    mark(li.querySelector('rect'), 'width', String(Math.round((100 * d.count) / most)));
  });
  fill($('bans'), t.bans, (b) => `${b.limit}\n${b.id}`, () => make('li', {}, make('span', { class: 'id mono' }), make('span', { class: 'what' }), make('span', { class: 'end' })), (li, b) => {
    say(li.children[0], b.id);
    say(li.children[1], b.limit.replace(' ', ' · '));
    say(li.children[2], lasting(b.left) + ' left');
  });
  const usual = commonest(t.instances.map((i) => i.rules));
  fill($('instances'), t.instances, (i) => i.name + i.started, () => make('li', {}, make('span', { class: 'id' }), make('span', { class: 'what' }), make('span', { class: 'end mono' })), (li, i) => {
    say(li.children[0], i.name + (i.self ? ' (this page)' : ''));
    say(li.children[1], `up ${lasting(Math.max(1, Math.round(now - i.started)))}` + (i.seen > 15 ? `, heard of ${lasting(i.seen)} ago` : ''));
    say(li.children[2], 'rules ' + i.rules + (i.rules !== usual ? ' ≠' : ''));
  });
  fill($('changes'), t.changes || [], (c) => c.when + c.what, () => make('li', {}, make('span', { class: 'what' }), make('span', { class: 'id' }), make('span', { class: 'end what' })), (li, c) => {
    say(li.children[0], date(c.when));
    say(li.children[1], c.what);
    say(li.children[2], 'by ' + c.who);
  });
  $('no-denied').hidden = t.denied.length > 0;
  $('no-bans').hidden = t.bans.length > 0;
  $('no-changes').hidden = (t.changes || []).length > 0;
}

function commonest(values) {
  const times = new Map();
  for (const v of values) times.set(v, (times.get(v) || 0) + 1);
  return [...times].sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1)).map(([v]) => v)[0];
}

// fill makes a list of what there is: entries that stay keep their nodes.
function fill(list, items, keyOf, create, update) {
  const before = new Map([...list.children].map((node) => [node.key, node]));
  items.forEach((item, i) => {
    const key = keyOf(item);
    let node = before.get(key);
    if (!node) { node = create(item); node.key = key; }
    before.delete(key);
    if (list.children[i] !== node) list.insertBefore(node, list.children[i] || null);
    update(node, item);
  });
  for (const node of before.values()) node.remove();
}

// ---- the limits

let rows = [];
const opened = new Set();

function buildLimits() {
  const had = document.activeElement;
  const focused = rows.find((r) => r.button === had || r.detail.contains(had));
  rows = [];
  const nodes = [];
  let method = '';
  for (const l of facts.limits) {
    if (l.method !== method) {
      method = l.method;
      nodes.push(make('div', { class: 'method', role: 'row', 'data-method': method }, make('strong', { role: 'rowheader' }, method), make('span', { class: 'at', role: 'cell' }, l.package)));
    }
    const row = new Row(l);
    rows.push(row);
    nodes.push(row.node, row.detail);
  }
  $('rows').replaceChildren(...nodes);
  $('no-limits').hidden = facts.limits.length > 0;
  const again = focused && rows.find((r) => r.limit.id === focused.limit.id);
  if (again) ([...again.detail.querySelectorAll('button')].find((b) => b.textContent === had.textContent) || again.button).focus();
  filter();
  buildForm();
}

class Row {
  constructor(limit) {
    this.limit = limit;
    this.cells = {};
    const cell = (name, what) => {
      const node = make('span', { role: 'cell', class: 'num ' + name, 'data-what': what });
      this.cells[name] = node;
      return node;
    };
    this.picture = new Picture(5, false);
    const id = 'd' + facts.limits.indexOf(limit);
    this.button = make('button', { type: 'button', 'aria-controls': id, 'data-limit': limit.id, onclick: () => this.toggle() }, limit.name);
    this.node = make('div', { class: limit.mode === 'shadow' ? 'row would' : 'row', role: 'row' },
      make('span', { role: 'cell', class: 'name' }, this.button),
      make('span', { role: 'cell', class: 'text' }, ...this.texts()),
      cell('allowed', 'allowed/s'), limit.mode === 'shadow' ? cell('denied', 'would deny/s') : cell('denied', 'denied/s'), cell('degraded', 'degraded/s'),
      make('span', { role: 'cell', class: 'spark' }, this.picture.svg));
    this.detail = make('div', { class: 'detail', role: 'row', id, hidden: true });
    this.open(opened.has(limit.id));
  }

  texts() {
    const l = this.limit;
    const chips = [];
    if (l.mode !== 'enforce') chips.push(make('span', { class: 'chip ' + l.mode }, l.mode));
    if (l.override) chips.push(make('span', { class: 'chip override' }, 'override'));
    if (l.computed) chips.push(make('span', { class: 'chip', title: 'The program computes rules for each caller: these hold where it computes none.' }, 'computed'));
    if (l.plan) chips.push(make('span', { class: 'chip plan' }, 'plan ' + l.plan));
    const written = make('code', { class: 'directive' }, l.directive);
    const directive = make('span', {}, written);
    if (l.override && (l.now || l.mode === 'off')) {
      directive.className = 'written-over';
      directive.append(' ', make('code', { class: 'override' }, l.now || 'off'));
    }
    return [...chips, directive, ' ', make('span', { class: 'at' }, l.at || '')];
  }

  toggle() {
    const open = this.detail.hidden;
    if (open) opened.add(this.limit.id); else opened.delete(this.limit.id);
    this.open(open);
    if (open && now) this.draw();
  }

  open(open) {
    this.button.setAttribute('aria-expanded', String(open));
    this.detail.hidden = !open;
    if (!open || this.chart) return;
    this.chart = new Chart();
    this.facts = make('dl', { class: 'facts' });
    const cell = (...children) => make('div', { role: 'cell' }, ...children);
    this.detail.append(cell(this.chart.node), cell(this.facts));
    if (facts.overrides) this.detail.append(make('div', { class: 'buttons', role: 'cell' }, ...this.actions()));
  }

  actions() {
    const l = this.limit;
    const button = (text, act) => make('button', { type: 'button', onclick: act }, text);
    const put = (text, say) => () => confirmChange({ title: say, about: `${l.handle} is written as ${l.directive}${l.at ? ' at ' + l.at : ''}. All instances heed the change at once.`, body: { do: 'override', limit: l.handle, text } });
    const buttons = [button('Override…', () => confirmChange({
      title: `Override ${l.handle}`, about: `Written as ${l.directive}${l.at ? ' at ' + l.at : ''}. What you do not say stays as written.`,
      fields: [{ name: 'text', label: 'Rules and options, such as 20,1s 200,1m', value: l.override && l.override !== 'off' && !l.long ? l.override : '' }],
      body: { do: 'override', limit: l.handle },
    }))];
    if (l.mode === 'enforce') buttons.push(button('Make it a shadow', put('shadow', `Let ${l.handle} deny nothing, and say what it would`)));
    if (l.mode === 'shadow') buttons.push(button('Enforce it', put('enforce', `Let ${l.handle} deny calls again`)));
    if (l.mode !== 'off') buttons.push(button('Switch it off', put('off', `Switch ${l.handle} off: every call passes it`)));
    if (l.override) buttons.push(button('As written', put('', `Let ${l.handle} hold as it is written again`)));
    return buttons;
  }

  draw() {
    const [a, d, g, f, s] = Array.from({ length: KINDS }, (_, kind) => series(this.limit.id, kind));
    const number = (name, counts) => {
      const n = perSecond(counts);
      say(this.cells[name], n ? rate(n) : '0');
      this.cells[name].toggleAttribute('data-zero', n === 0);
    };
    const denies = this.limit.mode === 'shadow' ? s : d;
    number('allowed', a);
    number('denied', denies);
    number('degraded', g);
    this.picture.draw(a, denies, g);
    if (this.detail.hidden) return;
    this.chart.draw(a, denies, g);
    const l = this.limit;
    const list = [['In five minutes', `${count(sum(a, span))} allowed, ${count(sum(d, span))} denied`]];
    if (sum(s, span)) list.push(['Would deny', count(sum(s, span))]);
    if (sum(g, span)) list.push(['Without the store', count(sum(g, span))]);
    if (sum(f, span)) list.push(['Failed', `${count(sum(f, span))} refused without a decision`]);
    list.push(['Counts by', l.kind], ['If the store fails', 'onfail=' + l.onfail], ['Code', l.directive]);
    if (l.override) list.push(['Override', `${l.override}  (${l.from})`]);
    if (l.computed) list.push(['Rules', 'computed by the program for each caller; those of the code and of overrides hold where it computes none']);
    if (l.at) list.push(['Stands at', l.at]);
    list.push(['Overrides call it', l.handle]);
    fill(this.facts, list.flatMap(([name, text], i) => [{ tag: 'dt', key: 'n' + i, text: name }, { tag: 'dd', key: 'v' + i, text }]), (x) => x.key, (x) => make(x.tag), (node, x) => say(node, x.text));
  }
}

function drawLimits() {
  for (const row of rows) row.draw();
  const others = latest.others || [];
  $('others').hidden = others.length === 0;
  say($('others'), 'Other instances count what this one does not know: ' + others.map((id) => `${id.replace(' ', ' · ')} (${count(sum(series(id, ALLOWED), span))} allowed, ${count(sum(series(id, DENIED), span))} denied in five minutes)`).join(', '));
  const all = methods();
  whole.draw(plus(all, ALLOWED), plus(all, DENIED), plus(all, DEGRADED));
}

function filter() {
  const words = $('filter').value.toLowerCase().split(/\s+/).filter(Boolean);
  const shown = new Set();
  for (const { limit, node, detail } of rows) {
    const text = [limit.id, limit.directive, limit.override, limit.mode, limit.plan, limit.at, limit.package].join(' ').toLowerCase();
    const fits = words.every((w) => text.includes(w));
    node.hidden = !fits;
    detail.hidden = !fits || !opened.has(limit.id);
    if (fits) shown.add(limit.method);
  }
  for (const node of document.querySelectorAll('.limits .method')) node.hidden = !shown.has(node.dataset.method);
}

// ---- one id

function buildForm() {
  const chosen = $('look-method').value;
  const all = [...new Set(facts.limits.map((l) => l.method))];
  $('look-method').replaceChildren(...all.map((m) => make('option', { value: m }, m)));
  if (all.includes(chosen)) $('look-method').value = chosen;
  buildKinds();
}

function buildKinds() {
  const chosen = $('look-kind').value;
  const kinds = [...new Set(facts.limits.filter((l) => l.method === $('look-method').value).map((l) => l.kind))];
  $('look-kind').replaceChildren(...kinds.map((k) => make('option', { value: k }, k)));
  if (kinds.includes(chosen)) $('look-kind').value = chosen;
  needID();
}

function needID() {
  const global = $('look-kind').value === 'global';
  $('look-id').disabled = global;
  $('look-id').required = !global;
  $('look-id').placeholder = { global: 'all callers share one', ip: '192.0.2.7', user: 'alice' }[$('look-kind').value] || '';
}

// post sends JSON; what is wrong is an error with a text for people.
async function post(to, body) {
  let answer;
  try {
    answer = await fetch(to, { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify(body), credentials: 'same-origin', referrerPolicy: 'no-referrer' });
  } catch {
    throw new Error('The connection was lost. Nobody knows whether it was done: look before you repeat it.');
  }
  const text = await answer.text();
  if (!answer.ok) throw new Error(text.trim() || `The server answered ${answer.status}.`);
  return text ? JSON.parse(text) : {};
}

// brief is an id as people are told of it, who cannot read thousands of characters.
function brief(id) {
  const all = [...id];
  return all.length <= 200 ? id : `${all.slice(0, 100).join('')}… (${all.length} characters)`;
}

let asked = null; // whom the answer below is about

async function lookUp(who) {
  asked = who;
  try {
    showFound(who, await post('lookup', who));
  } catch (e) {
    $('found').replaceChildren(make('p', { class: 'error' }, e.message));
  }
}

function showFound(who, found) {
  const name = who.kind === 'global' ? 'all callers' : `${who.kind} ${brief(who.id)}`;
  const lines = found.rules.map((r) => {
    const meter = shape('svg', { viewBox: '0 0 100 1', preserveAspectRatio: 'none', 'aria-hidden': 'true' });
    meter.append(shape('rect', { height: 1, width: r.banned > 0 ? 100 : Math.round((100 * r.remaining) / Math.max(1, r.count)) }));
    const text = r.banned > 0 ? `banned for ${lasting(r.banned)}` : `${count(r.remaining)} of ${count(r.count)} left` + (r.reset > 0 ? `, all in ${lasting(r.reset)}` : '') + (r.retry > 0 ? `, the next in ${lasting(r.retry)}` : '');
    const bar = make('span', { class: 'meter' + (r.remaining === 0 || r.banned > 0 ? ' out' : '') });
    bar.append(meter);
    return make('div', { class: 'rule' }, make('span', {}, r.limit + ' ', make('code', {}, r.rule), r.note ? make('span', { class: 'chip ' + r.note }, r.note) : null), bar, make('span', { class: 'left' }, text));
  });
  const title = make('p', {}, make('strong', { class: 'who' }, name), ' ', make('span', { class: 'soft' }, `of ${who.method}, ${clock(Date.now() / 1000)}`));
  const box = make('div', {}, title, make('div', { class: 'rules' }, ...lines));
  if (facts.writes) box.append(make('div', { class: 'buttons' }, ...idActions(who, name)));
  $('found').replaceChildren(box);
}

function idActions(who, name) {
  const button = (text, ask) => make('button', { type: 'button', onclick: () => confirmChange({ ...ask, body: { ...who, ...ask.body }, then: () => lookUp(who) }) }, text);
  const bans = facts.limits.some((l) => l.method === who.method && l.kind === who.kind && l.bans);
  const all = [
    button('Reset…', { title: `Reset ${name}`, about: `${who.method} forgets what it has counted of it, and its bans, as if it had never called.`, body: { do: 'reset' } }),
    button('Grant…', { title: `Grant ${name} more calls`, about: `${who.method} gives back what it was charged last.`, fields: [{ name: 'permits', label: 'Permits', type: 'number', value: '1' }], body: { do: 'grant' } }),
  ];
  if (bans) {
    all.push(button('Ban…', { title: `Ban ${name}`, about: `${who.method} denies all its calls for so long.`, fields: [{ name: 'for', label: 'For, such as 10m, 24h or 1d', value: '10m' }], danger: true, body: { do: 'ban' } }));
    all.push(button('Lift its ban…', { title: `Lift the ban of ${name}`, about: `${who.method} lets it call again, as far as its counts do.`, body: { do: 'unban' } }));
  }
  return all;
}

// ---- changes

let pending = null;

function confirmChange(ask) {
  pending = ask;
  say($('ask-title'), ask.title);
  say($('ask-text'), ask.about);
  $('ask-fields').replaceChildren(...(ask.fields || []).map((f) => make('label', {}, f.label, make('input', { name: f.name, type: f.type || 'text', value: f.value, min: f.type === 'number' ? '1' : null, required: true, autocomplete: 'off', spellcheck: 'false' }))));
  $('ask-error').hidden = true;
  $('ask-yes').disabled = false;
  $('ask-yes').className = ask.danger ? 'danger' : 'strong';
  $('ask').showModal();
}

async function doChange(event) {
  event.preventDefault();
  const ask = pending;
  const body = { ...ask.body };
  for (const input of $('ask-fields').querySelectorAll('input')) body[input.name] = input.type === 'number' ? Number(input.value) : input.value.trim();
  $('ask-yes').disabled = true;
  $('ask-error').hidden = true;
  try {
    const done = await post('change', body);
    $('ask').close();
    tell(done.done);
    if (ask.then) ask.then();
  } catch (e) {
    say($('ask-error'), e.message);
    $('ask-error').hidden = false;
    $('ask-yes').disabled = false;
  }
}

let silence = 0;

function tell(text) {
  say($('said'), text);
  $('said').hidden = false;
  clearTimeout(silence);
  silence = setTimeout(() => { $('said').hidden = true; }, 6000);
}

// ---- the stream

const FIRST = 500, LAST = 15000, SILENT = 6000;
let reason = '', source = null, pause = FIRST, timer = 0, watchdog = 0, due = 0;

// live says how the connection does. What changes each second is not read out.
function live(state, text, wait = '') {
  mark($('live'), 'data-state', state);
  say($('live-why'), text);
  say($('live-wait'), wait);
  $('again').hidden = state !== 'lost';
  document.body.classList.toggle('stale', state === 'lost');
}

function connect() {
  clearInterval(timer);
  if (source) source.close();
  live(now ? 'lost' : 'connecting', 'Connecting');
  source = new EventSource('events');
  const on = (name, take) => source.addEventListener(name, (e) => { heard(); take(JSON.parse(e.data)); });
  on('limits', (v) => { facts = v; span = v.span; say($('service'), v.service); say($('instance'), v.instance); document.title = v.service + ' rate limits'; buildLimits(); });
  on('history', (v) => { lanes = new Map(); trips = [new Float64Array(span), new Float64Array(span)]; now = v.from + span - 1; enter(v.from, v.from + span, v.lanes, v.trips); });
  on('tick', (v) => {
    latest = v;
    if (v.now > now) advance(v.now);
    enter(v.from, v.now + 1, v.lanes, v.trips);
    draw();
    live('live', 'Live');
    pause = FIRST;
  });
  source.onerror = () => lost(source.readyState === EventSource.CLOSED);
  heard();
}

function heard() {
  clearTimeout(watchdog);
  watchdog = setTimeout(() => lost(false), SILENT);
}

// whyNot finds out what the server answers in place of a stream.
async function whyNot() {
  const stop = new AbortController();
  try {
    const answer = await fetch('events', { credentials: 'same-origin', signal: stop.signal });
    const kind = answer.headers.get('Content-Type') || '';
    if (!answer.ok) reason = kind.startsWith('text/plain') ? (await answer.text()).trim() : `the server answers ${answer.status}`;
    else if (!kind.startsWith('text/event-stream')) reason = 'something else answers in place of this page; load it anew, or log in again';
  } catch { /* the connection is lost */ } finally {
    stop.abort();
  }
}

// lost waits for longer each time, and says for how long.
function lost(refused) {
  reason = '';
  if (refused) whyNot();
  clearTimeout(watchdog);
  clearInterval(timer);
  source.close();
  due = Date.now() + pause * (0.8 + 0.4 * Math.random());
  pause = Math.min(2 * pause, LAST);
  const wait = () => {
    const left = Math.ceil((due - Date.now()) / 1000);
    if (left <= 0) return connect();
    live('lost', reason ? `Not connected: ${reason}.` : now ? `Connection lost; what is shown is of ${clock(now)}.` : 'Connection lost.', ` Trying again in ${left} s`);
  };
  timer = setInterval(wait, 250);
  wait();
}

function draw() {
  drawStates();
  drawLimits();
  drawLists();
}

// ---- begin

$('latency').querySelector('.spark').append(timing.svg, timing.top);
$('calls').append(whole.node);
$('filter').addEventListener('input', filter);
$('look-method').addEventListener('change', buildKinds);
$('look-kind').addEventListener('change', needID);
$('look').addEventListener('submit', (e) => {
  e.preventDefault();
  lookUp({ method: $('look-method').value, kind: $('look-kind').value, id: $('look-kind').value === 'global' ? '' : $('look-id').value });
});
$('ask-form').addEventListener('submit', doChange);
$('ask-no').addEventListener('click', () => $('ask').close());
$('again').addEventListener('click', () => { pause = FIRST; connect(); });
addEventListener('online', () => { if ($('live').dataset.state === 'lost') connect(); });
addEventListener('keydown', (e) => {
  const typing = /^(INPUT|SELECT|TEXTAREA)$/.test(document.activeElement.tagName);
  if (e.key === '/' && !typing) { e.preventDefault(); $('filter').focus(); }
  if (e.key === 'Escape' && document.activeElement === $('filter')) { $('filter').value = ''; filter(); $('filter').blur(); }
});
connect();
