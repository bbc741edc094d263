// Delays between attempts.

const FIRST_DELAY = 250;
const LAST_DELAY = 5000;

/** Returns the delay after this number of failures in milliseconds. Pages that failed together do not retry together. */
export function retryDelay(failures) {
  return Math.min(LAST_DELAY, FIRST_DELAY * 2 ** failures) * (0.5 + Math.random() / 2);
}

/** Returns true if a request that failed with this error fails again: the session has ended, or what it names is gone. */
export function isFinal(error) {
  return [401, 404].includes(error.status);
}
