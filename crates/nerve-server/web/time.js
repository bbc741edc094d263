// Ages, times and durations for display.

/** Difference of the clocks up to which they count as equal, in milliseconds: servers report full seconds, a moment ago. */
const CLOCK_TOLERANCE = 5000;

/** Time of the server's clock minus that of this browser, in milliseconds. */
let clockDifference = 0;

/** Sets the server's time from the header `Date` of a reply: the clock of a phone or of a server may be wrong. */
export function setServerTime(date) {
  const difference = Date.parse(date) - Date.now();
  if (!Number.isNaN(difference)) {
    clockDifference = Math.abs(difference) > CLOCK_TOLERANCE ? difference : 0;
  }
}

/** Returns the current time of the server in milliseconds. */
export function serverNow() {
  return Date.now() + clockDifference;
}

/** Returns the time since `since`, a time of the server, in its largest unit, such as "3 min". */
export function formatAge(since, now = serverNow()) {
  return formatDuration(now - since);
}

/** Returns a number of milliseconds in its largest unit, such as "3 min". */
export function formatDuration(milliseconds) {
  const seconds = Math.max(0, Math.floor(milliseconds / 1000));
  if (seconds < 60) {
    return `${seconds} s`;
  }
  if (seconds < 3600) {
    return `${Math.floor(seconds / 60)} min`;
  }
  if (seconds < 48 * 3600) {
    return `${Math.floor(seconds / 3600)} h`;
  }
  return `${Math.floor(seconds / 86400)} d`;
}

/** Returns a position in a recording in milliseconds as "1:02:03" or "2:03". */
export function formatPosition(milliseconds) {
  const seconds = Math.max(0, Math.floor(milliseconds / 1000));
  const pad = (number) => String(number).padStart(2, "0");
  const [hours, minutes] = [Math.floor(seconds / 3600), Math.floor(seconds / 60) % 60];
  return hours > 0 ? `${hours}:${pad(minutes)}:${pad(seconds % 60)}` : `${minutes}:${pad(seconds % 60)}`;
}

/** Returns a time (RFC 3339) in the browser's time zone, with the date unless it is today. */
export function formatTime(text, now = new Date()) {
  const time = new Date(text);
  const clock = time.toLocaleTimeString("en-GB");
  const pad = (number) => String(number).padStart(2, "0");
  const date = `${time.getFullYear()}-${pad(time.getMonth() + 1)}-${pad(time.getDate())}`;
  return time.toDateString() === now.toDateString() ? clock : `${date} ${clock}`;
}
