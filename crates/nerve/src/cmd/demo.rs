//! `nerve demo`: sends three prompts to a node of a private server.

use std::time::Duration;

use anyhow::{Context, Result};
use nerve_api::reply::{NodeHistory, Turn};
use nerve_api::request::{CommandLine, CreateNode, ExecuteInput, GetHistory, Subscribe};
use nerve_api::value::NodeState;
use nerve_api::{ErrorKind, EventMessage};
use nerve_client::{ClientError, EventStream, NerveClient, Reconnect, RemoteNode};
use nerve_commands::node_command::{entries, execute};
use nerve_compose::{create_socket_server, engine_config};
use nerve_server::config::ServerConfig;
use nerve_server::paths::ServerPaths;
use serde_json::{Value, json};

use crate::exit::Failure;
use crate::out;
use nerve_cli::local_commands::DemoArgs;

/// Time limit for the agent's start and for each turn.
const TIMEOUT: Duration = Duration::from_secs(120);

/// Prompts for the built-in agent: a short answer, a long one with code, a tool use.
const MOCK_PROMPTS: [&str; 3] = ["hello from nerve", "LONG please, with code", "TOOL please"];
/// The corresponding prompts for a real agent.
const PROMPTS: [&str; 3] = [
    "Say hello in one short sentence.",
    "Write a Python function that returns the n-th Fibonacci number, and explain it in three short paragraphs.",
    "List the files in this directory, using a tool, and tell me how many there are.",
];

/// Maximum length in bytes of the parent of the demo's directory. Below it, `run/hosts/0123456789ab/hooks/socket` must still fit the
/// system's limit for socket paths.
const LONGEST_PARENT: usize = 50;

/// Runs the demo on its own server in a temporary directory.
pub(crate) async fn run(args: DemoArgs) -> Result<()> {
    let mut parent = std::env::temp_dir();
    if parent.as_os_str().len() > LONGEST_PARENT {
        parent = "/tmp".into();
    }
    let home = tempfile::Builder::new().prefix("nerve-demo-").tempdir_in(parent);
    let home = home.context("cannot create a directory")?;
    let paths = ServerPaths::under(home.path());
    let mut config = engine_config("demo", &paths, crate::current_exe::path().ok());
    config.nodes.profile_dir = Some(ServerPaths::from_env().data.profiles);
    let stop = nerve_server::stop_signal();
    let server = create_socket_server(&ServerConfig::new("demo", paths.clone()), config)?;
    let result = tokio::select! {
        result = show(&args, &paths) => result,
        () = stop => Err(Failure::interrupted().into()),
    };
    server.stop().await?;
    result
}

async fn show(args: &DemoArgs, paths: &ServerPaths) -> Result<()> {
    let socket = paths.socket("demo")?;
    print_status(args, format_args!("server   listening on {}", socket.display()));
    let client = NerveClient::connect(&socket).await?.reconnect(Reconnect::Never);
    let events = client.subscribe(&Subscribe::default()).await?;
    // A separate task prints events, because states change while a turn is awaited.
    let quiet = args.json;
    let event_task = tokio::spawn(async move { print_events(events, quiet).await });
    let node = client.create_node(&node_params(args)?).await?;
    node.wait(&[NodeState::Ready], Some(TIMEOUT)).await?;
    let prompts = if args.command.is_some() { PROMPTS } else { MOCK_PROMPTS };
    let mut turns = Vec::new();
    for prompt in prompts {
        turns.extend(turn(args, &node, prompt).await?);
    }
    let history = node.history(&GetHistory::default()).await?;
    node.stop().await?;
    drop((node, client));
    let events = event_task.await.context("cannot print the events")?;
    if args.json {
        return out::json(&report(&turns, &history, &events));
    }
    out::line(format_args!("\n{}history{:#} of the node, as stored on disk:", out::STRONG, out::STRONG))?;
    entries::print(&history.entries)?;
    next_steps(args)
}

async fn turn(args: &DemoArgs, node: &RemoteNode, prompt: &str) -> Result<Option<Turn>> {
    if !args.json {
        out::line(format_args!("\n{}> {prompt}{:#}", out::STRONG, out::STRONG))?;
    }
    let input = ExecuteInput { timeout: Some(TIMEOUT.into()), ..ExecuteInput::from(prompt) };
    let data = match node.execute(input).await {
        Err(ClientError::Server(error)) if error.details.error_type == ErrorKind::Blocked => {
            return cancel_dialog(args, node, &error.details.choices).await;
        }
        answered => answered?,
    };
    if !args.json {
        for section in &data.response.sections {
            let tool = section.metadata.get("tool").map(String::as_str);
            let kind =
                [Some(section.kind.as_str()), tool].into_iter().flatten().collect::<Vec<_>>().join(" ");
            out::line(format_args!("{}[{kind}]{:#}", out::FAINT, out::FAINT))?;
            out::text(&section.content)?;
        }
        let response = &data.response;
        print_status(
            args,
            format_args!(
                "turn {}   prompt {}, read from the {}",
                data.turn, response.delivery, response.source
            ),
        );
    }
    execute::check(&data.response)?;
    Ok(Some(data))
}

/// Shows the dialog of a blocked agent and cancels it, because the demo has no user to decide.
async fn cancel_dialog(args: &DemoArgs, node: &RemoteNode, choices: &[String]) -> Result<Option<Turn>> {
    print_status(args, format_args!("the agent shows a dialog: {}", choices.join(" / ")));
    print_status(args, format_args!("the demo cancels it; outside the demo, answer with `nerve answer`"));
    node.cancel_dialog().await?;
    node.wait(&[NodeState::Ready], Some(TIMEOUT)).await?;
    Ok(None)
}

fn node_params(args: &DemoArgs) -> Result<CreateNode> {
    let program = crate::current_exe::path()?;
    let program = program.to_str().context("the path of this program is not UTF-8")?.to_string();
    let command = match &args.command {
        Some(command) => CommandLine::Text(command.clone()),
        None => CommandLine::Argv(vec![program, "mock-agent".to_string()]),
    };
    // The built-in agent imitates Claude Code.
    let profile = args.command.is_none().then(|| "claude".to_string());
    let cwd = std::env::current_dir().ok().filter(|dir| dir.to_str().is_some());
    Ok(CreateNode { command: Some(command), profile, cwd, ..CreateNode::new("demo") })
}

async fn print_events(mut events: EventStream, quiet: bool) -> Vec<EventMessage> {
    let mut log = Vec::new();
    while let Some(event) = events.next().await {
        // The answer itself is printed.
        if !quiet && event.event_type != "OUTPUT_PARSED" {
            let detail = ["evidence", "kind", "reason"].iter().find_map(|key| event.data.get(key)?.as_str());
            let name = event.event_type.to_lowercase().replace('_', " ");
            let line = format!("{name:<13} {}", detail.unwrap_or_default());
            out::note(format_args!("{}{}{:#}", out::FAINT, line.trim_end(), out::FAINT));
        }
        let last = event.event_type == "NODE_STOPPED";
        log.push(event);
        if last {
            break;
        }
    }
    log
}

fn print_status(args: &DemoArgs, text: std::fmt::Arguments<'_>) {
    if !args.json {
        out::note(format_args!("{}{text}{:#}", out::FAINT, out::FAINT));
    }
}

fn report(turns: &[Turn], history: &NodeHistory, events: &[EventMessage]) -> Value {
    json!({
        "turns": turns.iter().map(|turn| &turn.response).collect::<Vec<_>>(),
        "history": history.entries,
        "events": events,
    })
}

fn next_steps(args: &DemoArgs) -> Result<()> {
    let agent = args.command.as_deref().unwrap_or("claude");
    let agent = if agent.contains(char::is_whitespace) { format!("\"{agent}\"") } else { agent.to_string() };
    out::line(format_args!("\n{}next steps{:#}", out::STRONG, out::STRONG))?;
    let ask = format!("nerve ask --command {agent} 'Say hello'");
    let create = format!("nerve new me -c {agent}");
    let steps = [
        ("nerve doctor", "list the installed agents"),
        (ask.as_str(), "ask a real agent one question"),
        ("nerve server start", "start a background server"),
        (create.as_str(), "create a node on it"),
    ];
    let width = steps.iter().map(|(command, _)| command.len()).max().unwrap_or(0);
    for (command, purpose) in steps {
        out::line(format_args!("  {command:<width$}  {purpose}"))?;
    }
    Ok(())
}
