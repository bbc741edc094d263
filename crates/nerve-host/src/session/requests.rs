//! Handles the requests of clients.

use std::time::Duration;

use nerve_types::{Origin, Size};
use tokio::net::UnixStream;
use tokio::time::Instant;

use super::super::protocol::{self, Hello, HostEvent, HostRequest, Window};
use super::Session;
use crate::reader::ClientEvent;

/// Time that a connecting client waits for the recorder.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(1);

impl Session {
    pub(super) fn on_connect(&mut self, stream: UnixStream, is_internal: bool) {
        if let Some(client) = self.clients.add(stream, is_internal) {
            self.send_with_recorded(client, ClientEvent::Greet);
        }
    }

    /// Sends `event` with the number of recorded bytes to the event loop, once the recorder has flushed.
    fn send_with_recorded(&self, client: u64, event: fn(Option<u64>) -> ClientEvent) {
        let (events, flusher) = (self.clients.event_sender(), self.flusher.clone());
        tokio::spawn(async move {
            let recorded = match flusher {
                // A hanging disk must not block access to the terminal.
                Some(flusher) => match tokio::time::timeout(FLUSH_TIMEOUT, flusher.flush(false)).await {
                    Ok(Ok(written)) => Some(written.off),
                    Ok(Err(_)) | Err(_) => None,
                },
                None => None,
            };
            // Fails only when the host has ended.
            let _ = events.send((client, event(recorded))).await;
        });
    }

    pub(super) fn on_client_event(&mut self, client: u64, event: ClientEvent) {
        match event {
            ClientEvent::Request(request) => self.on_request(client, request),
            ClientEvent::Greet(recorded) => self.greet(client, recorded),
            ClientEvent::Behind(recorded) => {
                self.clients.send(client, &HostEvent::Behind { recorded }.to_bytes())
            }
            ClientEvent::NotRestored(error) => {
                self.add_fault(format!("cannot restore the recording: {error}"))
            }
            ClientEvent::Disconnected => self.on_disconnect(client),
        }
    }

    fn on_request(&mut self, client: u64, request: HostRequest) {
        match request {
            HostRequest::Subscribe { off, allow_gap } => self.subscribe(client, off, allow_gap),
            HostRequest::Input { origin, bytes } => self.write_input(client, origin, &bytes),
            HostRequest::Resize(size) => match self.size_policy.viewers_size() {
                // The windows of viewers determine the size. The requester still gets an answer.
                Some(_) => self.clients.broadcast(&HostEvent::Resized(self.size)),
                None => {
                    self.size_policy.set_own(size);
                    self.resize(size);
                }
            },
            HostRequest::View(window) => self.set_window(client, window),
            HostRequest::Stop => self.stop(),
            HostRequest::AckExit => self.exit_ack.on_acknowledge(),
            HostRequest::Remember(memory) => {
                self.was_typed = false;
                if let Err(error) = self.metadata.remember(memory) {
                    self.add_fault(format!("cannot write the host's entry: {error}"));
                }
            }
        }
    }

    fn write_input(&mut self, client: u64, origin: Origin, bytes: &[u8]) {
        // Replies of a terminal are neither hidden nor typed by a person.
        let is_typed = origin != Origin::Terminal;
        // The program may turn the echo on again once it has read the input.
        let hidden = is_typed && self.pty.control.hides_input();
        if self.lifecycle.is_output_open() && self.pty.input.push(bytes) {
            self.pump.input(self.clock.now(), bytes, origin, hidden);
            if is_typed {
                self.was_typed = true;
                self.clients.broadcast_except(client, &HostEvent::Typed { origin });
            }
        }
    }

    /// Stops the program.
    pub(super) fn stop(&mut self) {
        self.exit_ack.on_stop();
        self.lifecycle.begin_stop(Instant::now());
    }

    fn set_window(&mut self, client: u64, window: Window) {
        match self.clients.make_viewer(client) {
            Ok(true) => {
                self.size_policy.set(client, window);
                self.apply_size_policy();
                self.note_viewer(client);
            }
            // A disconnected viewer reconnects.
            Ok(false) => {}
            Err(message) => {
                self.clients.send(client, &HostEvent::Full(message).to_bytes());
                self.on_disconnect(client);
            }
        }
    }

    /// Reports a viewer as connected once it has subscribed; before that it reads the recording.
    fn note_viewer(&mut self, client: u64) {
        if self.clients.is_viewer(client) && self.clients.is_subscribed(client) {
            self.exit_ack.on_viewer_connected();
        }
    }

    pub(super) fn on_disconnect(&mut self, client: u64) {
        if self.clients.is_viewer(client) {
            self.exit_ack.on_viewer_connected();
        }
        self.clients.remove(client);
        self.size_policy.remove(client);
        self.apply_size_policy();
    }

    /// Resizes the terminal as the size policy requires.
    fn apply_size_policy(&mut self) {
        // After the end of the program its last screen stays as it is.
        let is_wanted = self.lifecycle.is_output_open() || self.size_policy.viewers_size().is_some();
        let size = self.size_policy.size(self.size);
        if is_wanted && size != self.size {
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
            // The program has ended and closed its terminal.
            Err(_) if !self.lifecycle.is_output_open() => {}
            Err(error) => self.add_fault(format!("cannot resize the terminal: {error}")),
        }
        self.clients.broadcast(&HostEvent::Resized(self.size));
    }

    fn greet(&mut self, client: u64, recorded: Option<u64>) {
        let hello = Hello {
            version: protocol::VERSION,
            child: self.metadata.child_pid(),
            cols: self.size.cols,
            rows: self.size.rows,
            off: self.pump.offset(),
            oldest: self.backlog.oldest,
            recorded,
            recording: self.spec.recording.clone(),
            faults: self.faults.newest(),
            total_faults: self.faults.total(),
            label: self.spec.label.clone(),
            was_typed: self.was_typed,
        };
        match self.pty.control.descriptor() {
            Ok(terminal) => self.clients.greet(client, &HostEvent::Hello(Box::new(hello)), terminal),
            // Out of descriptors: the client has to retry.
            Err(_) => self.clients.remove(client),
        }
    }

    fn subscribe(&mut self, client: u64, off: u64, allow_gap: bool) {
        if off < self.backlog.oldest && !allow_gap {
            return self.send_with_recorded(client, ClientEvent::Behind);
        }
        let from = off.clamp(self.backlog.oldest, self.pump.offset());
        let mut frames = self.backlog.frames_since(from, self.clock.now());
        if let Some(exit) = self.lifecycle.exit() {
            HostEvent::Exited(exit).encode(&mut frames);
        }
        self.clients.send(client, &frames);
        self.clients.subscribe(client);
        self.exit_ack.on_subscribe();
        self.note_viewer(client);
    }
}
