//! CREATE_BRANCH, LIST_BRANCHES and DELETE_BRANCH: branches of recorded sessions on this machine.

use nerve_api::reply::{
    AnswerReply, BranchCreated, BranchDeleted, BranchList, ExecuteReply, NodeExplanation, NodeInfo, Turn,
};
use nerve_api::request::{
    AnswerNode, CreateBranch, CreateNode, DeleteBranch, ExecuteInput, ExplainNode, GetNode, ListBranches,
    ListNodes, WaitNode,
};
use nerve_api::value::NodeState;

use super::Engine;
use super::context::RequestContext;
use super::snapshots::{RecordedSession, absolute_path};
use crate::branches::{
    At, BranchFolders, BranchOptions, CreateFailure, Instruction, NodeOverrides, NodeServer, Origin, Wait,
    create_branch, plan_branch, preview_branch,
};
use crate::snapshots::SnapshotOptions;
use nerve_node::error::{EngineError, ErrorKind};
use nerve_node::names::check_name;

/// Value of `at` that takes a snapshot first.
const NOW: &str = "now";
/// Default value of `at`.
const END: &str = "end";

impl Engine {
    /// Creates a node that continues a recorded session. It is completed even if the future is dropped.
    ///
    /// # Errors
    /// NotFound (no node, no recording, no snapshot), InvalidRequest, AlreadyExists, Busy, Process; after the node was created those of
    /// EXECUTE_INPUT.
    pub async fn create_branch(
        &self,
        request: CreateBranch,
        context: RequestContext,
    ) -> Result<BranchCreated, EngineError> {
        let engine = self.clone();
        let created = self.inner.creating.spawn(async move { engine.branch(request, &context).await });
        created.await.unwrap_or_else(|error| Err(EngineError::new(ErrorKind::Internal, error.to_string())))
    }

    /// Lists the folders of branches.
    ///
    /// # Errors
    /// InvalidRequest (no recordings here).
    pub async fn list_branches(
        &self,
        _: ListBranches,
        context: RequestContext,
    ) -> Result<BranchList, EngineError> {
        let scan = |folders: BranchFolders| (folders.list(), folders.unknown().map(str::to_string));
        let (branches, unknown) = self.file_job(move |dirs| Ok(scan(BranchFolders::scan(dirs)))).await?;
        if let Some(why) = unknown {
            context.warnings.add(format!("restartable nodes are unknown: {why}"));
        }
        Ok(BranchList { branches })
    }

    /// Removes the folder of a branch that no node uses.
    ///
    /// # Errors
    /// NotFound, Busy (in use, or just created), Process (changed files).
    pub async fn delete_branch(
        &self,
        request: DeleteBranch,
        _: RequestContext,
    ) -> Result<BranchDeleted, EngineError> {
        let DeleteBranch { name, force } = request;
        let (path, note) = self.file_job(move |dirs| BranchFolders::scan(dirs).remove(&name, force)).await?;
        Ok(BranchDeleted { path: path.display().to_string(), note })
    }

    async fn branch(
        &self,
        request: CreateBranch,
        context: &RequestContext,
    ) -> Result<BranchCreated, EngineError> {
        let given = RecordedSession::parse(request.source_id, request.session_id.clone(), request.recording)?;
        let given = given.ok_or_else(|| invalid("source_id or recording is required"))?;
        for (is_conflict, names) in [
            (request.in_place && request.to.is_some(), "in_place and to"),
            (request.in_place && request.dir.is_some(), "in_place and dir"),
            (request.no_proxy && request.proxy.is_some(), "no_proxy and proxy"),
        ] {
            if is_conflict {
                return Err(invalid(format!("{names}: only one of them can be given")));
            }
        }
        if let Some(target) = &request.target_id {
            check_name(target, "node")?;
        }
        let options = BranchOptions {
            node: request.target_id,
            to: request.to.map(|to| absolute_path("to", &to)).transpose()?,
            in_place: request.in_place,
            dir: request.dir.map(|dir| absolute_path("dir", &dir)).transpose()?,
            server: self.inner.factory.server_name().to_string(),
            session: request.session_id,
            overrides: NodeOverrides { env: request.env, proxy: request.proxy, no_proxy: request.no_proxy },
        };
        let wait = match request.wait {
            true => Wait::Answer(request.timeout.map(|timeout| timeout.duration())),
            false => Wait::Delivered,
        };
        let instruction = Instruction {
            traceparent: request.traceparent,
            tracestate: request.tracestate,
            ..Instruction::new(&request.instruction, wait)?
        };
        let name = match &given {
            RecordedSession::Node(at) => self.recording_of(at)?,
            RecordedSession::Named(name) => name.clone(),
        };
        let at = match request.at.unwrap_or_else(|| END.to_string()) {
            at if at == NOW && request.dry_run => {
                return Err(invalid("at = now takes a snapshot: not possible with dry_run"));
            }
            at if at == NOW => {
                let outcome = self.snapshot_of(given, SnapshotOptions::default()).await?;
                outcome.note_error.iter().for_each(|warning| context.warnings.add(warning.clone()));
                let id = outcome.key.id();
                outcome.files?;
                id.to_string()
            }
            at => at,
        };
        let plan = self.file_job(move |dirs| {
            let origin = Origin::find(&name, dirs)?;
            let at = At::parse(&at, &origin)?;
            plan_branch(&origin, at, options, dirs)
        });
        let plan = plan.await?;
        if request.dry_run {
            let (node, inherited) = preview_branch(Some(self), &plan).await?;
            let plan = plan.reply(&node, inherited.as_ref());
            return Ok(BranchCreated { dry_run: true, instruction: Some(instruction.text), ..plan });
        }
        Ok(create_branch(self, plan, &instruction, &mut |_| {}).await?.reply())
    }
}

impl NodeServer for Engine {
    async fn list_nodes(&self, request: ListNodes) -> Result<Vec<NodeInfo>, EngineError> {
        Ok(Engine::list_nodes(self, request, RequestContext::default()).await?.nodes_info)
    }

    async fn create_node(&self, request: CreateNode) -> Result<(), CreateFailure> {
        Engine::create_node(self, request, RequestContext::default())
            .await
            .map(drop)
            .map_err(|error| CreateFailure { may_exist: error.kind == ErrorKind::Internal, error })
    }

    async fn get_node(&self, request: GetNode) -> Result<NodeInfo, EngineError> {
        Ok(Engine::get_node(self, request, RequestContext::default()).await?.into())
    }

    async fn wait_node(&self, request: WaitNode) -> Result<NodeState, EngineError> {
        Ok(Engine::wait_node(self, request, RequestContext::default()).await?.state)
    }

    async fn explain_node(&self, request: ExplainNode) -> Result<NodeExplanation, EngineError> {
        Engine::explain_node(self, request, RequestContext::default()).await
    }

    async fn answer_node(&self, request: AnswerNode) -> Result<(), EngineError> {
        match Engine::answer_node(self, request, RequestContext::default()).await? {
            AnswerReply::Done(_) | AnswerReply::Turn(_) => Ok(()),
        }
    }

    async fn execute_input(&self, request: ExecuteInput) -> Result<Turn, EngineError> {
        let engine = self.clone();
        let internal = |error: String| EngineError::new(ErrorKind::Internal, error);
        // In a task: the turn continues even if its end is not awaited.
        let turn =
            tokio::spawn(
                async move { Engine::execute_input(&engine, request, RequestContext::default()).await },
            );
        match turn.await.unwrap_or_else(|error| Err(internal(error.to_string())))? {
            ExecuteReply::Turn(turn) => Ok(*turn),
            ExecuteReply::Accepted(_) => Err(internal("the turn is asynchronous".to_string())),
        }
    }
}

fn invalid(message: impl Into<String>) -> EngineError {
    EngineError::new(ErrorKind::InvalidRequest, message)
}
