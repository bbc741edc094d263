// A network between a browser and a server, which scripts break. Like real ones, it breaks in two ways: connections end, or nothing
// arrives any more.

import { connect, createServer } from "node:net";

/** Forwards connections to a server on loopback. */
export class Network {
  #port;
  #server = createServer((client) => this.#accept(client));
  #isCut = false;
  #sockets = new Set();

  /** Listens on a free port. */
  static async to(port) {
    const network = new Network();
    network.#port = port;
    await new Promise((resolve) => network.#server.listen(0, "127.0.0.1", resolve));
    return network;
  }

  /** Returns an address of the server as the browser reaches it over this network. */
  address(url) {
    const through = new URL(url);
    through.port = this.#server.address().port;
    return through.href;
  }

  /** Ends all connections, and refuses new ones until it is restored. */
  cut() {
    this.#isCut = true;
    this.#sockets.forEach((socket) => socket.destroy());
  }

  restore() {
    this.#isCut = false;
  }

  /** Loses all that is sent over the connections that are open, as after a sleep: neither side learns of it. */
  lose() {
    this.#sockets.forEach((socket) => {
      socket.unpipe();
      socket.resume();
    });
  }

  close() {
    this.cut();
    this.#server.close();
  }

  #accept(client) {
    if (this.#isCut) {
      client.destroy();
      return;
    }
    const server = connect(this.#port, "127.0.0.1");
    for (const [socket, other] of [[client, server], [server, client]]) {
      this.#sockets.add(socket);
      socket.pipe(other);
      socket.on("error", () => {});
      socket.on("close", () => {
        this.#sockets.delete(socket);
        other.destroy();
      });
    }
  }
}
