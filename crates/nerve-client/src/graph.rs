//! Graphs and their runs, seen from a client.

use nerve_api::reply::{GraphInfo, RunEnded, RunInfo};
use nerve_api::request::{
    AnswerGate, CancelGraph, CreateGraph, DeleteGraph, ExecuteGraph, GetGraph, GetRun, ListGraphs, ListRuns,
    ResumeRun, RunGraph,
};
use serde_json::{Map, Value};

use crate::client::NerveClient;
use crate::error::ClientError;

/// What may be said of a run beside its graph.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct RunOptions {
    /// Where steps find nodes that the graph does not define; the server's default session if `None`.
    pub session: Option<String>,
    /// The graph's input.
    pub input: Value,
    /// Id of the run: 1–32 of `a-z 0-9 -`; made up if `None`.
    pub run_id: Option<String>,
    /// Answer with the trace too.
    pub trace: bool,
    /// Leave the graph's own nodes running when it ends.
    pub keep_nodes: bool,
    /// The span that the run is part of, as a header `traceparent` has it.
    pub traceparent: Option<String>,
    /// What goes with it in the header `tracestate`.
    pub tracestate: Option<String>,
}

impl NerveClient {
    /// Runs a graph, given as a graph file has it, and waits for its end. Dropping the future does not end the run:
    /// [`NerveClient::cancel_run`] does.
    ///
    /// # Errors
    /// As [`NerveClient::request`]. A run that failed or was cancelled is a [`crate::ServerError`] whose `run` has what was done.
    pub async fn execute_graph(
        &self,
        definition: Map<String, Value>,
        options: &RunOptions,
    ) -> Result<RunEnded, ClientError> {
        self.request_as(&whole(definition, options, false)).await
    }

    /// The same without waiting: gives the run as it has begun.
    ///
    /// # Errors
    /// As [`NerveClient::request`].
    pub async fn start_graph(
        &self,
        definition: Map<String, Value>,
        options: &RunOptions,
    ) -> Result<RunInfo, ClientError> {
        self.request_as(&whole(definition, options, true)).await
    }

    /// Runs a registered graph of the session in `options`, and waits for its end.
    ///
    /// # Errors
    /// As [`NerveClient::execute_graph`].
    pub async fn run_graph(&self, graph_id: &str, options: &RunOptions) -> Result<RunEnded, ClientError> {
        self.request_as(&named(graph_id, options, false)).await
    }

    /// The same without waiting: gives the run as it has begun.
    ///
    /// # Errors
    /// As [`NerveClient::request`].
    pub async fn start_registered_graph(
        &self,
        graph_id: &str,
        options: &RunOptions,
    ) -> Result<RunInfo, ClientError> {
        self.request_as(&named(graph_id, options, true)).await
    }

    /// Registers a graph in a session, under its own id.
    ///
    /// # Errors
    /// As [`NerveClient::request`]; `already_exists_error` when the id is taken, by a node too.
    pub async fn create_graph(
        &self,
        definition: Map<String, Value>,
        session: Option<&str>,
    ) -> Result<GraphInfo, ClientError> {
        let params = CreateGraph { definition, session_id: session.map(str::to_string) };
        self.request(&params).await
    }

    /// One registered graph, with its definition.
    ///
    /// # Errors
    /// As [`NerveClient::request`].
    pub async fn get_graph(&self, graph_id: &str, session: Option<&str>) -> Result<GraphInfo, ClientError> {
        self.request(&GetGraph::new(graph_id, session.map(str::to_string))).await
    }

    /// All graphs of a session, without their definitions.
    ///
    /// # Errors
    /// As [`NerveClient::request`].
    pub async fn list_graphs(&self, session: Option<&str>) -> Result<Vec<GraphInfo>, ClientError> {
        let params = ListGraphs { session_id: session.map(str::to_string) };
        Ok(self.request(&params).await?.graphs_info)
    }

    /// Forgets a graph; its runs go on.
    ///
    /// # Errors
    /// As [`NerveClient::request`].
    pub async fn delete_graph(&self, graph_id: &str, session: Option<&str>) -> Result<(), ClientError> {
        self.request(&DeleteGraph::new(graph_id, session.map(str::to_string))).await.map(drop)
    }

    /// Cancels all runs of a graph; gives their ids.
    ///
    /// # Errors
    /// As [`NerveClient::request`].
    pub async fn cancel_graph(&self, graph_id: &str) -> Result<Vec<String>, ClientError> {
        self.cancel(CancelGraph { run_id: None, graph_id: Some(graph_id.to_string()) }).await
    }

    /// Cancels a run; gives its id.
    ///
    /// # Errors
    /// As [`NerveClient::request`].
    pub async fn cancel_run(&self, run_id: &str) -> Result<Vec<String>, ClientError> {
        self.cancel(CancelGraph { run_id: Some(run_id.to_string()), graph_id: None }).await
    }

    /// All runs the server knows, newest first, without their steps.
    ///
    /// # Errors
    /// As [`NerveClient::request`].
    pub async fn runs(&self) -> Result<Vec<RunInfo>, ClientError> {
        Ok(self.request(&ListRuns {}).await?.runs)
    }

    /// A run as it is now. `last`: only so many of its steps, the latest.
    ///
    /// # Errors
    /// As [`NerveClient::request`].
    pub async fn run_status(&self, run_id: &str, last: Option<usize>) -> Result<RunInfo, ClientError> {
        self.request(&GetRun { run_id: run_id.to_string(), last }).await
    }

    /// Goes on with a run whose server died, and waits for its end. `edited` takes the place of the run's own graph: what is
    /// unchanged in it is not run again.
    ///
    /// # Errors
    /// As [`NerveClient::execute_graph`].
    pub async fn resume_run(
        &self,
        run_id: &str,
        edited: Option<Map<String, Value>>,
        trace: bool,
    ) -> Result<RunEnded, ClientError> {
        let params = ResumeRun { run_id: run_id.to_string(), definition: edited, trace, detach: false };
        self.request_as(&params).await
    }

    /// The same without waiting: gives the run as it goes on.
    ///
    /// # Errors
    /// As [`NerveClient::request`].
    pub async fn restart_run(
        &self,
        run_id: &str,
        edited: Option<Map<String, Value>>,
    ) -> Result<RunInfo, ClientError> {
        let run_id = run_id.to_string();
        let params = ResumeRun { run_id, definition: edited, trace: false, detach: true };
        self.request_as(&params).await
    }

    /// Answers a gate that a run waits at; gives the run as it goes on. `step` is its path; `None` where only one gate waits.
    ///
    /// # Errors
    /// As [`NerveClient::request`]; `invalid_request_error` for what is none of its choices.
    pub async fn answer_gate(
        &self,
        run_id: &str,
        step: Option<&str>,
        choice: &str,
    ) -> Result<RunInfo, ClientError> {
        let step_id = step.map(str::to_string);
        let params = AnswerGate { run_id: run_id.to_string(), step_id, choice: choice.to_string() };
        self.request(&params).await
    }

    async fn cancel(&self, params: CancelGraph) -> Result<Vec<String>, ClientError> {
        Ok(self.request(&params).await?.runs)
    }
}

fn whole(definition: Map<String, Value>, options: &RunOptions, detach: bool) -> ExecuteGraph {
    let RunOptions { session, input, run_id, trace, keep_nodes, traceparent, tracestate } = options.clone();
    ExecuteGraph {
        definition,
        session_id: session,
        input,
        run_id,
        trace,
        detach,
        keep_nodes,
        traceparent,
        tracestate,
    }
}

fn named(graph_id: &str, options: &RunOptions, detach: bool) -> RunGraph {
    let RunOptions { session, input, run_id, trace, keep_nodes, traceparent, tracestate } = options.clone();
    RunGraph {
        graph_id: graph_id.to_string(),
        session_id: session,
        input,
        run_id,
        trace,
        detach,
        keep_nodes,
        traceparent,
        tracestate,
    }
}
