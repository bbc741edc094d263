//! A network between a machine and the broker: a relay of TCP on loopback that can be interrupted.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use nerve_testkit::harness::Broker;

/// Number of bytes that the network carries at a time.
const PACKET: usize = 16 * 1024;

/// The network. Ends on drop.
pub(crate) struct Relay {
    address: SocketAddr,
    is_cut: watch::Sender<bool>,
    accepting: JoinHandle<()>,
}

impl Relay {
    /// Starts the network. `delay`: time that each packet of the broker needs.
    pub(crate) async fn start(broker: &Broker, delay: Duration) -> Relay {
        let target = broker.url().replace("nats://", "");
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (is_cut, cut) = watch::channel(false);
        let accepting = tokio::spawn(async move {
            loop {
                let (client, _) = listener.accept().await.unwrap();
                // The broker may be down: then the client's connection closes.
                let Ok(server) = TcpStream::connect(&target).await else { continue };
                let ((from_client, to_client), (from_server, to_server)) =
                    (client.into_split(), server.into_split());
                tokio::spawn(forward(from_client, to_server, cut.clone(), Duration::ZERO));
                tokio::spawn(forward(from_server, to_client, cut.clone(), delay));
            }
        });
        Relay { address, is_cut, accepting }
    }

    /// Returns the URL of the broker for the machine.
    pub(crate) fn url(&self) -> String {
        format!("nats://{}", self.address)
    }

    /// Interrupts the network. Connections stay, and nothing arrives.
    pub(crate) fn cut(&self) {
        self.is_cut.send_replace(true);
    }

    /// Ends the interruption. What was sent meanwhile arrives, as TCP sends it again.
    pub(crate) fn mend(&self) {
        self.is_cut.send_replace(false);
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

/// Carries bytes in one direction until an end closes its connection.
async fn forward(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    mut cut: watch::Receiver<bool>,
    delay: Duration,
) {
    let mut packet = vec![0; PACKET];
    while let Ok(count @ 1..) = from.read(&mut packet).await {
        if !delay.is_zero() {
            sleep(delay).await;
        }
        if cut.wait_for(|is_cut| !is_cut).await.is_err() || to.write_all(&packet[..count]).await.is_err() {
            return;
        }
    }
}
