// What a screen reader needs: names of what can be used, headings in order, landmarks, a language.
const problems = [];
const name = e => (e.getAttribute('aria-label') || (e.labels && e.labels[0] ? e.labels[0].textContent : '') || e.textContent).trim();
for (const e of document.querySelectorAll('a, button, select, progress, input:not([type=hidden])'))
  if (!e.closest('[aria-hidden]') && !name(e)) problems.push('no name: ' + e.outerHTML.slice(0, 80));
let level = 0;
for (const h of document.querySelectorAll('h1, h2, h3')) { const n = +h.tagName[1];
  if (n > level + 1) problems.push('heading skips: ' + h.textContent); level = n }
if (document.querySelectorAll('h1').length !== 1) problems.push('not one h1');
for (const tag of ['header', 'main']) if (document.querySelectorAll(tag).length !== 1) problems.push('not one ' + tag);
if (!document.documentElement.lang) problems.push('no language');
if (!document.title) problems.push('no title');
const ids = [...document.querySelectorAll('[id]')].map(e => e.id);
if (new Set(ids).size !== ids.length) problems.push('an id twice');
for (const t of document.querySelectorAll('table')) if (!t.querySelector('th[scope=col]')) problems.push('table without headings');
for (const e of document.querySelectorAll('[aria-labelledby], [aria-describedby]'))
  for (const id of (e.getAttribute('aria-labelledby') || e.getAttribute('aria-describedby')).split(' '))
    if (!document.getElementById(id)) problems.push('no ' + id);
return problems;
