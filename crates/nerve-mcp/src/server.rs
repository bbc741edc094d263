//! Handles the requests of MCP clients.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use nerve_api::ErrorKind;
use rmcp::ServerHandler;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, ErrorData, Extensions, Implementation,
    ListResourceTemplatesResult, ListResourcesResult, ListToolsResult, PaginatedRequestParams,
    ReadResourceRequestParams, ReadResourceResponse, ServerCapabilities, ServerConfig, SubscriptionFilter,
    Tool,
};
use rmcp::service::{NotificationContext, RequestContext, RoleServer, SubscriptionContext};
use serde_json::json;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::task_tracker::TaskTrackerToken;

use crate::call::Call;
use crate::context::{MAX_ALL_CALLS, ServerContext};
use crate::tool_result::Failure;
use crate::{machines, resources, tools};

/// Maximum number of concurrent tool calls per client; further ones are rejected.
const MAX_CALLS: usize = 128;
/// Instructions for the model.
const INSTRUCTIONS: &str = "\
nerve drives programs in terminals: AI agents (Claude Code, Codex, Gemini CLI, opencode, Kilo, pi, Qwen Code, GitHub Copilot CLI, Kimi Code), \
shells and REPLs. Each is a node. Start one with nerve_create_node, send prompts or commands with nerve_execute and get the complete \
answer, look with nerve_read, end with nerve_stop_node. An error of type 'blocked' means that the agent asks something: answer with \
nerve_answer. Several nodes can work at the same time: call nerve_execute for each. nerve_run_graph runs many steps in the order of \
their dependencies.";

/// The server for one client, or for one request without a session.
#[derive(Debug)]
pub(crate) struct McpServer {
    context: Arc<ServerContext>,
    calls: Semaphore,
    /// Notifications have been started; a client may report more than once that it is initialized.
    is_notifying: AtomicBool,
    /// Cancelled when the client disconnects. Over HTTP, the requests carry the token instead:
    /// [`DisconnectToken`].
    disconnected: CancellationToken,
    /// Counts the server as active until it is dropped.
    _tracker_token: Option<TaskTrackerToken>,
}

/// A token in the extensions of a request, cancelled when its client disconnects. Used where the requests of one server may come
/// from different connections.
#[derive(Debug, Clone)]
pub(crate) struct DisconnectToken(pub(crate) CancellationToken);

impl McpServer {
    pub(crate) fn new(context: Arc<ServerContext>, disconnected: CancellationToken) -> McpServer {
        let calls = Semaphore::new(MAX_CALLS);
        McpServer { context, calls, is_notifying: AtomicBool::new(false), disconnected, _tracker_token: None }
    }

    /// Like [`McpServer::new`], and counted until the last of the SDK's tasks drops the server.
    pub(crate) fn tracked(
        context: Arc<ServerContext>,
        disconnected: CancellationToken,
        tracked: TaskTrackerToken,
    ) -> McpServer {
        McpServer { _tracker_token: Some(tracked), ..McpServer::new(context, disconnected) }
    }

    /// Returns the token that is cancelled when the client of a request disconnects.
    fn disconnected(&self, extensions: &Extensions) -> CancellationToken {
        extensions
            .get::<DisconnectToken>()
            .map_or_else(|| self.disconnected.clone(), |DisconnectToken(disconnected)| disconnected.clone())
    }
}

impl ServerHandler for McpServer {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder()
            .enable_tools()
            .enable_resources()
            .enable_resources_list_changed()
            .build();
        let nerve = Implementation::new("nerve", env!("CARGO_PKG_VERSION")).with_title("nerve");
        ServerConfig::new(capabilities).with_server_info(nerve).with_instructions(INSTRUCTIONS)
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(
            tools::all(self.context.legacy_tools).map(tools::ToolSpec::tool).collect(),
        ))
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        tools::find(name, self.context.legacy_tools).map(tools::ToolSpec::tool)
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let Some(tool) = tools::find(&request.name, self.context.legacy_tools) else {
            let name: String = request.name.chars().take(64).collect();
            let names: Vec<String> =
                tools::all(self.context.legacy_tools).map(|tool| tool.tool().name.to_string()).collect();
            return Err(ErrorData::invalid_params(
                format!("unknown tool {name:?}"),
                Some(json!({ "tools": names })),
            ));
        };
        let permits = (self.calls.try_acquire(), self.context.calls.try_acquire());
        let (Ok(_permit), Ok(_global_permit)) = permits else {
            let limit = if permits.0.is_err() { MAX_CALLS } else { MAX_ALL_CALLS };
            let failure = Failure::new(ErrorKind::Busy, format!("{limit} calls are already running"));
            return Ok(failure.hint("wait for a call to finish, or cancel one").result().into());
        };
        let disconnected = self.disconnected(&context.extensions);
        let mut arguments = request.arguments.unwrap_or_default();
        let machines = self.context.machines.clone();
        let link = match machines.as_ref().map(|machines| machines::resolve(machines, &mut arguments)) {
            Some(Ok(Some(link))) => Arc::new(link),
            Some(Err(failure)) => return Ok(failure.result().into()),
            Some(Ok(None)) | None => Arc::clone(&self.context.link),
        };
        let call = Call::new(link, machines, arguments, &context, disconnected);
        Ok(tool.call(call).await.into())
    }

    async fn list_resources(
        &self,
        request: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        resources::page(&self.context, request.and_then(|page| page.cursor).as_deref()).await
    }

    async fn list_resource_templates(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        Ok(ListResourceTemplatesResult::with_all_items(resources::templates()))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        Ok(resources::read(&self.context, &request.uri).await?.into())
    }

    async fn on_initialized(&self, context: NotificationContext<RoleServer>) {
        if !self.is_notifying.swap(true, Ordering::AcqRel) {
            let disconnected = self.disconnected(&context.extensions);
            self.context.updates.notify_peer(context.peer, &disconnected).await;
        }
    }

    fn accepted_subscription_filter(&self, _: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        Some(SubscriptionFilter::builder().resources_list_changed().build())
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        tokio::select! {
            () = self.context.updates.notify_subscriber(context.sink()) => {}
            () = context.cancelled() => {}
        }
        Ok(())
    }
}
