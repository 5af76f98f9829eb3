// Reads the page anew, and changes only what differs. A browser that reloads the page itself takes
// the focus of a keyboard to the top, and drops the command that somebody is about to copy.
//
//     a text or an attribute differs    it is set
//     a row, a link or a section        is known by its name, address or id, wherever it is now
//     no answer                         what was read last stays, below a line that says so
//
// Nothing of a pipeline is in this text: the policy of the page names its hash.
"use strict";
{
  const SECONDS = Number(document.documentElement.dataset.refresh);
  const ANSWER_SECONDS = 60;
  const COMPLAINT = "complaint";
  let timer, reading = false;

  const refresh = async () => {
    clearTimeout(timer);
    // Nobody looks, so the cluster is not asked. The event below comes once somebody does.
    if (document.hidden || reading) return;
    reading = true;
    const focused = document.activeElement;
    try {
      const signal = AbortSignal.timeout(1000 * ANSWER_SECONDS);
      const answer = await fetch(location.href, { signal });
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      document.title = page.title;
      update(document.body, page.body);
    } catch {
      complain();
    }
    // A row that has moved takes its link along, but the link loses the focus.
    if (document.activeElement !== focused && focused.isConnected) focused.focus({ preventScroll: true });
    reading = false;
    timer = setTimeout(refresh, 1000 * SECONDS);
  };

  const update = (old, fresh) => {
    if (old.isEqualNode(fresh)) return;
    if (old.nodeType !== Node.ELEMENT_NODE) {
      old.data = fresh.data;
      return;
    }
    for (const { name } of [...old.attributes]) if (!fresh.hasAttribute(name)) old.removeAttribute(name);
    for (const { name, value } of fresh.attributes) old.setAttribute(name, value);
    const left = [...old.childNodes];
    const wanted = [...fresh.childNodes].map((child) => {
      const found = left.findIndex((other) => other.nodeName === child.nodeName && identify(other) === identify(child));
      if (found < 0) return document.importNode(child, true);
      const [node] = left.splice(found, 1);
      update(node, child);
      return node;
    });
    // First of all, so that what follows a removed row need not be moved.
    for (const node of left) node.remove();
    wanted.forEach((node, position) => {
      if (old.childNodes[position] !== node) old.insertBefore(node, old.childNodes[position] ?? null);
    });
  };

  // By the address, so that a link never leads elsewhere while somebody is about to press Enter.
  const identify = (node) => {
    if (node.nodeType !== Node.ELEMENT_NODE) return "";
    return node.tagName === "TR" ? node.cells[0].textContent : node.id || node.getAttribute("href");
  };

  const complain = () => {
    if (document.getElementById(COMPLAINT)) return;
    const line = document.createElement("p");
    line.id = COMPLAINT;
    line.setAttribute("role", "alert");
    line.textContent = "icdc ui does not answer. What you see is what it has read last.";
    document.querySelector("main").prepend(line);
  };

  timer = setTimeout(refresh, 1000 * SECONDS);
  document.addEventListener("visibilitychange", refresh);
}
