//! What those who are connected order, and what they are told.

use std::time::Duration;

use nerve_term::event::{Origin, Size};
use tokio::net::UnixStream;
use tokio::time::Instant;

use super::super::clients::Heard;
use super::super::protocol::{self, Hello, HostEvent, HostRequest, Window};
use super::Session;

/// How long somebody who connects waits for the disk.
const DISK_PATIENCE: Duration = Duration::from_secs(1);

impl Session {
    pub(super) fn connected(&mut self, stream: UnixStream, inside: bool) {
        if let Some(link) = self.links.add(stream, inside) {
            self.with_written(link, Heard::Greet);
        }
    }

    /// Asks the recorder how much is in the file, and comes back with it as an order.
    fn with_written(&self, link: u64, then: fn(Option<u64>) -> Heard) {
        let (heard, flusher) = (self.links.heard(), self.flusher.clone());
        tokio::spawn(async move {
            let written = match flusher {
                // A disk that hangs must not keep anybody from the terminal.
                Some(flusher) => match tokio::time::timeout(DISK_PATIENCE, flusher.flush(false)).await {
                    Ok(Ok(written)) => Some(written.off),
                    Ok(Err(_)) | Err(_) => None,
                },
                None => None,
            };
            // A host that is over answers nobody.
            let _ = heard.send((link, then(written))).await;
        });
    }

    pub(super) fn heard(&mut self, link: u64, heard: Heard) {
        match heard {
            Heard::HostRequest(request) => self.requested(link, request),
            Heard::Greet(recorded) => self.greet(link, recorded),
            Heard::Behind(recorded) => self.links.send(link, &HostEvent::Behind { recorded }.encoded()),
            Heard::Gone => self.gone(link),
        }
    }

    fn requested(&mut self, link: u64, request: HostRequest) {
        match request {
            HostRequest::Subscribe { off, allow_gap } => self.listen_from(link, off, allow_gap),
            HostRequest::Input { origin, bytes } => self.input(link, origin, &bytes),
            HostRequest::Resize(size) => match self.windows.size() {
                // Somebody looks: their windows count. Whoever waits for an answer gets it.
                Some(_) => self.links.tell(&HostEvent::Resized(self.size)),
                None => self.resize(size),
            },
            HostRequest::View(window) => self.view(link, window),
            HostRequest::Stop => self.stop(),
            HostRequest::AckExit => self.witness.saw(),
            HostRequest::Remember(memory) => {
                if let Err(error) = self.notes.remember(memory) {
                    self.fault(format!("the host's entry cannot be written: {error}"));
                }
            }
        }
    }

    fn input(&mut self, link: u64, origin: Origin, bytes: &[u8]) {
        if self.life.is_open() && self.pty.input.push(bytes) {
            // What the terminal itself answers is never typed unseen, and nobody's typing.
            let typed = origin != Origin::Terminal;
            let hidden = typed && self.pty.control.hides_input();
            self.pump.input(self.clock.now(), bytes, origin, hidden);
            if typed {
                self.links.tell_others(link, &HostEvent::Typed { origin });
            }
        }
    }

    /// The program is to end.
    pub(super) fn stop(&mut self) {
        self.witness.stopped();
        self.life.stop(Instant::now());
    }

    fn view(&mut self, link: u64, window: Window) {
        match self.links.make_viewer(link) {
            Ok(true) => {
                self.windows.set(link, window);
                self.fit();
                self.look_for_viewer(link);
            }
            // One that was cut off comes again on another connection.
            Ok(false) => {}
            Err(full) => {
                self.links.send(link, &HostEvent::Full(full).encoded());
                self.gone(link);
            }
        }
    }

    /// A viewer has come when it listens: until then it reads what was before.
    fn look_for_viewer(&mut self, link: u64) {
        if self.links.is_viewer(link) && self.links.is_live(link) {
            self.witness.viewer_came();
        }
    }

    pub(super) fn gone(&mut self, link: u64) {
        if self.links.is_viewer(link) {
            self.witness.viewer_came();
        }
        self.links.remove(link);
        self.windows.forget(link);
        self.fit();
    }

    /// Gives the terminal the size that those who look want. When nobody does any more, it stays as it is.
    fn fit(&mut self) {
        if let Some(size) = self.windows.size().filter(|size| *size != self.size) {
            self.resize(size);
        }
    }

    fn resize(&mut self, size: Size) {
        match self.pty.control.resize(size) {
            Ok(()) => {
                self.size = size;
                self.pump.resize(self.clock.now(), size);
                self.backlog.mark(HostEvent::Resized(size));
            }
            // The program has ended, and its terminal with it.
            Err(_) if !self.life.is_open() => {}
            Err(error) => self.fault(format!("the terminal takes no other size: {error}")),
        }
        self.links.tell(&HostEvent::Resized(self.size));
    }

    fn greet(&mut self, link: u64, recorded: Option<u64>) {
        let hello = Hello {
            version: protocol::VERSION,
            child: self.notes.child(),
            cols: self.size.cols,
            rows: self.size.rows,
            off: self.pump.offset(),
            oldest: self.backlog.oldest,
            recorded,
            recording: self.spec.recording.clone(),
            faults: self.faults.clone(),
            label: self.spec.label.clone(),
        };
        match self.pty.control.descriptor() {
            Ok(terminal) => self.links.greet(link, &HostEvent::Hello(Box::new(hello)), terminal),
            // Out of descriptors: whoever wants in tries again.
            Err(_) => self.links.remove(link),
        }
    }

    fn listen_from(&mut self, link: u64, off: u64, allow_gap: bool) {
        if off < self.backlog.oldest && !allow_gap {
            return self.with_written(link, Heard::Behind);
        }
        let from = off.clamp(self.backlog.oldest, self.pump.offset());
        let mut frames = self.backlog.frames_since(from, self.clock.now());
        if let Some(exit) = self.life.exit() {
            HostEvent::Exited(exit).encode(&mut frames);
        }
        self.links.send(link, &frames);
        self.links.make_live(link);
        self.witness.listens();
        self.look_for_viewer(link);
    }
}
