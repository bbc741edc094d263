//! When and how often a step runs: its condition, the items of a list, the rounds of a loop; and a budget of its own.

use futures_util::stream::{FuturesUnordered, StreamExt};
use serde_json::{Map, Value};
use tokio::task::coop::{consume_budget, unconstrained};

use super::step_run::{Doing, facts};
use super::event::{How, StepEventKind};
use super::step::{Flow, ForEach, Scope, Until};
use crate::cancellation::cancelled;
use crate::context::ExecutionContext;
use crate::error::{EngineError, ErrorKind};

impl Doing<'_> {
    /// A step with a budget of its own: not begun, and ended in the middle, when that is used up.
    pub(super) async fn within_budget(&self, flow: Option<&Flow>) -> Result<Value, EngineError> {
        let pool = self.context.pool();
        pool.check_own(true).map_err(|error| self.refused(&self.context, error))?;
        let work = async {
            match flow {
                None => self.leaf(self.scope(), &self.context).await,
                Some(flow) => self.flow(flow).await,
            }
        };
        tokio::pin!(work);
        let value = match pool.own_deadline() {
            None => work.await?,
            Some(at) => tokio::select! {
                biased;
                value = &mut work => value?,
                () = unconstrained(tokio::time::sleep_until(at)) => {
                    self.context.cancellation().cancel();
                    // It is given the time to end; what it says is too late.
                    let late = work.await.err().unwrap_or_else(cancelled);
                    return Err(pool.check_own(false).err().unwrap_or(late));
                }
            },
        };
        pool.check_own(false).map_err(|error| self.refused(&self.context, error))?;
        Ok(value)
    }

    /// Says of a step, an item or a round why it was not executed, or why that does not count.
    pub(super) fn refused(&self, context: &ExecutionContext, error: EngineError) -> EngineError {
        let (kind, message) = (StepEventKind::Error { error_type: error.kind.as_str() }, error.to_string());
        self.tell(context.step.as_ref(), kind, Value::from(message.as_str()));
        self.trace_only(context, Some(message), Map::new());
        error
    }

    /// A step with a condition, items or rounds.
    pub(super) async fn flow(&self, flow: &Flow) -> Result<Value, EngineError> {
        let scope = self.scope();
        if let Some(when) = &flow.when
            && !self.made("when", || when(&scope)).map_err(|error| self.refused(&self.context, error))?
        {
            let path = self.context.step.clone();
            self.tell(
                path.as_ref(),
                StepEventKind::Complete { how: How::Skipped, ms: 0, tokens: 0 },
                Value::Null,
            );
            self.trace_only(&self.context, None, facts("skipped", Value::Bool(true)));
            return Ok(Value::Null);
        }
        if flow.foreach.is_none() && flow.until.is_none() {
            return self.leaf(scope, &self.context).await;
        }
        // Its items and rounds tell of themselves; this is the step as a whole.
        let step = self.context.step.as_ref();
        self.tell(step, StepEventKind::Start { queued: false }, Value::Null);
        let began = self.graph.run().clock.now();
        let came = match (&flow.foreach, &flow.until) {
            (Some(foreach), until) => self.items(foreach, until.as_ref(), scope).await,
            (None, Some(until)) => self.rounds(until, scope, &self.context).await,
            (None, None) => self.leaf(scope, &self.context).await,
        };
        let ms = self.graph.run().clock.now().0.saturating_sub(began.0) / 1_000_000;
        let tokens = self.context.pool().usage().tokens_used();
        let (kind, data) = match &came {
            Ok(value) => (StepEventKind::Complete { how: How::Completed, ms, tokens }, value.clone()),
            Err(error) => {
                (StepEventKind::Error { error_type: error.kind.as_str() }, Value::from(error.to_string()))
            }
        };
        self.tell(step, kind, data);
        came
    }

    /// Once for each item; the results in the order of the items.
    pub(super) async fn items(
        &self,
        foreach: &ForEach,
        until: Option<&Until>,
        scope: Scope<'_>,
    ) -> Result<Value, EngineError> {
        let items = self.made("foreach", || (foreach.items)(&scope))?;
        // What has failed takes the other items with it.
        let stop = self.context.cancellation().child();
        let all = self.context.clone().with_cancellation(stop.clone());
        let mut results: Vec<Value> = vec![Value::Null; items.len()];
        let mut failure: Option<EngineError> = None;
        let mut running = FuturesUnordered::new();
        let mut next = 0;
        loop {
            while failure.is_none() && next < items.len() && running.len() < foreach.parallel {
                let index = next;
                next += 1;
                if index > 0 {
                    if let Err(error) = all.check_cancelled().and_then(|()| all.check_budget()) {
                        // Those that have begun may end, unless more than steps is used up.
                        if all.pool().check(false).is_err() {
                            stop.cancel();
                        }
                        failure = Some(error);
                        break;
                    }
                    all.pool().add_step();
                }
                let scope = Scope { item: Some(&items[index]), index, ..scope };
                let mut context = all.clone();
                context.step = context.step.map(|path| format!("{path}[{index}]").into());
                running.push(async move {
                    let came = match until {
                        Some(until) => self.rounds(until, scope, &context).await,
                        None => self.leaf(scope, &context).await,
                    };
                    (index, came)
                });
            }
            // A million items that never wait must not keep everything else of this thread waiting.
            consume_budget().await;
            let Some((index, came)) = running.next().await else { break };
            match came {
                Ok(came) => results[index] = came,
                Err(error) => {
                    stop.cancel();
                    failure.get_or_insert(error);
                }
            }
        }
        drop(running);
        match failure {
            Some(error) => Err(error),
            None => Ok(Value::Array(results)),
        }
    }

    /// Again until the condition holds.
    pub(super) async fn rounds(
        &self,
        until: &Until,
        scope: Scope<'_>,
        context: &ExecutionContext,
    ) -> Result<Value, EngineError> {
        let mut result = None;
        for round in 1..=until.max_rounds {
            let mut context = context.clone();
            context.step = context.step.map(|path| format!("{path}#{round}").into());
            if round > 1 {
                // Rounds that never wait must not keep everything else of this thread waiting.
                consume_budget().await;
                context.check_cancelled()?;
                context.check_budget()?;
                context.pool().add_step();
            }
            let came = self.leaf(Scope { round, result: result.as_ref(), ..scope }, &context).await?;
            let now = Scope { round, result: Some(&came), ..scope };
            if self.made("until", || (until.condition)(&now))? {
                return Ok(came);
            }
            result = Some(came);
        }
        let message =
            format!("step '{}': its condition did not hold after {} rounds", self.step.id, until.max_rounds);
        Err(EngineError::new(ErrorKind::Process, message)
            .hint("give `until` more max_rounds, or another condition"))
    }
}
