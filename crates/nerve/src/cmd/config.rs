//! `nerve config`: shows and checks the settings.

use std::fmt::Write;

use anyhow::Result;
use nerve_tui::settings::{NotifySettings, Settings};
use nerve_tui::view::operations::OPERATIONS;
use serde_json::{Map, Value, json};

use crate::out;
use crate::settings;
use nerve_cli::config::{ConfigArgs, ConfigCommand};

pub(crate) fn run(args: ConfigArgs) -> Result<()> {
    match args.command {
        ConfigCommand::Path(args) => match settings::path() {
            path if args.json => out::json(&json!({ "path": path })),
            path => out::line(path.display()),
        },
        ConfigCommand::Show(args) => {
            let settings = settings::load()?;
            if args.json { out::json(&as_json(&settings)) } else { out::piece(&as_toml(&settings)) }
        }
        ConfigCommand::Check(args) => {
            let path = args.file.clone().unwrap_or_else(settings::path);
            let notes = settings::read(&path, args.file.is_some())?.notes;
            if args.json {
                return out::json(
                    &json!({ "path": path, "exists": path.exists(), "notes": notes.as_json() }),
                );
            }
            let state = match (path.exists(), notes.count()) {
                (false, _) => "not found: the defaults apply",
                (true, 0) => "valid",
                (true, _) => {
                    out::line(notes.render(&path))?;
                    "valid, with notes"
                }
            };
            out::line(format_args!("{}: {state}", path.display()))
        }
    }
}

fn as_json(settings: &Settings) -> Value {
    let path = settings::path();
    let (bindings, notify) = (settings.bindings(), &settings.notify);
    let keys: Map<String, Value> =
        OPERATIONS.iter().map(|entry| (entry.name.to_string(), json!(bindings.keys_of(entry)))).collect();
    json!({
        "path": path,
        "exists": path.exists(),
        "agent": { "record": {
            "gutter": <&str>::from(settings.gutter), "clipboard": settings.clipboard, "task": settings.task,
        } },
        "keys": keys,
        "notify": {
            "on": notify.on.iter().map(|occasion| <&str>::from(*occasion)).collect::<Vec<_>>(),
            "min-turn": notify.min_turn, "terminal": notify.terminal, "desktop": notify.desktop,
            "command": notify.command, "webhook": notify.webhook, "ntfy": notify.ntfy,
        },
        "snapshots": { "max-size": settings.snapshot_limit.0 },
    })
}

/// Returns a settings file with every setting.
fn as_toml(settings: &Settings) -> String {
    let bindings = settings.bindings();
    let Settings { clipboard, task, .. } = settings;
    let gutter = <&str>::from(settings.gutter);
    let mut text = format!(
        "[agent.record]\ngutter = \"{gutter}\"\nclipboard = {clipboard}\ntask = {task}\n\n[notify]\n"
    );
    let NotifySettings { on, min_turn, terminal, terminal_format, desktop, command, webhook, ntfy } =
        &settings.notify;
    let terminal = match terminal_format.filter(|_| *terminal) {
        Some(format) => format!("\"{}\"", <&str>::from(format)),
        None => terminal.to_string(),
    };
    let on: Vec<String> = on.iter().map(|occasion| format!("\"{}\"", <&str>::from(*occasion))).collect();
    let _ = writeln!(
        text,
        "on = [{}]\nmin-turn = {min_turn}\nterminal = {terminal}\ndesktop = {desktop}",
        on.join(", ")
    );
    for (name, value) in [("command", command), ("webhook", webhook), ("ntfy", ntfy)] {
        let _ = match value {
            Some(value) => writeln!(text, "{name} = {}", Value::from(value.as_str())),
            None => writeln!(text, "# {name} = \"…\""),
        };
    }
    let _ = write!(text, "\n[snapshots]\nmax-size = \"{}\"\n\n[keys]\n", settings.snapshot_limit);
    for entry in OPERATIONS.iter() {
        let keys = bindings.keys_of(entry);
        let keys: Vec<String> = keys.iter().map(|key| Value::from(key.as_str()).to_string()).collect();
        // JSON strings are valid TOML strings.
        let _ = writeln!(text, "# {}\n{} = [{}]", entry.help, entry.name, keys.join(", "));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shown_settings_round_trip() {
        let defaults = Settings::default();
        let read = Settings::parse(&as_toml(&defaults)).unwrap();
        assert_eq!(as_toml(&read), as_toml(&defaults));
        let mine = Settings::parse(
            "agent.record={gutter='none', clipboard=false}\nsnapshots.max-size='5M'\n[keys]\nquit='\"'\nhelp=[]",
        )
        .unwrap();
        let shown = as_toml(&mine);
        assert!(shown.contains("\nclipboard = false\n") && shown.contains("max-size = \"5M\""), "{shown}");
        assert!(shown.contains("quit = [\"\\\"\"]") && shown.contains("help = []"), "{shown}");
        assert_eq!(as_toml(&Settings::parse(&shown).unwrap()), shown);
    }
}
