//! Enforces the budget of a node and its session: interrupts the agent at a limit, and blocks the node.

use std::time::Duration;

use nerve_agent::driver::{AgentState, Evidence, Source};
use nerve_api::value::{BlockKind, Delivery};
use nerve_host::backend::Backend;
use nerve_types::TsNs;

use super::Actor;
use crate::error::{EngineError, ErrorKind};
use crate::usage_ledger::{ReachedLimit, UsageLedger, WorkSpan};

/// Time after which an agent that still works over a limit is interrupted again.
const INTERRUPT_RETRY: Duration = Duration::from_secs(3);
/// The second choice of the question for more.
const REFUSAL: &str = "Stop: accept no more prompts";

/// The reached limit of a node, if any.
pub(super) struct BudgetGuard {
    ledger: UsageLedger,
    /// Counts working time while the agent is busy.
    work: Option<WorkSpan>,
    reached: Option<ReachedLimit>,
    /// The state of the node while a limit is reached and its agent is ready.
    block: AgentState,
    /// Time of the next check of a time limit.
    due: Option<TsNs>,
    /// Number of the last turn that was interrupted at a limit.
    interrupted_turn: Option<u64>,
    next_interrupt: Option<TsNs>,
}

impl BudgetGuard {
    pub(super) fn new(ledger: UsageLedger) -> BudgetGuard {
        BudgetGuard {
            ledger,
            work: None,
            reached: None,
            block: AgentState::Ready,
            due: None,
            interrupted_turn: None,
            next_interrupt: None,
        }
    }

    /// Returns the time of the next check.
    pub(super) fn deadline(&self) -> Option<TsNs> {
        self.due.into_iter().chain(self.next_interrupt).min()
    }

    /// Reads the ledger again.
    fn refresh(&mut self, now: TsNs) {
        self.reached = self.ledger.reached();
        let left = self.ledger.time_left().filter(|_| self.reached.is_none());
        self.due = left.map(|left| now + left + Duration::from_millis(1));
        if let Some(reached) = &self.reached {
            let choices = reached.offer.iter().cloned().flat_map(|offer| [offer, REFUSAL.to_string()]);
            self.block = AgentState::Blocked { kind: BlockKind::Budget, choices: choices.collect() };
        }
    }
}

impl<B: Backend> Actor<B> {
    /// Returns the state of the node: that of its agent, or blocked if the agent is ready and a limit is reached.
    pub(super) fn state(&self) -> &AgentState {
        match self.driver.state() {
            AgentState::Ready if self.budget.reached.is_some() => &self.budget.block,
            state => state,
        }
    }

    /// Returns the evidence for [`Actor::state`].
    pub(super) fn evidence(&self) -> Evidence {
        let evidence = self.driver.evidence();
        match &self.budget.reached {
            Some(reached) if *self.driver.state() == AgentState::Ready => {
                Evidence { source: Source::Budget, text: reached.reason.as_str().into(), ..evidence.clone() }
            }
            _ => evidence.clone(),
        }
    }

    /// Starts or stops to count working time after a change of the agent's state.
    pub(super) fn meter_work(&mut self) {
        let is_busy = *self.driver.state() == AgentState::Busy;
        if is_busy != self.budget.work.is_some() {
            self.budget.work = is_busy.then(|| self.budget.ledger.begin_work());
            self.check_budget();
        }
    }

    /// Reads the ledger, and interrupts the agent if it works although a limit is reached.
    pub(super) fn check_budget(&mut self) {
        let now = self.clock.now();
        self.budget.refresh(now);
        if self.budget.ledger.is_limited() {
            self.link.remember_budget(&self.budget.ledger.record());
        }
        self.interrupt_over_budget(now);
    }

    /// Interrupts the agent if it works over a limit, and again if it ignores that.
    pub(super) fn interrupt_over_budget(&mut self, now: TsNs) {
        if self.budget.reached.is_none() || *self.driver.state() != AgentState::Busy {
            self.budget.next_interrupt = None;
        } else if self.budget.next_interrupt.is_none_or(|at| at <= now) {
            self.budget.interrupted_turn = self.turns.active().map(|active| active.number);
            self.budget.next_interrupt = Some(now + INTERRUPT_RETRY);
            self.interrupt_program(now);
        }
    }

    /// Returns the error of a turn that ends, if it was interrupted at a limit.
    pub(super) fn interrupted_error(&self, turn: u64) -> Option<EngineError> {
        let mut error = self.budget_error().filter(|_| self.budget.interrupted_turn == Some(turn))?;
        error.delivery = self.driver.turn().map(|(_, delivery)| delivery).or(Some(Delivery::Started));
        Some(error)
    }

    /// Returns the error of prompts if a limit is reached and more was refused.
    pub(super) fn budget_refusal(&self) -> Option<EngineError> {
        self.budget_error().filter(|error| error.kind == ErrorKind::Budget)
    }

    /// Returns the error of prompts while a limit is reached.
    pub(super) fn budget_error(&self) -> Option<EngineError> {
        let reached = self.budget.reached.as_ref()?;
        let node = &self.spec.node.node;
        let error = match (&reached.offer, &self.budget.block) {
            (Some(_), AgentState::Blocked { choices, .. }) => {
                let message = format!("node '{node}' is blocked (budget): {}", reached.reason);
                let mut error = EngineError::new(ErrorKind::Blocked, message);
                error.choices = choices.clone().into();
                error.hint("answer with `nerve answer`, or set other limits with `nerve budget`")
            }
            _ => EngineError::new(ErrorKind::Budget, format!("node '{node}': {}", reached.reason))
                .hint("set other limits with `nerve budget`"),
        };
        Some(error)
    }

    /// Applies the answer to the question for more.
    pub(super) fn answer_budget(&mut self, picked: Option<usize>) {
        match picked {
            Some(0) => self.budget.ledger.extend(),
            _ => self.budget.ledger.close(),
        }
        self.check_budget();
    }
}
