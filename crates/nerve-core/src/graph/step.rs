//! A step: a node, what it is given, and what it waits for (seed REQ-G2).

use std::fmt;
use std::sync::Arc;

use nerve_term::parse::ParserKind;
use serde_json::Value;

use super::upstream::Upstream;
use crate::budget::Budget;
use crate::error::EngineError;
use crate::node::NodeHandle;
use crate::policy::ErrorPolicy;

/// Who does a step.
#[derive(Debug, Clone)]
pub enum Target {
    /// This node.
    Node(NodeHandle),
    /// Whoever has this name in the session when the step begins.
    Name(Arc<str>),
}

/// What a step's functions can look at.
#[derive(Debug, Clone, Copy)]
pub struct Scope<'a> {
    /// The graph's input.
    pub input: &'a Value,
    /// Results of the graph's steps.
    pub upstream: &'a Upstream,
    /// What the step depends on directly.
    pub direct: &'a [Arc<str>],
    /// The item of a list.
    pub item: Option<&'a Value>,
    /// Its place, from 0.
    pub index: usize,
    /// Which round of a loop, from 1.
    pub round: u32,
    /// What came of the round before; in a loop's condition, of this one.
    pub result: Option<&'a Value>,
}

/// Makes something of what a step can look at.
pub type ScopeFn<T> = Arc<dyn Fn(&Scope<'_>) -> Result<T, EngineError> + Send + Sync>;

/// What becomes of a step that ran when its server died.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnResume {
    /// Run again if its node keeps no state; else a person is asked.
    #[default]
    Ask,
    /// Run again.
    Rerun,
}

/// A step of a graph, without its node.
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
    pub(crate) sub_budget: Option<Arc<Budget>>,
    pub(crate) flow: Option<Arc<Flow>>,
    pub(crate) on_resume: OnResume,
    pub(crate) definition: u64,
}

/// When and how often a step runs.
#[derive(Clone, Default)]
pub(crate) struct Flow {
    pub(crate) when: Option<ScopeFn<bool>>,
    pub(crate) foreach: Option<ForEach>,
    pub(crate) until: Option<Until>,
}

/// Once for each item of a list.
#[derive(Clone)]
pub(crate) struct ForEach {
    pub(crate) items: ScopeFn<Vec<Value>>,
    /// So many at once.
    pub(crate) parallel: usize,
}

/// Again and again.
#[derive(Clone)]
pub(crate) struct Until {
    pub(crate) condition: ScopeFn<bool>,
    pub(crate) max_rounds: u32,
}

impl Step {
    /// A step without input and dependencies. Its node comes with [`super::Graph::add_step`].
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
            on_resume: OnResume::default(),
            definition: 0,
        }
    }

    /// Gives the node this.
    #[must_use]
    pub fn input(mut self, input: impl Into<Value>) -> Step {
        self.input = Some(input.into());
        self
    }

    /// Gives the node what a function makes of the results before it. Goes before [`Step::input`] (seed REQ-G2a), but a step that has
    /// both is not valid.
    #[must_use]
    pub fn input_fn(self, make: impl Fn(&Upstream) -> Value + Send + Sync + 'static) -> Step {
        self.input_from(move |scope| Ok(make(scope.upstream)))
    }

    /// As [`Step::input_fn`], with all a step can look at.
    #[must_use]
    pub fn input_from(
        mut self,
        make: impl Fn(&Scope<'_>) -> Result<Value, EngineError> + Send + Sync + 'static,
    ) -> Step {
        self.input_fn = Some(Arc::new(make));
        self
    }

    /// Waits for these steps.
    #[must_use]
    pub fn depends_on<I: IntoIterator<Item: Into<Arc<str>>>>(mut self, steps: I) -> Step {
        self.depends_on.extend(steps.into_iter().map(Into::into));
        self
    }

    /// What happens when it fails.
    #[must_use]
    pub fn error_policy(mut self, policy: ErrorPolicy) -> Step {
        self.error_policy = Some(Arc::new(policy));
        self
    }

    /// Parser of its answer; the node's if there is none.
    #[must_use]
    pub fn parser(mut self, parser: ParserKind) -> Step {
        self.parser = Some(parser);
        self
    }

    /// What it may use; counts toward the graph's budget too.
    #[must_use]
    pub fn sub_budget(mut self, budget: Budget) -> Step {
        self.sub_budget = Some(Arc::new(budget));
        self
    }

    /// Runs only when this holds. Else its result is null, and its dependants run.
    #[must_use]
    pub fn when(
        mut self,
        condition: impl Fn(&Scope<'_>) -> Result<bool, EngineError> + Send + Sync + 'static,
    ) -> Step {
        self.flow().when = Some(Arc::new(condition));
        self
    }

    /// Runs once for each item of a list, `parallel` at once; its result is the list of results.
    #[must_use]
    pub fn foreach(
        mut self,
        items: impl Fn(&Scope<'_>) -> Result<Vec<Value>, EngineError> + Send + Sync + 'static,
        parallel: usize,
    ) -> Step {
        self.flow().foreach = Some(ForEach { items: Arc::new(items), parallel: parallel.max(1) });
        self
    }

    /// Runs again until this holds for its result, which then is the step's; `max_rounds` times at most, then it has failed.
    #[must_use]
    pub fn until(
        mut self,
        condition: impl Fn(&Scope<'_>) -> Result<bool, EngineError> + Send + Sync + 'static,
        max_rounds: u32,
    ) -> Step {
        self.flow().until = Some(Until { condition: Arc::new(condition), max_rounds });
        self
    }

    /// What becomes of it if it runs when its server dies.
    #[must_use]
    pub fn on_resume(mut self, on_resume: OnResume) -> Step {
        self.on_resume = on_resume;
        self
    }

    /// A number that changes when the step is to be done in another way: results of the old way are not reused.
    #[must_use]
    pub fn definition(mut self, digest: u64) -> Step {
        self.definition = digest;
        self
    }

    /// Its id.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Who does it.
    pub fn target(&self) -> &Target {
        &self.target
    }

    /// Ids of the steps it waits for.
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
