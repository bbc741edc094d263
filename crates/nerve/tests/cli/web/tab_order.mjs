// The Tab key: it leads to every control. Shared by the scripts about accessibility.

import { DEADLINE } from "./browser.mjs";

/** Steps of the Tab key after which a control counts as unreachable. */
const MAX_TABS = 150;

/** Presses Tab until the focused element matches. */
export async function tabTo(page, what, isWanted, ...values) {
  for (let count = 0; count < MAX_TABS; count += 1) {
    await page.keyboard.press("Tab");
    if (await page.evaluate(isWanted, ...values)) {
      return;
    }
  }
  throw new Error(`Tab does not lead to ${what}`);
}

/** Presses Tab until a control with this name has the focus. */
export function tabToName(page, name) {
  const isFocused = (wanted) => {
    const { activeElement: focused } = document;
    const labels = [...(focused.labels ?? [])].map((label) => label.textContent);
    return [focused.getAttribute("aria-label"), ...labels, focused.textContent.trim()].includes(wanted);
  };
  return tabTo(page, name, isFocused, name);
}

/** Fails if Tab does not lead to every control that is visible, once around the page. */
export async function checkTabs(page, view) {
  const CONTROLS = "a[href], button:enabled, input:enabled, select:enabled, textarea:enabled, summary, [tabindex='0']";
  await page.evaluate((controls) => {
    document.activeElement.blur();
    const isStop = (one) => one.tabIndex >= 0 && one.checkVisibility({ visibilityProperty: true }) && !one.closest("[aria-hidden='true'], .xterm");
    globalThis.unreached = new Set([...document.querySelectorAll(controls)].filter(isStop));
  }, CONTROLS);
  let rest = [];
  for (let count = 0; count < MAX_TABS; count += 1) {
    await page.keyboard.press("Tab");
    rest = await page.evaluate(() => {
      globalThis.unreached.delete(document.activeElement);
      return [...globalThis.unreached].filter((one) => one.isConnected && one.checkVisibility()).map((one) => one.outerHTML.slice(0, 120));
    });
    if (rest.length === 0) {
      return;
    }
  }
  throw new Error(`${view}: Tab does not lead to\n${rest.join("\n")}`);
}

/** Waits until a function returns true in the page. */
export function waitForState(page, isDone, ...values) {
  return page.waitForFunction(isDone, { timeout: DEADLINE }, ...values);
}

/** Waits until the buttons of dialogs react: they do not right after a move. */
export function waitUntilSteady(page) {
  return waitForState(page, () => document.querySelector(".choices.unsteady") === null);
}
