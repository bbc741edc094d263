//! `nerve config`: shows and checks the settings.

use std::fmt::Write;

use anyhow::Result;
use nerve_view::draw::Gutter;
use nerve_view::keys::OPERATIONS;
use serde_json::{Map, Value, json};

use crate::cli::config::{ConfigArgs, ConfigCommand};
use crate::out;
use crate::settings::{self, Settings};

pub(crate) fn run(args: ConfigArgs) -> Result<()> {
    match args.command {
        ConfigCommand::Path(_) => out::line(settings::path().display()),
        ConfigCommand::Show(args) => {
            let settings = Settings::load()?;
            if args.json { out::json(&as_json(&settings)) } else { out::piece(&as_toml(&settings)) }
        }
        ConfigCommand::Check(args) => {
            let path = args.file.clone().unwrap_or_else(settings::path);
            let notes = Settings::read(&path, args.file.is_some())?.notes;
            let state = match (path.exists(), notes.count()) {
                (false, _) => "not there: the usual settings count",
                (true, 0) => "nothing is wrong",
                (true, _) => {
                    out::line(notes.of(&path))?;
                    "nothing is wrong, but see the notes"
                }
            };
            out::line(format_args!("{}: {state}", path.display()))
        }
    }
}

fn word(gutter: Gutter) -> &'static str {
    match gutter {
        Gutter::Left => "left",
        Gutter::Right => "right",
        Gutter::None => "none",
    }
}

fn as_json(settings: &Settings) -> Value {
    let path = settings::path();
    let bindings = settings.bindings();
    let keys: Map<String, Value> =
        OPERATIONS.iter().map(|entry| (entry.name.to_string(), json!(bindings.keys_of(entry)))).collect();
    json!({
        "path": path,
        "exists": path.exists(),
        "agent": { "record": { "gutter": word(settings.gutter), "clipboard": settings.clipboard } },
        "keys": keys,
    })
}

/// A file that sets all of it.
fn as_toml(settings: &Settings) -> String {
    let bindings = settings.bindings();
    let (gutter, clipboard) = (word(settings.gutter), settings.clipboard);
    let mut text = format!("[agent.record]\ngutter = \"{gutter}\"\nclipboard = {clipboard}\n\n[keys]\n");
    for entry in OPERATIONS.iter() {
        let keys = bindings.keys_of(entry);
        let keys: Vec<String> = keys.iter().map(|key| Value::from(key.as_str()).to_string()).collect();
        // Strings of JSON are strings of TOML.
        let _ = writeln!(text, "# {}\n{} = [{}]", entry.help, entry.name, keys.join(", "));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_can_be_read_and_changes_nothing() {
        let usual = Settings::default();
        let read = Settings::parse(&as_toml(&usual)).unwrap();
        assert_eq!(as_toml(&read), as_toml(&usual));
        let mine =
            Settings::parse("agent.record={gutter='none', clipboard=false}\n[keys]\nquit='\"'\nhelp=[]")
                .unwrap();
        let shown = as_toml(&mine);
        assert!(shown.contains("\nclipboard = false\n"), "{shown}");
        assert!(shown.contains("quit = [\"\\\"\"]") && shown.contains("help = []"), "{shown}");
        assert_eq!(as_toml(&Settings::parse(&shown).unwrap()), shown);
    }
}
