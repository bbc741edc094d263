//! `nerve tmux` and `nerve wezterm`: panes without a nerve server.

mod multiplexer;

use std::path::Path;

use anyhow::{Context, Result};
use nerve_commands::prompt::{decode_utf8, read_standard_input};
use nerve_host::backend::PaneInfo;
use nerve_mux::pane::NewPane;
use nerve_types::Size;
use nerve_vt::keys::{Code, Key};
use serde_json::{Value, json};

use crate::exit::{self, FAILED, Failure, NOT_FOUND, USAGE};
use crate::out;
use nerve_cli::pane::{PaneCommand, PanesArgs, ReadArgs, SendArgs, SpawnArgs};

pub(crate) use multiplexer::Multiplexer;

/// Runs the subcommand.
pub(crate) async fn run(multiplexer: Multiplexer, args: PanesArgs) -> Result<()> {
    let json = args.json;
    match args.command {
        PaneCommand::List => list(&multiplexer, json).await,
        PaneCommand::Spawn(args) => spawn(&multiplexer, args, json).await,
        PaneCommand::Send(args) => send(&multiplexer, args, json).await,
        PaneCommand::Read(args) => read(&multiplexer, &args, json).await,
        PaneCommand::Kill(args) => {
            multiplexer.kill(&args.pane).await?;
            if json { out::json(&json!({ "pane_id": args.pane })) } else { Ok(()) }
        }
    }
}

async fn list(multiplexer: &Multiplexer, json: bool) -> Result<()> {
    let panes = multiplexer.list().await?;
    print(&[(multiplexer.name(), panes)], json)
}

/// Lists the panes of all available multiplexers.
pub(crate) async fn list_all(socket: Option<&str>, json: bool) -> Result<()> {
    let (mut lists, mut missing) = (Vec::new(), Vec::new());
    for multiplexer in [Multiplexer::tmux(socket), Multiplexer::wezterm(socket)] {
        match multiplexer.list().await {
            Ok(panes) => lists.push((multiplexer.name(), panes)),
            Err(error) => missing.push(exit::failure(&error).message),
        }
    }
    if lists.is_empty() {
        let message = format!("no panes found: {}", missing.join("; "));
        return Err(Failure::new(NOT_FOUND, message).hint("create one: nerve tmux spawn").into());
    }
    missing.iter().for_each(out::note);
    print(&lists, json)
}

fn print(lists: &[(&str, Vec<PaneInfo>)], json: bool) -> Result<()> {
    let panes = lists.iter().flat_map(|(owner, panes)| panes.iter().map(move |pane| (*owner, pane)));
    if json {
        let panes = panes.map(|(owner, pane)| as_json(owner, pane)).collect::<Result<Vec<Value>>>()?;
        return out::json(&json!({ "panes": panes }));
    }
    let rows: Vec<Vec<String>> = panes.map(|(_, pane)| row(pane)).collect();
    out::table(&["pane", "session", "window", "size", "active", "command", "title", "cwd"], &rows)
}

fn as_json(owner: &str, pane: &PaneInfo) -> Result<Value> {
    let mut value = serde_json::to_value(pane).context("cannot serialize a pane")?;
    value["multiplexer"] = owner.to_lowercase().into();
    Ok(value)
}

fn row(pane: &PaneInfo) -> Vec<String> {
    let size = format!("{}x{}", pane.cols, pane.rows);
    let active = if pane.active { "yes" } else { "" };
    let cwd = pane.cwd.as_deref().map(|cwd| cwd.display().to_string()).unwrap_or_default();
    vec![
        pane.pane.clone(),
        pane.session.clone(),
        pane.window.clone(),
        size,
        active.to_string(),
        pane.command.clone().unwrap_or_default(),
        out::preview(&pane.title, 40),
        cwd,
    ]
}

async fn spawn(multiplexer: &Multiplexer, args: SpawnArgs, json: bool) -> Result<()> {
    if args.name.is_some() && matches!(multiplexer, Multiplexer::Wezterm(_)) {
        out::warning("--name is ignored: WezTerm's command line cannot name windows");
    }
    let argv = match &args.command {
        Some(command) => words(command)?,
        None => Vec::new(),
    };
    let new = NewPane {
        argv,
        cwd: Some(directory(args.cwd.as_deref())?),
        env: args.env.into_iter().map(|pair| (pair.key, pair.value)).collect(),
        size: Size::new(args.cols, args.rows),
        session: args.session,
        name: args.name,
        ..NewPane::default()
    };
    let pane = multiplexer.spawn(&new).await?;
    if json { out::json(&json!({ "pane_id": pane })) } else { out::line(pane) }
}

/// Splits a command like a shell, without running one.
fn words(command: &str) -> Result<Vec<String>> {
    let words = shell_words::split(command)
        .map_err(|error| Failure::new(USAGE, format!("cannot split the command '{command}': {error}")))?;
    if words.is_empty() {
        return Err(Failure::new(USAGE, "the command is empty").into());
    }
    Ok(words)
}

fn directory(cwd: Option<&Path>) -> Result<std::path::PathBuf> {
    let here = std::env::current_dir().context("cannot find the current directory")?;
    let path = cwd.map_or_else(|| here.clone(), |cwd| here.join(cwd));
    if path.is_dir() {
        return Ok(path);
    }
    Err(Failure::new(FAILED, format!("{} is not a directory", path.display())).into())
}

async fn send(multiplexer: &Multiplexer, args: SendArgs, json: bool) -> Result<()> {
    let keys: Vec<Key> = args
        .keys
        .iter()
        .map(|name| name.parse().map_err(|error| Failure::new(USAGE, format!("{error}"))))
        .collect::<Result<_, _>>()?;
    let text = match args.text.as_deref() {
        Some("-") => Some(decode_utf8(read_standard_input()?, "standard input")?),
        other => other.map(str::to_string),
    };
    if let Some(text) = text {
        multiplexer.paste(&args.pane, &text).await?;
        if keys.is_empty() && !args.no_submit {
            multiplexer.press(&args.pane, Key::plain(Code::Enter)).await?;
        }
    }
    for key in keys {
        multiplexer.press(&args.pane, key).await?;
    }
    if json { out::json(&json!({ "pane_id": args.pane })) } else { Ok(()) }
}

async fn read(multiplexer: &Multiplexer, args: &ReadArgs, json: bool) -> Result<()> {
    let text = multiplexer.text(&args.pane, args.full, args.lines).await?;
    if json {
        return out::json(&json!({ "pane_id": args.pane, "text": text }));
    }
    out::text(&text)
}
