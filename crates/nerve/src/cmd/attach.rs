//! `nerve attach`: the viewer of a running program.

use anyhow::Result;
use nerve_commands::machine_command;
use nerve_server::paths::ServerPaths;
use nerve_tui::live_viewer::ViewerOptions;
use nerve_tui::terminal;
use nerve_tui::view::layout::Layout;

use crate::cmd::screen_support;
use crate::cmd::server::machines;
use crate::cmd::viewer::{self, AttachTarget, exit_code, exit_message, find_host, open_mirror};
use crate::out;
use crate::settings;
use nerve_cli::attach::AttachArgs;

/// Runs `nerve attach` and returns the exit code.
pub(crate) async fn attach(mut args: AttachArgs) -> Result<u8> {
    machines().resolve_node(&mut args.target, &mut args.server)?;
    if let Some(machine) = machines().find_server(&args.server)? {
        return machine_command::attach(&machines(), &machine, &args.target, &args.options()).await;
    }
    let settings = settings::for_viewer();
    let AttachArgs { target, server, session, .. } = &args;
    let attach_target =
        AttachTarget { target: target.clone(), server: server.clone(), session: session.clone() };
    let entry = find_host(&attach_target).await?;
    screen_support::require(
        "the viewer",
        "'nerve node read NODE' prints the text of a node; 'nerve replay --fast' prints a recording",
    )?;
    let gutter = settings::gutter(&settings, args.gutter);
    let window = terminal::window().unwrap_or_default();
    let room = Layout::program_size(window.cols, window.rows, gutter);
    // A target without the node's name is an id.
    let node = entry.label.get("node").and_then(serde_json::Value::as_str);
    let name = match node.filter(|node| args.target.contains(node)) {
        Some(_) => args.target.clone(),
        None => out::preview(&entry.requested_argv().join(" "), 40),
    };
    let options = ViewerOptions {
        read_only: args.read_only,
        has_colors: settings::has_colors(args.no_colors),
        stay: args.stay,
        ..settings::viewer_options(&settings, name, gutter)
    };
    let mirror = open_mirror(entry, &ServerPaths::from_env(), args.size.into(), Some(room))?;
    let outcome = viewer::run(mirror, options).await?;
    if let Some(switch_to) = outcome.switch_to {
        return (*switch_to).after_leaving(outcome.exit_reason, &attach_target.command()).run().await;
    }
    outcome.faults.iter().for_each(out::warning);
    if let Some(exit_message) = exit_message(outcome.exit_reason, &attach_target.command()) {
        out::note(exit_message);
    }
    Ok(exit_code(outcome.exit_reason))
}
