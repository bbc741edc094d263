//! Stands in for the multiplexers whose feature is disabled. The modules have the interface of the real ones; every call fails.

use std::collections::VecDeque;
use std::io;
use std::time::Duration;

use nerve_host::backend::{Backend, BackendEvent, Memory, PaneError};
use nerve_types::{Foreground, Origin, Size, TsNs};
use rustix::process::Signal;

/// A pane of a multiplexer that this build does not support. It is lost from the start.
#[derive(Debug)]
pub struct UnsupportedPane(VecDeque<BackendEvent>);

impl UnsupportedPane {
    pub(crate) fn new(multiplexer: &'static str) -> UnsupportedPane {
        let reason = PaneError::NotBuilt(multiplexer).to_string();
        UnsupportedPane(VecDeque::from([BackendEvent::CaughtUp, BackendEvent::Lost(reason)]))
    }
}

impl Backend for UnsupportedPane {
    async fn next(&mut self) -> BackendEvent {
        match self.0.pop_front() {
            Some(event) => event,
            None => std::future::pending().await,
        }
    }

    fn output(&self) -> &[u8] {
        &[]
    }

    fn write(&mut self, _: TsNs, _: &[u8], _: Origin) -> bool {
        false
    }

    fn queued_input(&self) -> usize {
        0
    }

    fn resize(&mut self, _: TsNs, _: Size) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn signal(&self, _: Signal) {}

    fn foreground(&self, _: bool, _: &[String]) -> Foreground {
        Foreground::Unknown
    }

    fn hides_input(&self) -> bool {
        false
    }

    fn remember(&mut self, _: &Memory) {}

    fn drain_time(&self) -> Duration {
        Duration::ZERO
    }

    fn pid(&self) -> Option<i32> {
        None
    }

    fn release(&mut self) -> bool {
        true
    }
}
