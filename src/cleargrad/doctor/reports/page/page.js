// The page works without this file; it adds walking through figures by arrow keys, and a line that reads out
// the moment under the pointer or the focus.
"use strict";

const report = JSON.parse(document.getElementById("report").textContent);

function figures(number) {
  if (typeof number === "string") return number;
  return number === null ? "unknown" : String(Number(number.toPrecision(4)));
}

// Timelines: one tab stop for each figure; arrows walk along it, up and down change to the next figure.

const timelines = [...document.querySelectorAll("[data-timeline]")];

function momentsOf(timeline) {
  return [...timeline.querySelectorAll(".moment")];
}

function goTo(timeline, position) {
  const moments = momentsOf(timeline);
  const moment = moments[Math.max(0, Math.min(position, moments.length - 1))];
  if (moment) moment.focus();
}

function show(timeline, moment) {
  for (const other of momentsOf(timeline)) {
    const here = other === moment;
    other.classList.toggle("current", here);
    other.setAttribute("tabindex", here ? "0" : "-1");
  }
  timeline.querySelector(".readout").textContent = moment.querySelector("title").textContent;
}

function nextStep(moments, position, direction) {
  const step = moments[position].dataset.step;
  let at = position;
  while (at + direction >= 0 && at + direction < moments.length && moments[at].dataset.step === step) at += direction;
  return at;
}

for (const timeline of timelines) {
  const peers = timelines.filter((other) => other.dataset.timeline === timeline.dataset.timeline);
  const row = peers.indexOf(timeline);
  timeline.addEventListener("focusin", (event) => {
    const moment = event.target.closest(".moment");
    if (!moment) return;
    show(timeline, moment);
    const box = timeline.querySelector(".box");
    const left = Number(moment.dataset.left);
    if (left < box.scrollLeft) box.scrollLeft = left - 40;
    else if (left + 40 > box.scrollLeft + box.clientWidth) box.scrollLeft = left + 80 - box.clientWidth;
  });
  timeline.addEventListener("pointerover", (event) => {
    const moment = event.target.closest(".moment");
    if (moment && !timeline.contains(document.activeElement)) show(timeline, moment);
  });
  timeline.addEventListener("click", (event) => {
    const moment = event.target.closest(".moment");
    if (moment) moment.focus();
  });
  timeline.addEventListener("keydown", (event) => {
    const moments = momentsOf(timeline);
    const position = moments.indexOf(event.target.closest(".moment"));
    if (position < 0 || event.altKey || event.ctrlKey || event.metaKey) return;
    const moves = {
      ArrowRight: () => goTo(timeline, position + 1),
      ArrowLeft: () => goTo(timeline, position - 1),
      Home: () => goTo(timeline, 0),
      End: () => goTo(timeline, moments.length - 1),
      PageDown: () => goTo(timeline, nextStep(moments, position, 1)),
      PageUp: () => goTo(timeline, nextStep(moments, position, -1)),
      ArrowDown: () => peers[row + 1] && goTo(peers[row + 1], position),
      ArrowUp: () => peers[row - 1] && goTo(peers[row - 1], position),
    };
    if (!(event.key in moves)) return;
    event.preventDefault();
    moves[event.key]();
  });
}

// Sizes: each row is a tab stop; arrows walk through the steps.

const said = document.getElementById("sizes-readout");

function showSizes(row, position) {
  const series = report.sizes[Number(row.dataset.row)];
  const last = series.steps.length - 1;
  const at = Math.max(0, Math.min(position, last));
  row.dataset.at = at;
  for (const cursor of row.querySelectorAll(".cursor")) {
    const x = last === 0 ? 100 : (200 * at) / last;
    cursor.setAttribute("x1", x);
    cursor.setAttribute("x2", x);
    cursor.style.visibility = "visible";
  }
  said.textContent =
    `${series.layer}, step ${series.steps[at]}: gradient ${figures(series.gradient[at])}, ` +
    `update ${figures(series.update[at])}, weight ${figures(series.weight[at])}`;
}

for (const row of document.querySelectorAll(".sizes tr[tabindex]")) {
  const last = report.sizes[Number(row.dataset.row)].steps.length - 1;
  row.addEventListener("focus", () => showSizes(row, Number(row.dataset.at ?? last)));
  row.addEventListener("blur", () => {
    for (const cursor of row.querySelectorAll(".cursor")) cursor.style.visibility = "hidden";
  });
  row.addEventListener("pointermove", (event) => {
    const chart = event.target.closest("svg");
    if (!chart) return;
    const box = chart.getBoundingClientRect();
    showSizes(row, Math.round((last * (event.clientX - box.left)) / box.width));
  });
  row.addEventListener("keydown", (event) => {
    const at = Number(row.dataset.at ?? last);
    const moves = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: last };
    if (!(event.key in moves) || event.altKey || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    showSizes(row, moves[event.key]);
  });
}
