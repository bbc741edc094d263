//! CREATE_BRANCH, LIST_BRANCHES and DELETE_BRANCH: branches of recorded sessions on this machine.

use nerve_api::event::EventKind;
use nerve_api::reply::{
    AnswerReply, BranchCreated, BranchDeleted, BranchList, ExecuteReply, NodeExplanation, NodeInfo, NodeList,
    Turn,
};
use nerve_api::request::{
    AnswerNode, CreateBranch, CreateNode, DeleteBranch, ExecuteInput, ExplainNode, GetNode, ListBranches,
    ListNodes, WaitNode,
};
use nerve_api::value::NodeState;
use nerve_node::error::{EngineError, ErrorKind};
use nerve_node::names::check_name;

use super::context::RequestContext;
use super::file_job::absolute_path;
use super::snapshots::SessionSelector;
use crate::branches::{
    BranchFolders, BranchOptions, BranchPoint, CreateFailure, Instruction, NodeOverrides, NodeServer, Origin,
    Wait, create_branch, plan_branch, preview_branch,
};
use crate::engine::Engine;
use crate::snapshots::SnapshotOptions;

/// Value of `at` that takes a snapshot first.
const NOW: &str = "now";
/// Default value of `at`.
const END: &str = "end";

impl Engine {
    /// Creates a node that continues a recorded session, and publishes each step. The branch is completed even if the future is
    /// dropped.
    ///
    /// # Errors
    /// NotFound (no node, no recording, no snapshot), InvalidRequest, AlreadyExists, Busy, Process; and those of EXECUTE_INPUT
    /// after the node was created.
    pub async fn create_branch(
        &self,
        request: CreateBranch,
        context: RequestContext,
    ) -> Result<BranchCreated, EngineError> {
        let engine = self.clone();
        let created = self.inner.detached_tasks.spawn(async move { engine.branch(request, &context).await });
        created.await?
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
        let scan = |folders: BranchFolders| (folders.list(), folders.sessions_error().map(str::to_string));
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
        Ok(BranchDeleted { path, note })
    }

    async fn branch(
        &self,
        request: CreateBranch,
        context: &RequestContext,
    ) -> Result<BranchCreated, EngineError> {
        check_conflicts(&request)?;
        let selector = SessionSelector::parse(
            request.source_id.clone(),
            request.session_id.clone(),
            request.recording.clone(),
        )?;
        let selector =
            selector.ok_or_else(|| EngineError::invalid_request("source_id or recording is required"))?;
        let (source, name) = match &selector {
            SessionSelector::Node(at) => (Some(at.with_session()), self.recording_name(at)?),
            SessionSelector::Named(name) => (None, name.clone()),
        };
        let instruction = instruction(&request)?;
        let at = match request.at.as_deref().unwrap_or(END) {
            NOW if request.dry_run => {
                return Err(EngineError::invalid_request(
                    "at = now takes a snapshot: not possible with dry_run",
                ));
            }
            NOW => {
                let outcome = self.snapshot_session(selector, SnapshotOptions::default()).await?;
                outcome.note_error.iter().for_each(|warning| context.warnings.add(warning.clone()));
                let id = outcome.key.id();
                outcome.files?;
                id.to_string()
            }
            at => at.to_string(),
        };
        let dry_run = request.dry_run;
        let options = branch_options(request, self.inner.factory.server_name())?;
        let plan = self.file_job(move |dirs| {
            let origin = Origin::find(&name, dirs)?;
            let at = BranchPoint::parse(&at, &origin)?;
            plan_branch(&origin, at, options, dirs)
        });
        let plan = plan.await?;
        if dry_run {
            let (node, inherited) = preview_branch(Some(self), &plan).await?;
            let plan = plan.reply(&node, inherited.as_ref());
            return Ok(BranchCreated { dry_run: true, instruction: Some(instruction.text), ..plan });
        }
        let mut publish = |step: &str| {
            let (step, tag) = (step.to_string(), context.tag);
            let event = EventKind::BranchProgress { step, request_id: None, tag };
            self.inner.events.publish(source.as_ref(), event);
        };
        Ok(create_branch(self, plan, &instruction, &mut publish).await?.reply())
    }
}

impl NodeServer for Engine {
    async fn run_file_job<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, EngineError> + Send + 'static,
    ) -> Result<T, EngineError> {
        self.file_job(|_| work()).await
    }

    async fn list_nodes(&self, request: ListNodes) -> Result<Vec<NodeInfo>, EngineError> {
        let NodeList { mut nodes_info, stopped, .. } =
            Engine::list_nodes(self, request, RequestContext::default()).await?;
        nodes_info.extend(stopped);
        Ok(nodes_info)
    }

    async fn create_node(&self, request: CreateNode) -> Result<(), CreateFailure> {
        Engine::create_node(self, request, RequestContext::default())
            .await
            .map(drop)
            .map_err(|error| CreateFailure { may_exist: error.kind == ErrorKind::Internal, error })
    }

    async fn get_node(&self, request: GetNode) -> Result<NodeInfo, EngineError> {
        Engine::get_node(self, request, RequestContext::default()).await
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
        let turn = async move { Engine::execute_input(&engine, request, RequestContext::default()).await };
        // In a task, so that the turn continues even if its end is not awaited.
        match tokio::spawn(turn).await?? {
            ExecuteReply::Turn(turn) => Ok(*turn),
            ExecuteReply::Accepted(_) => Err(EngineError::internal("the turn is asynchronous")),
        }
    }
}

/// Rejects options that exclude each other, and invalid names.
fn check_conflicts(request: &CreateBranch) -> Result<(), EngineError> {
    for (is_conflict, names) in [
        (request.in_place && request.to.is_some(), "in_place and to"),
        (request.in_place && request.dir.is_some(), "in_place and dir"),
        (request.no_proxy && request.proxy.is_some(), "no_proxy and proxy"),
    ] {
        if is_conflict {
            return Err(EngineError::invalid_request(format!("{names}: only one of them can be given")));
        }
    }
    request.target_id.as_ref().map_or(Ok(()), |target| check_name(target, "node"))
}

fn instruction(request: &CreateBranch) -> Result<Instruction, EngineError> {
    let wait = match request.wait {
        true => Wait::Answer(request.timeout.map(|timeout| timeout.duration())),
        false => Wait::Delivered,
    };
    Ok(Instruction {
        traceparent: request.traceparent.clone(),
        tracestate: request.tracestate.clone(),
        ..Instruction::new(&request.instruction, wait)?
    })
}

fn branch_options(request: CreateBranch, server: &str) -> Result<BranchOptions, EngineError> {
    Ok(BranchOptions {
        node: request.target_id,
        to: request.to.map(|to| absolute_path("to", &to)).transpose()?,
        in_place: request.in_place,
        dir: request.dir.map(|dir| absolute_path("dir", &dir)).transpose()?,
        server: server.to_string(),
        session: request.session_id,
        overrides: NodeOverrides { env: request.env, proxy: request.proxy, no_proxy: request.no_proxy },
    })
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::time::Duration;

    use nerve_record::files::{FileStore, SnapshotKey, SnapshotRequest, choose};
    use nerve_record::meta::Meta;
    use nerve_record::snapshots::{SnapshotLine, append};
    use nerve_types::TsNs;
    use tokio::sync::mpsc;

    use super::*;
    use crate::EngineConfig;
    use crate::data_dirs::DataDirs;
    use crate::engine::MAX_FILE_JOBS;

    /// Plans a branch from a snapshot of a recorded agent.
    fn plan(dirs: &DataDirs, project: &std::path::Path) -> crate::branches::Plan {
        fs::create_dir_all(project).unwrap();
        fs::write(project.join("file"), "old").unwrap();
        let key = SnapshotKey::new("s", 1).unwrap();
        let request = SnapshotRequest { at: TsNs(5), label: None, stop: None };
        let provider = choose(project, &FileStore::new(&dirs.snapshots), 1 << 20).unwrap();
        let files = Some(provider.take(&key, &request).unwrap().files);
        let file = dirs.recordings.join("s.ahr");
        fs::create_dir_all(&dirs.recordings).unwrap();
        let cmd = vec!["claude".to_string()];
        Meta { cmd, cwd: Some(project.to_path_buf()), ..Meta::default() }.store(&file).unwrap();
        let kind = "manual".to_string();
        append(&file, &SnapshotLine { id: 1, ts_ns: 5, label: None, kind, anchor_byte: 7, files }).unwrap();
        plan_branch(&Origin::read(&file).unwrap(), BranchPoint::Snapshot(1), BranchOptions::default(), dirs)
            .unwrap()
    }

    // With a paused clock, a timeout ends only when the runtime is idle: no thread for blocking work is busy.
    #[tokio::test(start_paused = true)]
    async fn files_of_a_branch_wait_for_other_file_jobs() {
        let home = tempfile::tempdir().unwrap();
        let at = |name: &str| home.path().join(name);
        let dirs = DataDirs {
            recordings: at("recordings"),
            snapshots: at("snapshots"),
            branches: at("branches"),
            ..DataDirs::default()
        };
        let plan = plan(&dirs, &at("project"));
        let engine = Engine::new(EngineConfig { data_dirs: Some(dirs.clone()), ..EngineConfig::default() });
        let others = engine.inner.file_jobs.clone().acquire_many_owned(MAX_FILE_JOBS as u32).await.unwrap();
        // Looks while the branch is at the step: a later failure removes the files again.
        let is_restored = move || {
            let branches = fs::read_dir(&dirs.branches).into_iter().flatten().flatten();
            branches.map(|branch| branch.path()).any(|branch| branch.join("file").exists())
        };
        let (sender, mut progress) = mpsc::unbounded_channel();
        let mut on_progress = move |step: &str| drop(sender.send((step.to_string(), is_restored())));
        let branch = tokio::spawn(async move {
            let instruction = Instruction::new("x", Wait::Delivered).unwrap();
            create_branch(&engine, plan, &instruction, &mut on_progress).await
        });
        assert_eq!(progress.recv().await.unwrap(), ("restoring the files".to_string(), false));
        let next = tokio::time::timeout(Duration::from_secs(60), progress.recv()).await;
        assert!(next.is_err(), "{next:?}");
        drop(others);
        assert_eq!(progress.recv().await.unwrap(), ("preparing the conversation".to_string(), true));
        branch.abort();
    }
}
