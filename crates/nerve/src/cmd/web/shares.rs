//! Shares: links with which others look at one node.

use anyhow::Result;
use nerve_api::request::GetNode;
use nerve_cli::share::ShareArgs;
use nerve_commands::node_command::split_node_path;
use nerve_server::web::{NewShare, PATH, Share, SharedNode, WebLogins};
use serde_json::{Value, json};

use super::{Link, select_id};
use crate::cmd::server::connect;
use crate::out;
use nerve_commands::clock::local_time;

/// Prints a link that shows a node.
pub(super) async fn create(mut args: ShareArgs, logins: &WebLogins) -> Result<()> {
    let (server, as_json) = (args.target.server.server.clone(), args.target.server.json);
    split_node_path(&mut args.node, &mut args.target.session)?;
    let link = Link::to_server(&server, args.url.as_ref(), false).await?;
    let request = GetNode { node_id: args.node, session_id: args.target.session };
    let node = connect(&server).await?.request(&request).await?;
    let node = SharedNode { session_id: node.metadata.session_id, node_id: node.node_id };
    let NewShare { share, secret } = logins.create_share(node, args.lifetime.0)?;
    let url = format!("{}{PATH}#share={secret}", link.base);
    if as_json {
        let mut document = serde_json::to_value(&share)?;
        document["url"] = Value::from(url);
        return out::json(&document);
    }
    link.print(&url)?;
    let until = local_time(share.expires_at.seconds());
    out::note(format_args!(
        "everyone with the link can look at '{}' until {until}; 'nerve web shares revoke {}' ends it",
        share.node.node_id, share.share_id
    ));
    Ok(())
}

pub(super) fn list(logins: &WebLogins, as_json: bool) -> Result<()> {
    let shares = logins.shares();
    if as_json {
        return out::json(&json!({ "shares": shares }));
    }
    if shares.is_empty() {
        out::note("nothing is shared; 'nerve share NODE' prints a link");
    }
    let row = |share: &Share| {
        let SharedNode { session_id, node_id } = &share.node;
        let (created, expires) =
            (local_time(share.created_at.seconds()), local_time(share.expires_at.seconds()));
        vec![share.share_id.clone(), format!("{session_id}/{node_id}"), created, expires]
    };
    let columns = ["id", "node", "created", "expires"];
    out::table(&columns, &shares.iter().map(row).collect::<Vec<_>>())
}

pub(super) fn revoke(logins: &WebLogins, id: &str, as_json: bool) -> Result<()> {
    let ids = logins.shares().into_iter().map(|share| share.share_id);
    let id = select_id(ids, id, "share", "nerve web shares list")?;
    logins.revoke_share(&id)?;
    match as_json {
        true => out::json(&json!({ "share_id": id, "revoked": true })),
        false => out::line(format_args!("share '{id}' ended")),
    }
}
