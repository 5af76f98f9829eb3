"""Expressions that a browser evaluates on a page, to say what a person sees there."""

ROWS = "[...document.querySelectorAll('tbody tr')].map(row => [...row.cells].map(c => c.innerText))"
"""The cells of the first table, row by row."""

FOCUSED = """(() => {
  const focused = document.activeElement, style = getComputedStyle(focused);
  const box = focused.getBoundingClientRect();
  return {
    href: focused.getAttribute('href'),
    outline: style.outlineStyle === 'none' ? 0 : parseFloat(style.outlineWidth),
    visible: box.width > 0 && box.left >= 0 && box.right <= innerWidth
      && box.top >= 0 && box.bottom <= innerHeight,
  };
})()"""
"""The link that has the focus: its address, the width of its outline, and whether it is in view."""

LINKS = "[...document.querySelectorAll('a')].map(link => link.getAttribute('href'))"
"""The addresses of all links, in their order."""

OVERFLOWING = """(() => {
  const wide = [...document.querySelectorAll('main *')].filter(
    one => one.scrollWidth > one.clientWidth + 1 && one.clientWidth > 0
      && getComputedStyle(one).display !== 'inline');
  const page = document.documentElement;
  return [
    ...(page.scrollWidth > page.clientWidth ? [`page: ${page.scrollWidth}`] : []),
    ...wide.map(one => `${one.tagName} ${one.className}: ${one.textContent.slice(0, 40)}`),
  ];
})()"""
"""What is wider than its place, so that a person would have to scroll to the side."""

WEAK = """(() => {
  const parse = text => text.match(/[\\d.]+/g).map(Number);
  const shine = ([r, g, b]) => [r, g, b]
    .map(part => part / 255)
    .map(part => part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4)
    .reduce((sum, part, at) => sum + part * [0.2126, 0.7152, 0.0722][at], 0);
  const compare = (one, other) => {
    const [dark, light] = [shine(one), shine(other)].sort((a, b) => a - b);
    return (light + 0.05) / (dark + 0.05);
  };
  const findBack = element => {
    for (let at = element; at; at = at.parentElement) {
      const back = parse(getComputedStyle(at).backgroundColor);
      if (back.length === 3 || back[3] === 1) return back;
    }
    return [255, 255, 255];
  };
  const weak = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const text = walker.currentNode, element = text.parentElement;
    if (!text.data.trim() || element.closest('script, style, noscript, svg')) continue;
    const ratio = compare(parse(getComputedStyle(element).color), findBack(element));
    if (ratio < 4.5) weak.push(`${text.data.trim().slice(0, 40)}: ${ratio.toFixed(2)}`);
  }
  for (const bar of document.querySelectorAll('svg rect:not(.rail)')) {
    const ratio = compare(parse(getComputedStyle(bar).fill), findBack(bar));
    if (ratio < 3) weak.push(`bar ${bar.getAttribute('class')}: ${ratio.toFixed(2)}`);
  }
  return weak;
})()"""
"""Texts and bars that stand out less from what is behind them than WCAG 2.2 asks for (AA)."""

POINTED = """(() => {
  const box = document.querySelector('tbody tr:nth-child(2)').getBoundingClientRect();
  return {x: box.left + 300, y: box.top + box.height / 2};
})()"""
"""A point within the second row of the first table."""
