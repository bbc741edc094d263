//! `nerve token`: shows, replaces and locates the access token for TCP and HTTP clients.

use anyhow::Result;
use nerve_server::access::token::TokenFile;
use nerve_server::paths::ServerPaths;
use serde_json::json;

use crate::out;
use nerve_cli::token::{TokenArgs, TokenCommand};

/// Runs the command. Prints the token only to standard output.
pub(crate) fn run(args: &TokenArgs) -> Result<()> {
    let file = TokenFile::new(args.token_file.clone().unwrap_or_else(|| ServerPaths::from_env().token()));
    let token = match args.command {
        TokenCommand::Show => file.obtain()?,
        TokenCommand::Rotate => {
            let token = file.rotate()?;
            out::note("the old token is now invalid");
            token
        }
        TokenCommand::Path if args.json => return out::json(&json!({ "path": file.path() })),
        TokenCommand::Path => return out::line(file.path().display()),
    };
    match args.json {
        true => out::json(&json!({ "token": token.reveal(), "path": file.path() })),
        false => out::line(token.reveal()),
    }
}
