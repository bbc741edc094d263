// Measures the web console in a real browser, and prints a JSON object per figure:
//
// node measure.mjs MODULES CHROMIUM LINK FOLDER, with NERVE_PROGRAM and NERVE_SERVER_PID. LINK names the server; its code is not used.

import { measureEcho } from "./echo.mjs";
import { measureFirstPaint } from "./first_paint.mjs";
import { measureFlood } from "./flood.mjs";
import { endBrowsers, startBrowser } from "./harness.mjs";
import { measureList } from "./list.mjs";
import { measureReconnects } from "./reconnects.mjs";

const MEASURES = { firstPaint: measureFirstPaint, echo: measureEcho, flood: measureFlood, list: measureList, reconnects: measureReconnects };
const wanted = process.env.NERVE_BENCH_ONLY?.split(",") ?? Object.keys(MEASURES);

try {
  const browser = await startBrowser();
  for (const name of wanted) {
    console.error(`web: ${name}`);
    await MEASURES[name](browser);
  }
} finally {
  await endBrowsers();
}
