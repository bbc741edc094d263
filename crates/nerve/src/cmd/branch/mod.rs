//! `nerve branch`: arguments and output.

mod report;

use std::path::{Path, PathBuf};

use anyhow::Result;
use nerve_api::EventType;
use nerve_api::reply::BranchCreated;
use nerve_api::request::{CreateBranch, Seconds, Subscribe};
use nerve_engine::branches::{
    BranchOptions, BranchPoint, Instruction, NodeOverrides, Origin, Wait, create_branch, plan_branch,
    preview_branch,
};
use nerve_engine::data_dirs::DataDirs;
use nerve_engine::recordings;
use nerve_node::error::ErrorKind;
use nerve_record::lookup::{Candidate, Name};
use nerve_server::paths::ServerPaths;
use tokio::sync::watch;

use crate::cmd::recording;
use crate::cmd::server::machines;
use crate::cmd::server::{self, LocalServer};
use crate::exit::{Failure, USAGE};
use crate::{out, trace};
use nerve_cli::branch::BranchArgs;
use nerve_commands::node_command::{execute, proxy_params};
use nerve_commands::prompt::{self, Prompt};

/// Progress shown before the first step.
const FIRST_STEP: &str = "branching";
/// Maximum characters shown of a server's step.
const MAX_STEP: usize = 100;

/// Runs the command.
pub(crate) async fn command(mut args: BranchArgs) -> Result<()> {
    if let [recording, _] = &mut args.words[..]
        && !Path::new(recording.as_str()).exists()
    {
        machines().resolve_recording(recording, &mut args.server.server)?;
    }
    let Some((recording, instruction)) = args.positionals() else {
        let message = "too many arguments: expected [RECORDING] INSTRUCTION";
        return Err(Failure::new(USAGE, message).hint("quote an instruction of several words").into());
    };
    let dirs = ServerPaths::from_env().data;
    if recording.is_none() {
        check_instruction(instruction, &dirs)?;
    }
    let text = prompt::read(&Prompt { text: Some(instruction.to_string()), file: None })?;
    if server::is_remote(&args.server.server) {
        let recording = recording.map(str::to_string);
        return remote(args, recording, text).await;
    }
    let origin = match recording {
        Some(name) => Origin::find(name, &dirs)?,
        None => Origin::from_recording(&recording::find_named(None)?)?,
    };
    let wait = match args.no_wait {
        true => Wait::Delivered,
        false => Wait::Answer(args.timeout.map(|timeout| timeout.0)),
    };
    let instruction = Instruction {
        traceparent: trace::parent(),
        tracestate: trace::state(),
        ..Instruction::new(&text, wait)?
    };
    let options = BranchOptions {
        node: args.node,
        to: args.to,
        in_place: args.in_place,
        dir: args.dir,
        server: args.server.server,
        session: args.session,
        overrides: NodeOverrides {
            env: args.env.into_iter().map(|pair| (pair.key, pair.value)).collect(),
            proxy: proxy_params(args.proxy)?,
            no_proxy: args.no_proxy,
        },
    };
    let at = BranchPoint::parse(&args.at, &origin)?;
    // Planning reads transcripts, which can be large, and runs git.
    let plan = tokio::task::spawn_blocking(move || plan_branch(&origin, at, options, &dirs)).await??;
    let json = args.server.json;
    if args.dry_run {
        let server = LocalServer::connect(&plan.server).await.ok();
        let (name, inherited) = preview_branch(server.as_ref(), &plan).await?;
        return report::print_plan(&plan, &name, inherited.as_ref(), &text, json);
    }
    if !json {
        report::print_notes(&plan);
    }
    let (step, steps) = watch::channel(FIRST_STEP.to_string());
    let mut show = |label: &str| drop(step.send_replace(label.to_string()));
    let work = async {
        let server = LocalServer::connect_or_start(&plan.server, &mut show).await?;
        anyhow::Ok(create_branch(&server, plan, &instruction, &mut show).await?)
    };
    finish(out::progress_with_steps(steps, work).await?.reply(), json)
}

/// Checks that the only argument is an instruction.
///
/// # Errors
/// Exit code 2 if it names a recording.
fn check_instruction(instruction: &str, dirs: &DataDirs) -> Result<(), Failure> {
    if !is_recording(instruction, dirs) {
        return Ok(());
    }
    let message = format!("no instruction: '{instruction}' is a recording");
    let word = shell_words::quote(instruction);
    Err(Failure::new(USAGE, message).hint(format!(
        "add an instruction: nerve branch {word} 'INSTRUCTION'; if '{word}' is the instruction, put the recording before it"
    )))
}

/// Returns true if an instruction is the name of a recording or session.
fn is_recording(instruction: &str, dirs: &DataDirs) -> bool {
    match recordings::find_session(dirs, instruction) {
        Ok(Candidate { path: Some(path), .. }) if path == Path::new(instruction) => {
            recordings::check(&path).is_ok()
        }
        Ok(entry) => {
            // A word can be the beginning of an id by chance.
            let is_word = instruction.bytes().all(|byte| byte.is_ascii_alphabetic());
            !is_word || entry.has_id(instruction) || entry.node.is_some_and(|path| path.node == instruction)
        }
        Err(error) => error.kind == ErrorKind::InvalidRequest && Name::parse(instruction).is_ok(),
    }
}

/// Creates the branch on the machine of a remote server.
async fn remote(args: BranchArgs, recording: Option<String>, text: String) -> Result<()> {
    let Some(recording) = recording else {
        let message = "no recording: the newest one on another machine is not known";
        return Err(Failure::new(USAGE, message).hint("name it: nerve branch RECORDING INSTRUCTION").into());
    };
    let path = |path: Option<PathBuf>| path.as_deref().map(Path::display).map(|path| path.to_string());
    let request = CreateBranch {
        recording: Some(recording),
        at: Some(args.at),
        target_id: args.node,
        session_id: args.session,
        to: path(args.to),
        in_place: args.in_place,
        dir: path(args.dir),
        env: args.env.into_iter().map(|pair| (pair.key, pair.value)).collect(),
        proxy: proxy_params(args.proxy)?,
        no_proxy: args.no_proxy,
        wait: !args.no_wait,
        timeout: args.timeout.map(|timeout| Seconds::from(timeout.0)),
        dry_run: args.dry_run,
        traceparent: trace::parent(),
        tracestate: trace::state(),
        ..CreateBranch::new(text)
    };
    let client = server::connect(&args.server.server).await?;
    let types = Some(vec![EventType::BranchProgress.to_string()]);
    // An older server knows no such event.
    let _ = client.subscribe(&Subscribe { types, ..Subscribe::default() }).await;
    let (step, steps) = watch::channel(FIRST_STEP.to_string());
    let work = client.create_branch_with_progress(&request, |label| {
        step.send_replace(out::preview(label, MAX_STEP));
    });
    let branch = out::progress_with_steps(steps, work).await?;
    client.take_warnings().iter().for_each(out::warning);
    if branch.dry_run {
        // The plan is about files on the other machine.
        return out::json(&branch);
    }
    finish(branch, args.server.json)
}

/// Prints a branch. Fails if its first turn failed.
fn finish(branch: BranchCreated, json: bool) -> Result<()> {
    report::print_result(&branch, json)?;
    branch.response.as_ref().map_or(Ok(()), execute::check)
}
