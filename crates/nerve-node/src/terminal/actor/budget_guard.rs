//! Enforces the budget of a node and its session: interrupts the agent at a limit, and blocks the node.

use std::time::Duration;

use nerve_agent::driver::{AgentState, Evidence, Source};
use nerve_api::value::BlockKind;
use nerve_host::backend::Backend;
use nerve_types::TsNs;

use super::Actor;
use crate::cancellation::INTERRUPT_RETRY;
use crate::error::{EngineError, ErrorKind};
use crate::response::Response;
use crate::usage_ledger::{LedgerRecord, ReachedLimit, UsageLedger, WorkSpan};

/// Time that an agent has to end its turn by itself: the response that reached the limit may be the last one.
const INTERRUPT_DELAY: Duration = Duration::from_millis(500);
/// Maximum number of doublings of [`INTERRUPT_RETRY`].
const MAX_DOUBLINGS: u32 = 5;
/// Working time after which the usage is stored although nothing else has changed.
const STORE_INTERVAL: Duration = Duration::from_secs(10);

/// Meters the working time of a node, and tracks the reached limit and the interrupts.
pub(super) struct BudgetGuard {
    ledger: UsageLedger,
    /// Counts working time while the agent is busy.
    work: Option<WorkSpan>,
    reached: Option<ReachedLimit>,
    /// The state of the node while a limit is reached and its agent is ready.
    block: AgentState,
    /// Time of the next check of a time limit.
    due: Option<TsNs>,
    /// The last turn that was interrupted at a limit, and its error.
    interrupted: Option<(u64, EngineError)>,
    next_interrupt: Option<TsNs>,
    /// Number of interrupts since the limit was reached.
    interrupts: u32,
    /// The record that was stored last.
    stored: LedgerRecord,
}

impl BudgetGuard {
    /// `is_remembered`: the host of the node has a record.
    pub(super) fn new(ledger: UsageLedger, is_remembered: bool) -> BudgetGuard {
        BudgetGuard {
            stored: if is_remembered { ledger.record() } else { LedgerRecord::default() },
            ledger,
            work: None,
            reached: None,
            block: AgentState::Ready,
            due: None,
            interrupted: None,
            next_interrupt: None,
            interrupts: 0,
        }
    }

    /// Returns the time of the next check.
    pub(super) fn deadline(&self) -> Option<TsNs> {
        self.due.into_iter().chain(self.next_interrupt).min()
    }

    /// Returns the record if it has to be stored. Once a record is stored, it is kept up to date even without limits.
    fn take_record(&mut self) -> Option<&LedgerRecord> {
        let record = self.ledger.record();
        if !self.ledger.is_limited() && self.stored == LedgerRecord::default() {
            return None;
        }
        let mut comparable = record.clone();
        let (now, then) = (record.usage.time_ms, self.stored.usage.time_ms);
        if self.work.is_some() && Duration::from_millis(now.saturating_sub(then)) < STORE_INTERVAL {
            comparable.usage.time_ms = then;
        }
        if comparable == self.stored {
            return None;
        }
        self.stored = record;
        Some(&self.stored)
    }

    /// Reads the ledger again.
    fn refresh(&mut self, now: TsNs) {
        self.reached = self.ledger.reached();
        let left = self.ledger.time_left().filter(|_| self.reached.is_none());
        let stores = self.work.is_some() && self.ledger.is_limited();
        let store = stores.then_some(STORE_INTERVAL);
        self.due = left.into_iter().chain(store).min().map(|left| now + left + Duration::from_millis(1));
        if let Some(reached) = &self.reached {
            self.block = AgentState::Blocked { kind: BlockKind::Budget, choices: reached.choices() };
        }
    }
}

impl<B: Backend> Actor<B> {
    /// Returns the state of the node: that of its agent, or blocked if the agent is ready and a limit is reached.
    pub(super) fn state(&self) -> &AgentState {
        match self.driver.state() {
            AgentState::Ready if self.is_blocked_by_budget() => &self.budget.block,
            state => state,
        }
    }

    /// Returns true if a limit is reached and no turn is in progress. During a turn, its prompt may not be typed yet.
    fn is_blocked_by_budget(&self) -> bool {
        self.budget.reached.is_some() && self.turns.active().is_none()
    }

    /// Returns the evidence for [`Actor::state`].
    pub(super) fn evidence(&self) -> Evidence {
        let evidence = self.driver.evidence();
        match &self.budget.reached {
            Some(reached) if self.is_blocked_by_budget() && *self.driver.state() == AgentState::Ready => {
                Evidence { source: Source::Budget, text: reached.reason.as_str().into(), ..evidence.clone() }
            }
            _ => evidence.clone(),
        }
    }

    /// Starts or stops to count working time after a change of the agent's state.
    pub(super) fn meter_work(&mut self) {
        let is_busy = *self.driver.state() == AgentState::Busy && !self.lifecycle.is_replaying();
        if is_busy != self.budget.work.is_some() {
            self.budget.work = is_busy.then(|| self.budget.ledger.begin_work());
            self.check_budget();
        }
    }

    /// Reads the ledger, and interrupts the agent if it works although a limit is reached.
    pub(super) fn check_budget(&mut self) {
        let now = self.clock.now();
        self.budget.refresh(now);
        if let Some(record) = self.budget.take_record() {
            self.link.remember_budget(record);
        }
        self.interrupt_over_budget(now);
    }

    /// Interrupts the agent if it works over a limit, and again if it ignores that.
    pub(super) fn interrupt_over_budget(&mut self, now: TsNs) {
        if !self.is_working_over_limit() {
            (self.budget.next_interrupt, self.budget.interrupts) = (None, 0);
            return;
        }
        let next = *self.budget.next_interrupt.get_or_insert(now + INTERRUPT_DELAY);
        if next > now {
            return;
        }
        // A key must not reach a dialog that was just drawn.
        self.observe(now);
        if self.is_working_over_limit() {
            let (error, turn) = (self.budget_error(), self.turns.active().map(|active| active.number));
            self.budget.interrupted = turn.zip(error).or(self.budget.interrupted.take());
            let retry = INTERRUPT_RETRY * 2_u32.pow(self.budget.interrupts.min(MAX_DOUBLINGS));
            self.budget.next_interrupt = Some(now + retry);
            self.budget.interrupts += 1;
            self.interrupt_program(now);
        }
    }

    fn is_working_over_limit(&self) -> bool {
        let is_over = self.budget.reached.is_some() && self.lifecycle.takes_requests();
        is_over && !self.lifecycle.is_replaying() && *self.driver.state() == AgentState::Busy
    }

    /// Stores the usage before another server takes over.
    pub(super) fn store_usage(&mut self) {
        self.budget.work = None;
        self.check_budget();
    }

    /// Returns the error of a turn that ends incomplete, if it was interrupted at a limit.
    pub(super) fn interrupted_error(&mut self, response: &Response) -> Option<EngineError> {
        let (_, mut error) = self.budget.interrupted.take_if(|(turn, _)| *turn == response.turn)?;
        error.delivery = Some(response.delivery);
        (response.is_interrupted() || !response.is_complete).then_some(error)
    }

    /// Returns the error of prompts that fail at a limit without a question.
    pub(super) fn budget_exceeded_error(&self) -> Option<EngineError> {
        self.budget_error().filter(|error| error.kind == ErrorKind::Budget)
    }

    /// Returns the error of prompts while a limit is reached.
    pub(super) fn budget_error(&self) -> Option<EngineError> {
        self.budget.reached.as_ref().map(|reached| reached.error(&self.spec.node))
    }

    /// Returns the reached limit.
    pub(super) fn reached_limit(&self) -> Option<&ReachedLimit> {
        self.budget.reached.as_ref()
    }

    /// Applies the answer to the budget dialog.
    pub(super) fn answer_budget(&mut self, picked: Option<usize>) {
        self.budget.ledger.answer(picked);
        self.check_budget();
    }
}
