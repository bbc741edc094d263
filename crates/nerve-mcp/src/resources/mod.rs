//! Screens and recordings as resources.

mod list;
mod recording;
mod uri;

use rmcp::model::{ErrorData, ListResourcesResult, ReadResourceResult, ResourceContents};

use self::uri::Address;
use crate::server::Shelf;
use crate::tool_result::Failure;

pub(crate) use self::list::templates;

const TEXT: &str = "text/plain";

/// A page of what there is.
pub(crate) async fn page(shelf: &Shelf, cursor: Option<&str>) -> Result<ListResourcesResult, ErrorData> {
    list::page(shelf, cursor).await.map_err(Failure::protocol)
}

/// What one of them says now.
pub(crate) async fn read(shelf: &Shelf, uri: &str) -> Result<ReadResourceResult, ErrorData> {
    let text = match Address::parse(uri) {
        Ok(Address::Screen { node, session }) => screen(shelf, &node, session.as_deref()).await,
        Ok(Address::Recording { id, from, lines }) => recording::read(shelf, id, from, lines).await,
        Err(failure) => Err(failure),
    };
    let text = text.map_err(Failure::protocol)?;
    Ok(ReadResourceResult::new(vec![ResourceContents::text(text, uri).with_mime_type(TEXT)]))
}

async fn screen(shelf: &Shelf, node: &str, session: Option<&str>) -> Result<String, Failure> {
    let client = shelf.link.client().await?;
    let now = client.node(node, session).why().await?;
    Ok(format!("{}\n", now.screen.trim_end()))
}
