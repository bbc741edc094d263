//! Commands on nodes and sessions. Most are shared with the command line.

use anyhow::Result;
use nerve_api::DEFAULT_SESSION;
use nerve_api::ErrorKind;
use nerve_api::request::CreateSession;
use nerve_client::{ClientError, StreamItem};
use nerve_commands::failure::{FAILED, Failure, INTERRUPTED, USAGE};
use nerve_commands::node_command::{
    AnswerArgs, ExecuteArgs, HistoryArgs, NodeArg, NodeCommand, ReadArgs, RunArgs, TurnOptions, WaitArgs,
    WriteArgs, execute, fork, perform,
};
use nerve_commands::out;
use nerve_commands::prompt::Prompt;

use super::command::Command;
use super::interruption::{InterruptAction, Interruption};
use super::shell::Shell;

impl Shell {
    /// Sends a prompt. Streams the answer in interactive mode; scripts get it at the end.
    pub(super) async fn prompt_node(&mut self, node: &str, text: &str) -> Result<()> {
        self.muted_node = Some(node.to_string());
        let done = match self.screen.is_interactive() {
            true => self.stream_answer(node, text).await,
            false => self.run_node_command(execute_command(node, text)).await,
        };
        self.muted_node = None;
        done
    }

    async fn stream_answer(&mut self, node: &str, text: &str) -> Result<()> {
        let mut interruption = Interruption::new(InterruptAction::Turn(node.to_string()));
        let remote = self.client.node(node, self.session().as_deref());
        let started = async { Ok(remote.execute_stream(text).await?) };
        let mut answer = self.wait(&mut interruption, started).await?;
        let mut has_text = false;
        while let Some(item) = self
            .wait(&mut interruption, async { answer.next().await.transpose().map_err(Into::into) })
            .await?
        {
            match item {
                StreamItem::Chunk(chunk) => {
                    has_text |= !chunk.trim().is_empty();
                    self.screen.print_chunk(&chunk)?;
                }
                StreamItem::Missed(count) => {
                    self.screen.note(&format!("{count} chunks of the answer were dropped"))
                }
                StreamItem::Response(data) => {
                    self.screen.end_line()?;
                    if !has_text {
                        execute::print(&data, false)?;
                    }
                    return interruption.resolve(execute::check(&data.response));
                }
            }
        }
        Err(Failure::new(FAILED, "the stream ended without a response").into())
    }

    /// Executes a command on a node.
    pub(super) async fn node_command(&mut self, command: Command) -> Result<()> {
        let command = match command {
            Command::Node(command) => command,
            Command::Fork(args) => NodeCommand::Fork(args),
            Command::Send(args) => execute_command(&args.node, &args.text),
            Command::Read(args) => NodeCommand::Read(ReadArgs { node: args.node, lines: args.lines }),
            Command::Run(args) => NodeCommand::Run(RunArgs { node: args.node, command: args.text }),
            Command::Write(args) => NodeCommand::Write(WriteArgs {
                node: args.node,
                // A dash means itself, not standard input.
                data: Some(if args.text == "-" { "\\x2d".to_string() } else { args.text }),
                escape: true,
                keys: Vec::new(),
            }),
            Command::Interrupt(args) => NodeCommand::Interrupt(NodeArg { node: args.node }),
            Command::Wait(args) => NodeCommand::Wait(WaitArgs {
                node: args.node,
                until: vec![args.state],
                timeout: args.timeout,
            }),
            Command::History(args) => NodeCommand::History(HistoryArgs {
                node: args.node,
                last: args.last,
                op: None,
                seq: None,
                inputs_only: false,
                all: false,
                summary: false,
            }),
            Command::Why(args) => NodeCommand::Why(NodeArg { node: args.node }),
            Command::Answer(args) => NodeCommand::Answer(AnswerArgs {
                node: args.node,
                choice: Some(args.choice.join(" ")),
                cancel: false,
                wait: true,
                timeout: None,
            }),
            // The caller handles all others.
            _ => return Ok(()),
        };
        self.run_node_command(command).await
    }

    /// Executes a `nerve node` command.
    async fn run_node_command(&mut self, command: NodeCommand) -> Result<()> {
        reject_standard_input(&command)?;
        let session = self.session();
        let context = self.command_context();
        match command {
            NodeCommand::Create(args) => {
                let name = args.name.clone();
                let done = perform(&context, NodeCommand::Create(args));
                self.start_node(session.as_deref(), &name, done).await
            }
            NodeCommand::Start(args) => {
                let name = args.node.clone();
                let done = perform(&context, NodeCommand::Start(args));
                self.start_node(session.as_deref(), &name, done).await
            }
            NodeCommand::Fork(mut args) => {
                args.node = fork::source(&args.node).to_string();
                let name = match args.target.take() {
                    Some(name) => name,
                    None => fork::free_name(&context.client, session.as_deref(), &args.node).await?,
                };
                args.target = Some(name.clone());
                let done = perform(&context, NodeCommand::Fork(args));
                self.start_node(session.as_deref(), &name, done).await
            }
            NodeCommand::Stop(args) | NodeCommand::Delete(args) | NodeCommand::Close(args) => {
                let name = args.node.clone();
                self.wait_briefly(perform(&context, NodeCommand::Stop(args))).await?;
                self.started.remove(session.as_deref(), &name);
                Ok(())
            }
            NodeCommand::Execute(args) | NodeCommand::Send(args) => {
                let mut interruption = Interruption::new(InterruptAction::Turn(args.node.clone()));
                let done = perform(&context, NodeCommand::Execute(args));
                let done = self.wait(&mut interruption, done).await;
                interruption.resolve(done)
            }
            NodeCommand::Answer(args) if args.wait => {
                let mut interruption = Interruption::new(InterruptAction::Turn(args.node.clone()));
                let done = perform(&context, NodeCommand::Answer(args));
                let done = self.wait(&mut interruption, done).await;
                interruption.resolve(done)
            }
            other => self.wait_briefly(perform(&context, other)).await,
        }
    }

    /// Awaits `work`, which starts a node, and registers the node to be stopped at exit. It stays registered if the start is
    /// interrupted, because it may still succeed.
    async fn start_node(
        &mut self,
        session: Option<&str>,
        name: &str,
        work: impl Future<Output = Result<()>>,
    ) -> Result<()> {
        let is_new = self.started.add(session, name);
        // The command reports the start itself.
        self.muted_node = Some(name.to_string());
        let done = self.wait_briefly(work).await;
        self.muted_node = None;
        let failed = done.as_ref().err().map(Failure::from_error);
        if is_new && failed.is_some_and(|failure| failure.code != INTERRUPTED) {
            self.started.remove(session, name);
        }
        done
    }

    /// Shows the current session, or switches to another one.
    pub(super) async fn switch_session(&mut self, name: Option<String>) -> Result<()> {
        let client = self.client.clone();
        let Some(name) = name else {
            let current = self.session();
            let session = self.wait_briefly(async { Ok(client.session(current.as_deref()).await?) }).await?;
            return out::fields(&[
                ("session", session.name.clone()),
                ("description", session.description.clone()),
                ("nodes", session.nodes.join(", ")),
                ("graphs", session.graphs.join(", ")),
            ]);
        };
        let lookup = self.wait_briefly(async { Ok(client.session(Some(&name)).await) }).await?;
        match lookup {
            Ok(_) => {}
            Err(ClientError::Server(error)) if error.details.error_type == ErrorKind::NotFound => {
                let params = CreateSession { name: name.clone(), ..CreateSession::default() };
                self.wait_briefly(async { Ok(client.create_session(&params).await?) }).await?;
                out::line(format_args!("session '{name}' created"))?;
            }
            Err(error) => return Err(error.into()),
        }
        self.state.lock().session = Some(name).filter(|name| name != DEFAULT_SESSION);
        Ok(())
    }

    /// Prints a table of the sessions.
    pub(super) async fn list_sessions(&mut self) -> Result<()> {
        let client = self.client.clone();
        let sessions = self.wait_briefly(async { Ok(client.sessions().await?) }).await?;
        let current = self.session();
        let row = |session: nerve_api::reply::SessionInfo| {
            let here = session.name == current.as_deref().unwrap_or(DEFAULT_SESSION);
            let mark = if here { "here" } else { "" }.to_string();
            vec![session.name, session.nodes.len().to_string(), session.graphs.len().to_string(), mark]
        };
        let rows: Vec<Vec<String>> = sessions.into_iter().map(row).collect();
        out::table(&["session", "nodes", "graphs", ""], &rows)
    }
}

fn execute_command(node: &str, text: &str) -> NodeCommand {
    NodeCommand::Execute(ExecuteArgs {
        node: node.to_string(),
        prompt: Prompt { text: Some(text.to_string()), file: None },
        parser: None,
        timeout: None,
        stream: false,
        fail_if_busy: false,
        fail_if_blocked: false,
        detach: false,
        turn_options: TurnOptions::default(),
    })
}

/// Rejects `-` as text, because commands come from standard input.
fn reject_standard_input(command: &NodeCommand) -> Result<(), Failure> {
    let text = match command {
        NodeCommand::Execute(args) | NodeCommand::Send(args) => args.prompt.text.as_deref(),
        NodeCommand::Write(args) => args.data.as_deref(),
        _ => None,
    };
    match text {
        Some("-") => {
            Err(Failure::new(USAGE, "cannot read text from standard input: it provides the commands")
                .hint("for text of several lines, end the line with \"\"\""))
        }
        _ => Ok(()),
    }
}
