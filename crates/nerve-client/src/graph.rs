//! Graphs and their runs.

use nerve_api::reply::{GraphInfo, RunEnded, RunInfo};
use nerve_api::request::{
    AnswerGate, CancelGraph, CreateGraph, DeleteGraph, ExecuteGraph, GetGraph, GetRun, ListGraphs, ListRuns,
    ResumeRun, RunGraph, RunOptions,
};
use serde_json::{Map, Value};

use crate::client::NerveClient;
use crate::error::ClientError;

impl NerveClient {
    /// Runs a graph, in the form of a graph file, and waits for its end. Dropping the future does not end the run: use
    /// [`NerveClient::cancel_run`].
    ///
    /// # Errors
    /// See [`NerveClient::request`]. If the run failed or was cancelled, the details of the [`crate::ServerError`] contain its partial
    /// results.
    pub async fn execute_graph(
        &self,
        definition: Map<String, Value>,
        options: &RunOptions,
    ) -> Result<RunEnded, ClientError> {
        self.request_as(&ExecuteGraph { definition, options: options.clone(), detach: false }).await
    }

    /// Begins a run like [`NerveClient::execute_graph`] and returns without waiting for its end.
    pub async fn execute_graph_detached(
        &self,
        definition: Map<String, Value>,
        options: &RunOptions,
    ) -> Result<RunInfo, ClientError> {
        self.request_as(&ExecuteGraph { definition, options: options.clone(), detach: true }).await
    }

    /// Runs a registered graph of the session in `options`, and waits for its end.
    pub async fn run_graph(&self, graph_id: &str, options: &RunOptions) -> Result<RunEnded, ClientError> {
        self.request_as(&RunGraph { graph_id: graph_id.to_string(), options: options.clone(), detach: false })
            .await
    }

    /// Begins a run like [`NerveClient::run_graph`] and returns without waiting for its end.
    pub async fn run_graph_detached(
        &self,
        graph_id: &str,
        options: &RunOptions,
    ) -> Result<RunInfo, ClientError> {
        self.request_as(&RunGraph { graph_id: graph_id.to_string(), options: options.clone(), detach: true })
            .await
    }

    /// Registers a graph in a session, under its own id.
    ///
    /// # Errors
    /// See [`NerveClient::request`]; `already_exists_error` if a graph or node has that id.
    pub async fn create_graph(
        &self,
        definition: Map<String, Value>,
        session: Option<&str>,
    ) -> Result<GraphInfo, ClientError> {
        let params = CreateGraph { definition, session_id: session.map(str::to_string) };
        self.request(&params).await
    }

    /// Returns a registered graph with its definition.
    pub async fn get_graph(&self, graph_id: &str, session: Option<&str>) -> Result<GraphInfo, ClientError> {
        self.request(&GetGraph::new(graph_id, session.map(str::to_string))).await
    }

    /// Lists the graphs of a session, without their definitions.
    pub async fn list_graphs(&self, session: Option<&str>) -> Result<Vec<GraphInfo>, ClientError> {
        let params = ListGraphs { session_id: session.map(str::to_string), ..ListGraphs::default() };
        Ok(self.request(&params).await?.graphs_info)
    }

    /// Deletes a graph. Its runs continue.
    pub async fn delete_graph(&self, graph_id: &str, session: Option<&str>) -> Result<(), ClientError> {
        self.request(&DeleteGraph::new(graph_id, session.map(str::to_string))).await.map(drop)
    }

    /// Cancels all runs of a graph and returns their ids.
    pub async fn cancel_graph(&self, graph_id: &str) -> Result<Vec<String>, ClientError> {
        self.cancel(CancelGraph { run_id: None, graph_id: Some(graph_id.to_string()) }).await
    }

    /// Cancels a run and returns its id.
    pub async fn cancel_run(&self, run_id: &str) -> Result<Vec<String>, ClientError> {
        self.cancel(CancelGraph { run_id: Some(run_id.to_string()), graph_id: None }).await
    }

    /// Lists all runs, newest first, without their steps.
    pub async fn runs(&self) -> Result<Vec<RunInfo>, ClientError> {
        Ok(self.request(&ListRuns::default()).await?.runs)
    }

    /// Returns the current state of a run, with at most the `last` steps.
    pub async fn run_status(&self, run_id: &str, last: Option<usize>) -> Result<RunInfo, ClientError> {
        self.request(&GetRun { run_id: run_id.to_string(), last, ..GetRun::default() }).await
    }

    /// Resumes a run whose server ended, and waits for its end. Unchanged steps of an edited graph are not run again.
    pub async fn resume_run(&self, request: ResumeRun) -> Result<RunEnded, ClientError> {
        self.request_as(&ResumeRun { detach: false, ..request }).await
    }

    /// Resumes a run like [`NerveClient::resume_run`] and returns without waiting for its end.
    pub async fn resume_run_detached(&self, request: ResumeRun) -> Result<RunInfo, ClientError> {
        self.request_as(&ResumeRun { detach: true, ..request }).await
    }

    /// Answers a gate at which a run waits, and returns the state of the run. `step` is the gate's path; optional if only one gate waits.
    ///
    /// # Errors
    /// See [`NerveClient::request`]; `invalid_request_error` if `choice` is not one of the gate's choices.
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
