// The switch for notifications of this browser, also while its page is closed (Web Push).

import { subscribeToPush, unsubscribeFromPush } from "./api.js";
import { element, showText } from "./dom.js";

const SCRIPT = "/web/service_worker.js";
const SCOPE = "/web/";

/** Returns the bytes of a text in base64url. */
function decodeBase64Url(text) {
  const binary = atob(text.replaceAll("-", "+").replaceAll("_", "/"));
  return Uint8Array.from(binary, (char) => char.charCodeAt(0));
}

function isSupported() {
  return isSecureContext && "serviceWorker" in navigator && "PushManager" in window;
}

/** Returns true if a subscription was made with this key of a server. */
function hasKey(subscription, key) {
  const used = new Uint8Array(subscription.options.applicationServerKey ?? []);
  return used.length === key.length && used.every((byte, index) => byte === key[index]);
}

/** Turns notifications on and off. The server needs the subscription again after each login. */
export class NotificationSwitch {
  #key;
  #subscription = null;
  #button = element("button", { type: "button", onclick: () => this.#toggle() });
  #problem = element("p", { class: "problem", role: "alert", hidden: true });

  /** `key` is the server's public key; null if the server cannot notify browsers. */
  constructor(key) {
    this.#key = key === null ? null : decodeBase64Url(key);
    this.element = element("div", { class: "notifications", hidden: true }, this.#button, this.#problem);
  }

  /** Shows the switch, if this browser can be notified. */
  async show() {
    if (this.#key === null || !isSupported()) {
      return;
    }
    const registration = await navigator.serviceWorker.getRegistration(SCOPE);
    const subscription = (await registration?.pushManager.getSubscription()) ?? null;
    if (subscription !== null && hasKey(subscription, this.#key)) {
      await this.#attempt(() => this.#store(subscription));
    }
    this.#render();
    this.element.hidden = false;
  }

  async #toggle() {
    this.#button.disabled = true;
    await this.#attempt(() => (this.#subscription === null ? this.#turnOn() : this.#turnOff()));
    this.#button.disabled = false;
    this.#render();
  }

  async #turnOn() {
    if ((await Notification.requestPermission()) !== "granted") {
      throw new Error("allow notifications of this page in the browser's settings");
    }
    await navigator.serviceWorker.register(SCRIPT, { scope: SCOPE });
    const { pushManager } = await navigator.serviceWorker.ready;
    const old = await pushManager.getSubscription();
    if (old !== null && !hasKey(old, this.#key)) {
      await old.unsubscribe();
    }
    await this.#store(await pushManager.subscribe({ userVisibleOnly: true, applicationServerKey: this.#key }));
  }

  async #turnOff() {
    await unsubscribeFromPush();
    await this.#subscription.unsubscribe();
    this.#subscription = null;
  }

  async #store(subscription) {
    await subscribeToPush(subscription.toJSON());
    this.#subscription = subscription;
  }

  async #attempt(change) {
    showText(this.#problem, "");
    try {
      await change();
    } catch (error) {
      showText(this.#problem, `Notifications were not changed: ${error.text ?? error.message}`);
    }
  }

  #render() {
    showText(this.#button, this.#subscription === null ? "Notify this browser" : "Stop notifications");
  }
}
