/** What the page of a report does everywhere: tooltips without delay, and sections that links and printing open. */

export function byId(id: string): HTMLElement {
  const found = document.getElementById(id);
  if (!found) throw new Error(`the page has no element #${id}`);
  return found;
}

export function showTip(text: string, place: DOMRect): void {
  const tip = byId("tip");
  tip.textContent = text;
  tip.hidden = false;
  const left = place.left + place.width / 2 - tip.offsetWidth / 2;
  const above = place.top - tip.offsetHeight - 8;
  tip.style.left = `${Math.max(4, Math.min(left, innerWidth - tip.offsetWidth - 4))}px`;
  tip.style.top = `${above < 4 ? place.bottom + 8 : above}px`;
}

export function hideTip(): void {
  byId("tip").hidden = true;
}

function openSection(): void {
  const section = document.getElementById(location.hash.slice(1).split("?")[0]!);
  section?.closest("details")?.setAttribute("open", "");
  section?.scrollIntoView();
}

export function startPage(): void {
  document.addEventListener("scroll", hideTip, true);
  addEventListener("hashchange", openSection);
  for (const link of document.querySelectorAll('a[href^="#"]')) link.addEventListener("click", () => setTimeout(openSection));
  if (location.hash) openSection();
  for (const [event, isOpen] of [["beforeprint", true], ["afterprint", false]] as const) {
    addEventListener(event, () => {
      for (const each of document.querySelectorAll<HTMLDetailsElement>("details.in-print")) each.open = isOpen;
    });
  }
}
