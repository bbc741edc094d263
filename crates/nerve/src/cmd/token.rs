//! `nerve token`: shows, renews and finds the token that clients over TCP and HTTP must know.

use anyhow::Result;
use nerve_server::access::token::TokenFile;
use nerve_server::paths::Places;
use serde_json::json;

use crate::cli::token::{TokenArgs, TokenCommand};
use crate::out;

/// Does what `nerve token` says. What is printed goes to standard output alone.
pub(crate) fn run(args: &TokenArgs) -> Result<()> {
    let file = TokenFile::new(args.token_file.clone().unwrap_or_else(|| Places::from_env().token()));
    let token = match args.command {
        TokenCommand::Show => file.obtain()?,
        TokenCommand::Rotate => {
            let token = file.rotate()?;
            out::note("the old token lets nobody in any more");
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
