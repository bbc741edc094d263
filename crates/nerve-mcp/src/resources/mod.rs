//! Screens and recordings as MCP resources.

mod list;
mod recording;
mod uri;

use rmcp::model::{ErrorData, ListResourcesResult, ReadResourceResult, ResourceContents};

use self::uri::ResourceUri;
use crate::context::ServerContext;
use crate::tool_result::Failure;

pub(crate) use self::list::templates;

const TEXT: &str = "text/plain";

/// Returns a page of the list of resources.
pub(crate) async fn page(
    context: &ServerContext,
    cursor: Option<&str>,
) -> Result<ListResourcesResult, ErrorData> {
    list::page(context, cursor).await.map_err(Failure::into_error_data)
}

/// Reads a resource.
pub(crate) async fn read(context: &ServerContext, uri: &str) -> Result<ReadResourceResult, ErrorData> {
    let text = match ResourceUri::parse(uri) {
        Ok(ResourceUri::Screen { node, session }) => screen(context, &node, session.as_deref()).await,
        Ok(ResourceUri::Recording { id, from, lines }) => recording::read(context, id, from, lines).await,
        Err(failure) => Err(failure),
    };
    let text = text.map_err(Failure::into_error_data)?;
    Ok(ReadResourceResult::new(vec![ResourceContents::text(text, uri).with_mime_type(TEXT)]))
}

async fn screen(context: &ServerContext, node: &str, session: Option<&str>) -> Result<String, Failure> {
    let client = context.link.client().await?;
    let explanation = client.node(node, session).explain().await?;
    Ok(format!("{}\n", explanation.screen.trim_end()))
}
