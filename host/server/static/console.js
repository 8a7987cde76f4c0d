// Improves the console; every page works without it.

const STALE_MS = 15_000;
// Pages left alone stop to load themselves, so that they do not keep a session open.
const IDLE_MS = 5 * 60_000;

function isTyping(element) {
  return element?.closest?.("input, select, textarea, [contenteditable]");
}

// "/" focuses the search.
function focusSearch(event) {
  const search = document.getElementById("q");
  if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
  event.preventDefault();
  search?.focus();
  search?.select();
}

// A button next to each whole id and new secret copies it.
function addCopyButtons() {
  if (!navigator.clipboard) return;
  for (const code of document.querySelectorAll(".id.whole, .secret code")) {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "secondary small copy";
    button.textContent = "Copy";
    button.addEventListener("click", async () => {
      await navigator.clipboard.writeText(code.textContent);
      button.textContent = "Copied";
    });
    code.after(" ", button);
  }
}

// Replaces the parts of the page that show figures. Parts in which somebody works are left alone.
async function refresh() {
  const response = await fetch(location.href, { redirect: "error", credentials: "same-origin" });
  if (!response.ok) return;
  const fresh = new DOMParser().parseFromString(await response.text(), "text/html");
  for (const part of document.querySelectorAll("[data-live]")) {
    const other = fresh.querySelector(`[data-live="${part.dataset.live}"]`);
    const isUsed = part.contains(document.activeElement) || part.querySelector(":checked, :popover-open");
    if (other && !isUsed) part.replaceWith(document.importNode(other, true));
  }
}

function keepFresh() {
  if (!document.querySelector("[data-live]")) return;
  let used = Date.now();
  for (const event of ["pointerdown", "keydown", "scroll"]) {
    addEventListener(event, () => { used = Date.now(); }, { passive: true });
  }
  setInterval(() => {
    const isAlone = document.hidden || Date.now() - used > IDLE_MS;
    const asks = document.querySelector(".ask:popover-open, #refused");
    // A page that cannot be loaded now is tried again.
    if (!isAlone && !asks) refresh().catch(() => {});
  }, STALE_MS);
}

document.addEventListener("keydown", focusSearch);
document.getElementById("refused")?.focus();
addCopyButtons();
keepFresh();
