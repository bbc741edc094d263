//! `node create`: a program in a terminal becomes a node.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result};
use nerve_proto::CommandType;
use nerve_proto::params::{CommandLine, CreateNodeParams, Seconds};

use super::Target;
use crate::cli::node::{CreateArgs, name_of};
use crate::out;

/// Creates it.
pub(super) async fn run(target: &Target, args: CreateArgs) -> Result<()> {
    let env: BTreeMap<String, String> = args.env.into_iter().map(|pair| (pair.key, pair.value)).collect();
    let params = CreateNodeParams {
        session_id: target.session.clone(),
        command: args.command.map(CommandLine::Text),
        backend: name_of(args.backend),
        cwd: Some(directory(args.cwd.as_deref())?),
        env,
        cols: Some(args.cols),
        rows: Some(args.rows),
        profile: args.profile,
        parser: args.parser.map(name_of),
        history: !args.no_history,
        record: !args.no_record,
        ready_timeout: Seconds::from(args.ready_timeout.0),
        response_timeout: Seconds::from(args.response_timeout.0),
        ..CreateNodeParams::new(args.name)
    };
    let data = target.ask(CommandType::CreateNode, &params).await?;
    if target.json {
        return out::json(&data);
    }
    out::line(format_args!("node '{}' created", params.node_id))
}

/// The directory of this command, not of the server: that is what a relative path means to the one who types it.
fn directory(given: Option<&Path>) -> Result<String> {
    let here = std::env::current_dir().context("cannot find the current directory")?;
    let path = given.map_or(here.clone(), |given| here.join(given));
    let text = path.to_str().with_context(|| format!("{} is not UTF-8", path.display()))?;
    Ok(text.to_string())
}
