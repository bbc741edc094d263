//! The callers that wait for a change of the terminal.

use nerve_types::{Size, TsNs};
use tokio::sync::oneshot;

use super::request::DialogReply;
use crate::error::EngineError;

/// The callers that wait for a dialog to close, for a resize to be confirmed, or for an interrupt to take effect.
#[derive(Debug, Default)]
pub(super) struct Waiters {
    dialog: Option<DialogReply>,
    resizes: Vec<ResizeWaiter>,
    interrupts: Vec<InterruptWaiter>,
}

/// A caller that waits for the confirmation of a size.
#[derive(Debug)]
struct ResizeWaiter {
    size: Size,
    deadline: TsNs,
    reply: oneshot::Sender<Result<(), EngineError>>,
}

/// A caller that waits for an interrupt to take effect.
#[derive(Debug)]
struct InterruptWaiter {
    /// Number of the interrupted turn.
    turn: Option<u64>,
    deadline: TsNs,
    reply: oneshot::Sender<Result<(), EngineError>>,
}

impl InterruptWaiter {
    /// Returns true if the interrupted turn ended; without one, if the program is not busy. The next turn may have begun already.
    fn is_done(&self, turn: Option<u64>, is_busy: bool) -> bool {
        if turn.is_some() { self.turn != turn } else { !is_busy }
    }
}

impl Waiters {
    /// Returns true if a caller waits for a dialog to close.
    pub(super) fn has_dialog(&self) -> bool {
        self.dialog.is_some()
    }

    /// Adds the caller that waits for a dialog to close.
    pub(super) fn add_dialog(&mut self, reply: DialogReply) {
        self.dialog = Some(reply);
    }

    /// Removes the caller that waits for a dialog to close.
    pub(super) fn take_dialog(&mut self) -> Option<DialogReply> {
        self.dialog.take()
    }

    /// Adds a caller that waits for the confirmation of a size.
    pub(super) fn add_resize(
        &mut self,
        size: Size,
        deadline: TsNs,
        reply: oneshot::Sender<Result<(), EngineError>>,
    ) {
        self.resizes.push(ResizeWaiter { size, deadline, reply });
    }

    /// Adds a caller that waits for an interrupt of the turn to take effect.
    pub(super) fn add_interrupt(
        &mut self,
        turn: Option<u64>,
        deadline: TsNs,
        reply: oneshot::Sender<Result<(), EngineError>>,
    ) {
        self.interrupts.push(InterruptWaiter { turn, deadline, reply });
    }

    /// Returns when the first interrupt or resize times out.
    pub(super) fn deadline(&self) -> Option<TsNs> {
        let interrupts = self.interrupts.iter().map(|waiter| waiter.deadline);
        interrupts.chain(self.resizes.iter().map(|waiter| waiter.deadline)).min()
    }

    /// Answers the callers whose interrupt took effect.
    pub(super) fn finish_interrupts(&mut self, turn: Option<u64>, is_busy: bool) {
        for waiter in self.interrupts.extract_if(.., |waiter| waiter.is_done(turn, is_busy)) {
            let _ = waiter.reply.send(Ok(()));
        }
    }

    /// Fails the callers whose interrupt did not take effect in time.
    pub(super) fn expire_interrupts(&mut self, now: TsNs, error: impl Fn() -> EngineError) {
        for waiter in self.interrupts.extract_if(.., |waiter| waiter.deadline <= now) {
            let _ = waiter.reply.send(Err(error()));
        }
    }

    /// Fails the callers whose size was not confirmed in time.
    pub(super) fn expire_resizes(&mut self, now: TsNs, error: impl Fn() -> EngineError) {
        for waiter in self.resizes.extract_if(.., |waiter| waiter.deadline <= now) {
            let _ = waiter.reply.send(Err(error()));
        }
    }

    /// Answers all callers that wait for the confirmation of a size, by the size that each requested.
    pub(super) fn finish_resizes(&mut self, answer: impl Fn(Size) -> Result<(), EngineError>) {
        for waiter in self.resizes.drain(..) {
            let _ = waiter.reply.send(answer(waiter.size));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;

    fn waiting(turn: Option<u64>) -> (Waiters, oneshot::Receiver<Result<(), EngineError>>) {
        let (reply, answer) = oneshot::channel();
        let mut waiters = Waiters::default();
        waiters.add_interrupt(turn, TsNs(9), reply);
        (waiters, answer)
    }

    #[test]
    fn interrupt_is_done_when_its_turn_ended() {
        let (mut waiters, mut answer) = waiting(Some(3));
        waiters.finish_interrupts(Some(3), true);
        assert!(answer.try_recv().is_err(), "the turn is still running");
        waiters.finish_interrupts(Some(4), true);
        answer.try_recv().expect("the next turn runs").unwrap();
        let (mut waiters, mut answer) = waiting(None);
        waiters.finish_interrupts(None, true);
        assert!(answer.try_recv().is_err(), "the shell has not shown its prompt");
        waiters.finish_interrupts(None, false);
        answer.try_recv().unwrap().unwrap();
    }

    #[test]
    fn ignored_interrupt_times_out() {
        let (mut waiters, mut answer) = waiting(Some(1));
        assert_eq!(waiters.deadline(), Some(TsNs(9)));
        waiters.expire_interrupts(TsNs(8), || EngineError::timeout("late"));
        assert!(answer.try_recv().is_err());
        waiters.expire_interrupts(TsNs(9), || EngineError::timeout("late"));
        assert_eq!(answer.try_recv().unwrap().unwrap_err().kind, ErrorKind::Timeout);
        assert_eq!(waiters.deadline(), None);
    }

    #[test]
    fn unconfirmed_resize_times_out() {
        let (reply, mut answer) = oneshot::channel();
        let (mut waiters, _interrupt) = waiting(Some(1));
        waiters.add_resize(Size::new(9, 9), TsNs(5), reply);
        assert_eq!(waiters.deadline(), Some(TsNs(5)));
        waiters.expire_resizes(TsNs(4), || EngineError::timeout("late"));
        assert!(answer.try_recv().is_err());
        waiters.expire_resizes(TsNs(5), || EngineError::timeout("late"));
        assert_eq!(answer.try_recv().unwrap().unwrap_err().kind, ErrorKind::Timeout);
        assert_eq!(waiters.deadline(), Some(TsNs(9)));
    }
}
