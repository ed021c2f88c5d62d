"use strict";

async function listRuns() {
  const list = document.getElementById("runs");
  const answer = await fetch("/api/info");
  const info = await answer.json();
  const lines = answer.ok
    ? info.runs.map((run) => `${run.name}: ${run.model} on ${run.dataset}, ${run.first} to ${run.last}`)
    : [info.detail];
  for (const line of lines) {
    list.append(Object.assign(document.createElement("li"), { textContent: line }));
  }
}

listRuns();
