// Renews a view while somebody looks at it: every five seconds, and sooner when the worker says that something has
// happened. Without this script everything works; the browser then loads the page again every ten seconds.
"use strict";

(() => {
  const PERIOD = 5000, SOON = 400;
  const notice = document.getElementById("notice");
  const focusable = "a[href], button, input, select, summary, [tabindex]";
  let seen = Date.now(), busy = false, feed = null, soon = 0;

  const main = () => document.getElementById("main");
  const live = () => main().dataset.live === "yes";

  function inUse() {
    const active = document.activeElement;
    const writes = active !== null && main().contains(active) && active.matches("input, select, textarea");
    return document.hidden || writes || String(getSelection()) !== "";
  }

  // The element that has the focus, as its place among all that can have it and what it says.
  function focused() {
    const all = [...main().querySelectorAll(focusable)];
    const at = all.indexOf(document.activeElement);
    return at < 0 ? null : { at, name: all[at].outerHTML.slice(0, 200) };
  }

  function replace(next) {
    const had = focused(), places = [...main().querySelectorAll(".scroll")].map((each) => each.scrollLeft);
    main().replaceWith(next);
    [...next.querySelectorAll(".scroll")].forEach((each, at) => { each.scrollLeft = places[at] || 0; });
    if (had !== null) {
      const all = [...next.querySelectorAll(focusable)];
      const same = (each) => each !== undefined && each.outerHTML.slice(0, 200) === had.name;
      const found = same(all[had.at]) ? all[had.at] : all.find(same);
      if (found !== undefined) found.focus({ preventScroll: true });
    }
  }

  async function renew() {
    if (busy || !live() || inUse()) return;
    busy = true;
    try {
      const answer = await fetch(location.href, { cache: "no-store", redirect: "error" });
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      const next = page.getElementById("main");
      if (!answer.ok || next === null) throw new Error(`status ${answer.status}`);
      if (!inUse()) {
        replace(next);
        document.title = page.title;
      }
      seen = Date.now();
      notice.hidden = true;
      if (!live()) listen(false);
    } catch (error) {
      notice.textContent = `This worker does not answer (${error.message}). What you see is ${Math.round((Date.now() - seen) / 1000)} s old.`;
      notice.hidden = false;
    } finally {
      busy = false;
    }
  }

  function listen(wanted) {
    if (!wanted) {
      if (feed !== null) feed.close();
      feed = null;
    } else if (feed === null && live()) {
      feed = new EventSource(`/events?after=${main().dataset.after}`);
      feed.onmessage = () => {
        clearTimeout(soon);
        soon = setTimeout(renew, SOON);
      };
    }
  }

  document.addEventListener("visibilitychange", () => {
    listen(!document.hidden);
    renew();
  });
  addEventListener("pagehide", () => listen(false));
  setInterval(renew, PERIOD);
  listen(!document.hidden);
})();
