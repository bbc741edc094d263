//! `nerve branch`: continues from a snapshot of a recorded session in a new node. Also used by the viewer.
//!
//! [`plan_branch`] plans without side effects; [`run()`] executes the plan. Neither writes to the terminal.

mod environment;
mod files;
mod origin;
mod plan;
mod report;
mod restore;
mod run;
mod start;

use anyhow::Result;

pub(crate) use self::environment::NodeOverrides;
pub(crate) use self::origin::Origin;
pub(crate) use self::plan::{At, BranchOptions, plan_branch};
pub(crate) use self::report::conversation_difference;
pub(crate) use self::run::{Wait, run};
use crate::cli::branch::BranchArgs;
use crate::cli::local::Prompt;
use crate::cmd::node::{execute, proxy};
use crate::cmd::{prompt, recording};
use crate::exit::{Failure, USAGE};
use crate::out;

/// Runs the command.
pub(crate) async fn command(args: BranchArgs) -> Result<()> {
    let Some((recording, instruction)) = args.positionals() else {
        let message = "too many arguments: expected [RECORDING] INSTRUCTION";
        return Err(Failure::new(USAGE, message).hint("quote an instruction of several words").into());
    };
    if recording.is_none() && recording::is_recording(instruction) {
        let message = format!("no instruction: '{instruction}' is a recording");
        let word = shell_words::quote(instruction);
        let hint = format!(
            "add an instruction: nerve branch {word} 'INSTRUCTION'; if '{word}' is the instruction, put the recording before it"
        );
        return Err(Failure::new(USAGE, message).hint(hint).into());
    }
    let text = prompt::read(&Prompt { text: Some(instruction.to_string()), file: None })?;
    let origin = Origin::read(&origin::resolve_file(recording)?)?;
    let options = BranchOptions {
        node: args.node,
        to: args.to,
        in_place: args.in_place,
        dir: args.dir,
        server: args.server.server,
        session: args.session,
        overrides: NodeOverrides {
            env: args.env.into_iter().map(|pair| (pair.key, pair.value)).collect(),
            proxy: proxy::proxy_params(args.proxy)?,
            no_proxy: args.no_proxy,
        },
    };
    let at = At::parse(&args.at, &origin)?;
    // Planning reads transcripts, which can be large, and runs git.
    let plan = tokio::task::spawn_blocking(move || plan_branch(&origin, at, options)).await??;
    let json = args.server.json;
    if args.dry_run {
        let (name, inherited) = run::preview(&plan).await?;
        return report::print_plan(&plan, (&name, inherited.as_ref()), &text, json);
    }
    if !json {
        report::print_notes(&plan);
    }
    let wait = match args.no_wait {
        true => Wait::Delivered,
        false => Wait::Answer(args.timeout.map(|timeout| timeout.0)),
    };
    let result = out::progress("branching", run(plan, &text, wait, &mut |_| {})).await?;
    report::print_result(&result, json)?;
    result.answer.as_ref().map_or(Ok(()), |data| execute::check(&data.response))
}
