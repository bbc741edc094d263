//! Lists the resources, in pages.

use nerve_api::{DEFAULT_SESSION, ErrorKind};
use nerve_record::lookup::{Finder, Name};
use nerve_record::meta::Meta;
use nerve_record::store::{self, Store};
use rmcp::model::{ListResourcesResult, Resource, ResourceTemplate};

use super::TEXT;
use super::uri::{DEFAULT_LINES, ResourceUri};
use crate::context::ServerContext;
use crate::tool_result::Failure;

/// Resources per page.
const PAGE: usize = 100;

/// Returns the templates of resource URIs.
pub(crate) fn templates() -> Vec<ResourceTemplate> {
    vec![
        ResourceTemplate::new("nerve://nodes/{id}/screen", "screen")
            .with_title("Screen of a node")
            .with_description("What a node's terminal shows now")
            .with_mime_type(TEXT),
        ResourceTemplate::new("nerve://recordings/{id}{?from,lines}", "recording")
            .with_title("Recording")
            .with_description(format!(
                "The final text of a recorded terminal: {DEFAULT_LINES} lines from line 1, or as given by lines and from (1-based)"
            ))
            .with_mime_type(TEXT),
    ]
}

/// Returns the page at `cursor`, by default the first: screens, then recordings, newest first.
pub(super) async fn page(
    context: &ServerContext,
    cursor: Option<&str>,
) -> Result<ListResourcesResult, Failure> {
    let from: usize = match cursor {
        None => 0,
        Some(cursor) => cursor.parse().map_err(|_| Failure::new("invalid_arguments", "invalid cursor"))?,
    };
    // Without a running server there are no screens, but there may be recordings.
    let screens = screens(context).await.unwrap_or_default();
    let store = context.recordings.clone();
    let (resources, more) = tokio::task::spawn_blocking(move || {
        let recordings = store.map(|store| store.all()).unwrap_or_default();
        let total = screens.len() + recordings.len();
        let of_recordings = recordings.iter().skip(from.saturating_sub(screens.len()));
        let resources: Vec<Resource> = screens
            .iter()
            .skip(from)
            .cloned()
            .chain(of_recordings.filter_map(|path| recording(path)))
            .take(PAGE)
            .collect();
        (resources, from.saturating_add(PAGE) < total)
    })
    .await
    .map_err(|error| Failure::new(ErrorKind::Internal, error.to_string()))?;
    let mut page = ListResourcesResult::with_all_items(resources);
    page.next_cursor = more.then(|| from.saturating_add(PAGE).to_string());
    Ok(page)
}

async fn screens(context: &ServerContext) -> Result<Vec<Resource>, Failure> {
    let client = context.link.client().await?;
    let mut screens = Vec::new();
    for session in client.sessions().await? {
        for node in client.list_nodes(Some(&session.name)).await? {
            let session_name = (session.name != DEFAULT_SESSION).then(|| session.name.clone());
            let label = match &session_name {
                Some(session) => format!("{session}/{}", node.node_id),
                None => node.node_id.clone(),
            };
            let uri = ResourceUri::Screen { node: node.node_id, session: session_name }.text();
            let description = format!("What the terminal of node '{label}' shows; it is {}", node.state);
            screens.push(
                Resource::new(uri, format!("screen of {label}"))
                    .with_description(description)
                    .with_mime_type(TEXT),
            );
        }
    }
    Ok(screens)
}

fn recording(path: &std::path::Path) -> Option<Resource> {
    let id = store::id_of(path).filter(|id| store::check_id(id).is_ok())?;
    let uri = ResourceUri::Recording { id: id.to_string(), from: 1, lines: DEFAULT_LINES }.text();
    // Recordings with missing or broken metadata are listed too.
    let meta = Meta::load(path).ok().flatten().unwrap_or_default();
    let source = meta.node.map(|node| format!(" of node '{node}'")).unwrap_or_default();
    let description = format!("Recording{source}: {}", meta.cmd.join(" "));
    let description: String = description.chars().take(200).collect();
    Some(Resource::new(uri, format!("recording {id}")).with_description(description).with_mime_type(TEXT))
}

/// Finds a recording by name. Paths are not accepted.
pub(super) fn find(store: &Store, name: &str) -> Result<std::path::PathBuf, Failure> {
    let found = Name::parse(name).and_then(|name| Finder::new(store, Vec::new()).find(&name));
    let found = found.map_err(|error| Failure::new(ErrorKind::NotFound, error.to_string()))?;
    found.path.ok_or_else(|| Failure::new(ErrorKind::NotFound, format!("no recording '{name}'")))
}
