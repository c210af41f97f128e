// Ratios of text to what is behind it, as WCAG 2 computes them: all text that is seen and has too little.
const lum = c => { const [r, g, b] = c.map(v => { v /= 255; return v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4 });
  return .2126 * r + .7152 * g + .0722 * b };
const rgb = t => (t.match(/[\d.]+/g) || []).map(Number);
const behind = e => { for (; e; e = e.parentElement) { const c = rgb(getComputedStyle(e).backgroundColor);
  if (c.length && (c.length < 4 || c[3] > 0)) return c.slice(0, 3) } return [255, 255, 255] };
return [...document.querySelectorAll('body *')].filter(e => !e.closest('svg') && e.checkVisibility()
    && [...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim()))
  .map(e => { const a = lum(rgb(getComputedStyle(e).color).slice(0, 3)), b = lum(behind(e));
    return [(Math.max(a, b) + .05) / (Math.min(a, b) + .05), e.textContent.trim().slice(0, 40)] })
  .filter(([ratio]) => ratio < 4.5);
