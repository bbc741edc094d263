//! `nerve profile`: lists, prints, tests and drafts profiles.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result};
use nerve_agent::profile::{Profile, ProfileError, Profiles};
use nerve_cli::profile::{ListArgs, NewArgs, ProfileCommand, ShowArgs, TestArgs};
use nerve_node::profiles;
use nerve_profile_tools::{DraftError, DraftedNames, ProfileTest, draft_profile, read_turns};
use nerve_server::paths::ServerPaths;
use serde_json::{Value, json};

use super::recording::{find_named, load_meta, read_failure, size};
use crate::exit::{DONE, FAILED, Failure, NOT_FOUND, USAGE};
use crate::out;

/// Longest pattern or row in a report, in characters.
const MAX_PREVIEW_CHARS: usize = 100;

/// Runs a command of `nerve profile` and returns the exit code.
pub(super) fn run(command: &ProfileCommand) -> Result<u8> {
    match command {
        ProfileCommand::List(args) => list(args).map(|()| DONE),
        ProfileCommand::Show(args) => show(args).map(|()| DONE),
        ProfileCommand::Test(args) => test(args),
        ProfileCommand::New(args) => new(args).map(|()| DONE),
    }
}

fn load() -> (Profiles, Vec<ProfileError>) {
    profiles::load(Some(&ServerPaths::from_env().data.profiles))
}

fn list(args: &ListArgs) -> Result<()> {
    let (profiles, errors) = load();
    let folder = ServerPaths::from_env().data.profiles;
    let listed =
        profiles.names().into_iter().filter_map(|name| Some((profiles.get(name)?, profiles.source(name)?)));
    if args.json {
        let profiles = listed.map(|(profile, source)| {
            json!({ "profile": profile.name, "programs": profile.programs, "file": source.file })
        });
        let errors = errors.iter().map(error_json);
        return out::json(&json!({
            "profiles": profiles.collect::<Vec<_>>(),
            "errors": errors.collect::<Vec<_>>(),
            "directory": folder,
        }));
    }
    let rows: Vec<Vec<String>> = listed
        .map(|(profile, source)| {
            let file = source.file.clone().unwrap_or_else(|| "built-in".to_string());
            vec![profile.name.clone(), profile.programs.join(", "), file]
        })
        .collect();
    out::table(&["profile", "programs", "file"], &rows)?;
    errors.iter().for_each(out::warning);
    out::note(format_args!("your own profiles: {}", folder.display()));
    Ok(())
}

fn error_json(error: &ProfileError) -> Value {
    json!({ "file": error.file, "line": error.line, "column": error.column, "message": error.message })
}

fn show(args: &ShowArgs) -> Result<()> {
    let (profiles, errors) = load();
    let source =
        profiles.source(&args.profile).ok_or_else(|| unknown_profile(&args.profile, &profiles, &errors))?;
    match args.json {
        true => out::json(&json!({ "profile": args.profile, "file": source.file, "text": source.text })),
        false => out::text(&source.text),
    }
}

fn unknown_profile(name: &str, profiles: &Profiles, errors: &[ProfileError]) -> Failure {
    let failure = Failure::new(NOT_FOUND, format!("no profile '{name}'"));
    match errors.iter().find(|error| Path::new(&error.file).file_stem().is_some_and(|stem| stem == name)) {
        Some(error) => failure.hint(format!("not loaded: {error}")),
        None => failure
            .hint(format!("profiles: {}; list them with 'nerve profile list'", profiles.names().join(", "))),
    }
}

fn test(args: &TestArgs) -> Result<u8> {
    let profile = find_profile(&args.profile)?;
    let mut test = ProfileTest::new(profile);
    let history = ServerPaths::from_env().data.history;
    for name in &args.recordings {
        let path = find_named(Some(name))?;
        let meta = load_meta(&path);
        let turns = read_turns(&history, &meta).unwrap_or_else(|error| {
            out::warning(error);
            Vec::new()
        });
        test.add_recording(&path, size(&meta), &turns).map_err(read_failure)?;
    }
    let report = test.finish();
    let code = if report.has_mismatches() { FAILED } else { DONE };
    if args.json {
        return out::json(&report).map(|()| code);
    }
    out::text(&report.to_text(|text| out::preview(text, MAX_PREVIEW_CHARS)))?;
    let damaged = report.recordings.iter().filter(|recording| recording.is_damaged);
    damaged.for_each(|recording| out::warning(format_args!("parts of {} are lost", recording.path)));
    report.warnings().iter().for_each(out::warning);
    report.mismatches().iter().for_each(out::warning);
    Ok(code)
}

/// Reads the profile from a file, or finds a loaded one by its name.
fn find_profile(name: &str) -> Result<Arc<Profile>> {
    let path = Path::new(name);
    if name.contains('/') || name.ends_with(".toml") || path.is_file() {
        let text = std::fs::read_to_string(path)
            .map_err(|error| Failure::new(NOT_FOUND, format!("cannot read {name}: {error}")))?;
        let profile = Profile::parse(name, &text).map_err(|error| {
            Failure::new(FAILED, error.to_string())
                .hint("compare it with a built-in profile: nerve profile show claude")
        })?;
        return Ok(Arc::new(profile));
    }
    let (profiles, errors) = load();
    profiles.get(name).ok_or_else(|| unknown_profile(name, &profiles, &errors).into())
}

fn new(args: &NewArgs) -> Result<()> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if args.name.is_empty() || !args.name.chars().all(is_name) {
        let failure = Failure::new(USAGE, format!("invalid profile name '{}'", args.name));
        return Err(failure.hint("use letters, digits, '-' and '_'").into());
    }
    let path = find_named(Some(&args.recording))?;
    let meta = load_meta(&path);
    let command = if meta.requested_cmd.is_empty() { &meta.cmd } else { &meta.requested_cmd };
    let recorded = command.first().and_then(|program| Path::new(program).file_name()?.to_str());
    let names = DraftedNames { name: &args.name, program: args.program.as_deref().or(recorded) };
    let text = draft_profile(&path, size(&meta), names).map_err(draft_failure)?;
    let Some(output) = &args.output else { return out::text(&text) };
    let written = File::create_new(output).and_then(|mut file| file.write_all(text.as_bytes()));
    written.with_context(|| format!("cannot write {}", output.display()))?;
    out::note(format_args!("next: nerve profile test {} --recording {}", output.display(), args.recording));
    Ok(())
}

fn draft_failure(error: DraftError) -> anyhow::Error {
    match error {
        DraftError::Recording(error) => read_failure(error),
        DraftError::NoPrompt => Failure::new(FAILED, format!("cannot draft a profile: {error}"))
            .hint("record a session in a node: wait until the program is idle, then type a prompt")
            .into(),
        error @ DraftError::Profile(_) => {
            Failure::new(FAILED, format!("cannot draft a profile: {error}")).into()
        }
    }
}
