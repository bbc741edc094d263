//! Steps: a node with its input, dependencies and policies.

use std::fmt;
use std::sync::Arc;

use nerve_agent::parse::ParserKind;
use nerve_node::budget::RunBudget;
use nerve_node::error::EngineError;
use nerve_node::upstream::UpstreamResults;
use serde_json::Value;

use super::executable::Target;
use crate::policy::ErrorPolicy;
pub use crate::policy::{OnDialog, OnResume};

/// The values that functions of a step can read.
#[derive(Debug, Clone, Copy)]
pub struct Scope<'a> {
    /// The graph's input.
    pub input: &'a Value,
    /// Results of the graph's steps.
    pub upstream: &'a UpstreamResults,
    /// Ids of the direct dependencies.
    pub direct: &'a [Arc<str>],
    /// Current item of a list.
    pub item: Option<&'a Value>,
    /// Index of the item, from 0.
    pub index: usize,
    /// Number of the round of the step's loop, otherwise of the graph's loop, from 1; 0 without a loop.
    pub round: u32,
    /// Result of the previous round; in a loop's condition, of the current one. For a graph's loop: the results by step id.
    pub result: Option<&'a Value>,
}

/// A function of a step over the values in its [`Scope`].
pub type ScopeFn<T> = Arc<dyn Fn(&Scope<'_>) -> Result<T, EngineError> + Send + Sync>;

/// A step of a graph.
#[derive(Clone)]
pub struct Step {
    pub(crate) id: Arc<str>,
    pub(crate) target: Target,
    /// Id or name of the node.
    pub(crate) node: Arc<str>,
    pub(crate) input: Option<Value>,
    pub(crate) input_fn: Option<ScopeFn<Value>>,
    pub(crate) depends_on: Vec<Arc<str>>,
    pub(crate) error_policy: Option<Arc<ErrorPolicy>>,
    pub(crate) parser: Option<ParserKind>,
    pub(crate) sub_budget: Option<Arc<RunBudget>>,
    pub(crate) flow: Option<Arc<Flow>>,
    pub(crate) on_dialog: OnDialog,
    pub(crate) on_resume: OnResume,
    pub(crate) definition: u64,
}

/// The control flow of a step.
#[derive(Clone, Default)]
pub(crate) struct Flow {
    pub(crate) when: Option<ScopeFn<bool>>,
    pub(crate) foreach: Option<ForEach>,
    pub(crate) until: Option<Until>,
}

/// Runs a step once for each item of a list.
#[derive(Clone)]
pub(crate) struct ForEach {
    pub(crate) items: ScopeFn<Vec<Value>>,
    /// Maximum number of concurrent items.
    pub(crate) parallel: usize,
}

/// Repeats a step, or all steps of a graph, until a condition holds.
#[derive(Clone)]
pub(crate) struct Until {
    pub(crate) condition: ScopeFn<bool>,
    pub(crate) max_rounds: u32,
}

impl fmt::Debug for Until {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Until").field("max_rounds", &self.max_rounds).finish_non_exhaustive()
    }
}

/// A round of a graph that repeats its steps.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Round<'a> {
    /// From 1.
    pub(crate) number: u32,
    /// Results of the previous round.
    pub(crate) result: Option<&'a Value>,
}

impl Flow {
    /// Returns true if the step runs for each item of a list, or until a condition holds.
    pub(crate) fn repeats(&self) -> bool {
        self.foreach.is_some() || self.until.is_some()
    }
}

impl Step {
    /// Creates a step without input and dependencies. [`super::Graph::add_step`] sets its node.
    pub fn new(id: impl Into<Arc<str>>) -> Step {
        Step {
            id: id.into(),
            target: Target::Name("".into()),
            node: "".into(),
            input: None,
            input_fn: None,
            depends_on: Vec::new(),
            error_policy: None,
            parser: None,
            sub_budget: None,
            flow: None,
            on_dialog: OnDialog::default(),
            on_resume: OnResume::default(),
            definition: 0,
        }
    }

    /// Sets the node's input.
    #[must_use]
    pub fn input(mut self, input: impl Into<Value>) -> Step {
        self.input = Some(input.into());
        self
    }

    /// Computes the node's input from earlier results. A step with both an `input` and an `input_fn` is invalid.
    #[must_use]
    pub fn input_fn(self, make: impl Fn(&UpstreamResults) -> Value + Send + Sync + 'static) -> Step {
        self.input_from(move |scope| Ok(make(scope.upstream)))
    }

    /// Sets a function that makes the input, as [`Step::input_fn`] does, with access to the whole [`Scope`].
    #[must_use]
    pub fn input_from(
        mut self,
        make: impl Fn(&Scope<'_>) -> Result<Value, EngineError> + Send + Sync + 'static,
    ) -> Step {
        self.input_fn = Some(Arc::new(make));
        self
    }

    /// Adds dependencies.
    #[must_use]
    pub fn depends_on<I: IntoIterator<Item: Into<Arc<str>>>>(mut self, steps: I) -> Step {
        self.depends_on.extend(steps.into_iter().map(Into::into));
        self
    }

    /// Sets the policy for failures.
    #[must_use]
    pub fn error_policy(mut self, policy: ErrorPolicy) -> Step {
        self.error_policy = Some(Arc::new(policy));
        self
    }

    /// Sets the parser of the answer [default: the node's parser].
    #[must_use]
    pub fn parser(mut self, parser: ParserKind) -> Step {
        self.parser = Some(parser);
        self
    }

    /// Limits the resources of the step. Usage counts toward the graph's budget, too.
    #[must_use]
    pub fn sub_budget(mut self, budget: RunBudget) -> Step {
        self.sub_budget = Some(Arc::new(budget));
        self
    }

    /// Runs the step only if the condition holds. Otherwise its result is null and its dependants run.
    #[must_use]
    pub fn when(
        mut self,
        condition: impl Fn(&Scope<'_>) -> Result<bool, EngineError> + Send + Sync + 'static,
    ) -> Step {
        self.flow().when = Some(Arc::new(condition));
        self
    }

    /// Runs the step once for each item of a list, at most `parallel` at once. Its result is the list of results.
    #[must_use]
    pub fn foreach(
        mut self,
        items: impl Fn(&Scope<'_>) -> Result<Vec<Value>, EngineError> + Send + Sync + 'static,
        parallel: usize,
    ) -> Step {
        self.flow().foreach = Some(ForEach { items: Arc::new(items), parallel: parallel.max(1) });
        self
    }

    /// Repeats the step until the condition holds for its result. Fails after `max_rounds` rounds.
    #[must_use]
    pub fn until(
        mut self,
        condition: impl Fn(&Scope<'_>) -> Result<bool, EngineError> + Send + Sync + 'static,
        max_rounds: u32,
    ) -> Step {
        self.flow().until = Some(Until { condition: Arc::new(condition), max_rounds });
        self
    }

    /// Sets the policy for dialogs of the step's agent.
    #[must_use]
    pub fn on_dialog(mut self, on_dialog: OnDialog) -> Step {
        self.on_dialog = on_dialog;
        self
    }

    /// Sets the policy for resuming the run if the step was running when its server died.
    #[must_use]
    pub fn on_resume(mut self, on_resume: OnResume) -> Step {
        self.on_resume = on_resume;
        self
    }

    /// Sets a digest of the step's definition. Journaled results with another digest are not reused.
    #[must_use]
    pub fn definition(mut self, digest: u64) -> Step {
        self.definition = digest;
        self
    }

    /// Returns the step's id.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Returns the step's node and the node that takes over if it fails.
    pub(crate) fn targets(&self) -> impl Iterator<Item = &Target> {
        let fallback = self.error_policy.as_ref().and_then(|policy| policy.fallback_node.as_ref());
        std::iter::once(&self.target).chain(fallback)
    }

    /// Returns true if the step runs for each item of a list, or until a condition holds.
    pub(crate) fn repeats(&self) -> bool {
        self.flow.as_ref().is_some_and(|flow| flow.repeats())
    }

    /// Returns the step's node.
    pub fn target(&self) -> &Target {
        &self.target
    }

    /// Returns the ids of the steps it depends on.
    pub fn dependencies(&self) -> impl Iterator<Item = &str> {
        self.depends_on.iter().map(|id| &**id)
    }

    fn flow(&mut self) -> &mut Flow {
        Arc::make_mut(self.flow.get_or_insert_default())
    }
}

impl fmt::Debug for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Step")
            .field("id", &self.id)
            .field("target", &self.target)
            .field("input", &self.input)
            .field("depends_on", &self.depends_on)
            .finish_non_exhaustive()
    }
}
