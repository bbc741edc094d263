//! A node that exists for one call, and is stopped and removed after it.

use nerve_api::DEFAULT_SESSION;
use nerve_api::request::{NodeRef, RemoveNode, StopNode};

use super::error::ApiError;
use crate::http::SiteState;
use crate::http::resource::call;

/// Maximum length of the part of a name that comes from a template or a node.
const MAX_BASE: usize = 16;

/// A node for one call. Dropping it removes the node in the background. Its recording and its history stay.
#[derive(Debug)]
pub(super) struct TemporaryNode {
    at: NodeRef,
    site: SiteState,
}

impl TemporaryNode {
    /// Chooses the name of a node, which the caller creates. `base`: the template or the node that it is made from.
    ///
    /// # Errors
    /// There are too many such nodes.
    pub(super) fn reserve(
        base: &str,
        session: Option<String>,
        site: &SiteState,
    ) -> Result<TemporaryNode, ApiError> {
        let base: String = base.chars().take(MAX_BASE).collect();
        // The id of the server start keeps names apart from those that a killed server has left.
        let start: String = site.state.id.chars().take(4).collect();
        let node = format!("v1-{base}-{start}-{:x}", site.state.tag() & 0xff_ffff);
        let session = session.unwrap_or_else(|| DEFAULT_SESSION.to_string());
        let at = NodeRef { session: Some(session), node };
        site.openai.add_temporary_node(at.clone())?;
        Ok(TemporaryNode { at, site: site.clone() })
    }

    pub(super) fn at(&self) -> &NodeRef {
        &self.at
    }
}

impl Drop for TemporaryNode {
    fn drop(&mut self) {
        // Without a runtime, the process ends.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let (at, site) = (self.at.clone(), self.site.clone());
        runtime.spawn(async move {
            remove(&at, &site).await;
            site.openai.remove_temporary_node(&at);
        });
    }
}

async fn remove(at: &NodeRef, site: &SiteState) {
    let stop = StopNode::new(at.node.clone(), at.session.clone());
    let remove = RemoveNode::new(at.node.clone(), at.session.clone());
    // It may not have been created, or a person may have removed it.
    let stopped = call(stop, site).await.map(drop);
    let removed = call(remove, site).await.map(drop);
    if let (Err(problem), Err(_)) = (removed, stopped) {
        tracing::debug!(node = %at.node, error = %problem.detail, "a node for one call was gone already");
    }
}
