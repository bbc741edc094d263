//! The web console: a page for browsers, which log in with a one-time code and then have a session.
//!
//! | module | contents |
//! |---|---|
//! | `assets` | the files of the page |
//! | `endpoints` | the paths of the page |
//! | `login_code` | one-time codes |
//! | `session` | the sessions of browsers |
//! | `cookie` | the cookie of a session, and the checks of requests with it |
//! | `role` | the permissions of a session |
//! | `share` | links that show one node |
//! | `record_store` | the files of sessions, push subscriptions and shares |
//! | `push` | notifications of browsers whose page is closed |
//!
//! Codes and sessions are in private files, like the server's token: `nerve web` creates and removes them without a
//! request, and a client with a session cannot do so.

mod assets;
mod cookie;
mod endpoints;
mod login_code;
mod push;
mod record_store;
pub(crate) mod role;
mod session;
mod share;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use http::request::Parts;
use http::{HeaderMap, Method, header};
use nerve_engine::Engine;
use nerve_types::activity::TsMs;
use nerve_types::name;

pub use self::login_code::{CODE_LIFETIME, LoginCode};
pub use self::role::Role;
pub use self::session::WebSession;
pub use self::share::{NewShare, Share, SharedNode};
pub use nerve_web_push::subscription::NotificationStatus;

pub(crate) use self::cookie::check_request;
pub(crate) use self::endpoints::router;
pub(crate) use self::session::{FoundSession, SessionStore};

use self::cookie::SessionCookie;
use self::login_code::LoginCodes;
use self::push::PushSender;
use self::share::ShareStore;
use crate::error::ServerError;
use crate::events::Hub;
use crate::paths::{ServerPaths, private_directory};
use nerve_web_push::vapid::VapidKey;

/// Path of the page.
pub const PATH: &str = "/web/";
/// Path of logins.
const LOGIN: &str = "/web/login";
/// Path that ends the session of the request.
const LOGOUT: &str = "/web/logout";
/// Path of the push subscription of the session.
const PUSH: &str = "/web/push";

/// Marks a response that browsers may keep forever, because another version has another path.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CacheForever;

/// The logins of one server's web console, for commands on the server's machine.
#[derive(Debug)]
pub struct WebLogins {
    codes: LoginCodes,
    sessions: Arc<SessionStore>,
    shares: ShareStore,
}

impl WebLogins {
    /// Returns the logins of a server, whether or not it runs.
    ///
    /// # Errors
    /// Returns an error if the name is invalid.
    pub fn new(paths: &ServerPaths, server: &str) -> Result<WebLogins, ServerError> {
        name::check("server", server)?;
        let folder = paths.web().join(server);
        let shares = ShareStore::new(folder.join("shares"));
        Ok(WebLogins {
            codes: LoginCodes::new(folder.join("codes")),
            sessions: Arc::new(SessionStore::new(folder.join("sessions"), shares.clone())),
            shares,
        })
    }

    /// Creates a code with which a browser can log in once, within [`CODE_LIFETIME`].
    ///
    /// # Errors
    /// Returns an error if it cannot be stored.
    pub fn create_code(&self, role: Role) -> Result<LoginCode, ServerError> {
        self.codes.create(role)
    }

    /// Creates a share: everyone who knows its secret can look at the node until it expires.
    ///
    /// # Errors
    /// Returns an error if there are too many, or it cannot be stored.
    pub fn create_share(&self, node: SharedNode, lifetime: Duration) -> Result<NewShare, ServerError> {
        self.shares.create(node, lifetime)
    }

    /// Lists the valid shares, the newest first.
    pub fn shares(&self) -> Vec<Share> {
        self.shares.list()
    }

    /// Ends all shares whose digest begins with `id`, and their sessions within seconds.
    ///
    /// # Errors
    /// Returns an error if a file cannot be removed.
    pub fn revoke_share(&self, id: &str) -> Result<(), ServerError> {
        self.shares.revoke(id)
    }

    /// Lists the sessions, the last used first.
    pub fn sessions(&self) -> Vec<WebSession> {
        self.sessions.list()
    }

    /// Ends all sessions whose digest begins with `id`. The server closes its connections within seconds.
    ///
    /// # Errors
    /// Returns an error if it cannot be removed.
    pub fn revoke(&self, id: &str) -> Result<(), ServerError> {
        self.sessions.end_by_id(id)
    }
}

/// The web console of a running server.
#[derive(Debug)]
pub(crate) struct Web {
    server: String,
    /// Folder of the server's web console.
    folder: PathBuf,
    logins: WebLogins,
    cookie: SessionCookie,
    /// `None` if its file is damaged or cannot be written: browsers cannot subscribe then.
    push_key: Option<Arc<VapidKey>>,
}

impl Web {
    /// Creates the web console of a server. `has_tls` states whether the server uses TLS; `host` is the name by which browsers
    /// know it.
    pub(crate) fn new(
        paths: &ServerPaths,
        server: &str,
        has_tls: bool,
        host: Option<&str>,
    ) -> Result<Web, ServerError> {
        let folder = paths.web().join(server);
        Ok(Web {
            server: server.to_string(),
            logins: WebLogins::new(paths, server)?,
            cookie: SessionCookie::new(server, has_tls),
            push_key: obtain_push_key(&folder, host),
            folder,
        })
    }

    /// Sends the server's notifications to the browsers that subscribed. Never completes.
    pub(crate) async fn send_notifications(&self, engine: &Engine, hub: &Hub) {
        match &self.push_key {
            Some(key) => {
                let sessions = self.logins.sessions.clone();
                let sender = PushSender::new(key.clone(), sessions, &self.folder);
                sender.follow(hub, || engine.notification_state()).await;
            }
            None => std::future::pending().await,
        }
    }

    /// Returns the sessions.
    pub(crate) fn sessions(&self) -> &SessionStore {
        &self.logins.sessions
    }

    /// Returns the secret in the session cookie of a request.
    pub(crate) fn cookie<'a>(&self, headers: &'a HeaderMap) -> Option<&'a str> {
        self.cookie.read(headers)
    }
}

fn obtain_push_key(folder: &Path, host: Option<&str>) -> Option<Arc<VapidKey>> {
    let key = private_directory(folder).map_err(|error| error.to_string());
    let key =
        key.and_then(|()| VapidKey::obtain(&folder.join("vapid"), host).map_err(|error| error.to_string()));
    key.inspect_err(|error| tracing::warn!(%error, "browsers cannot be notified")).ok().map(Arc::new)
}

/// Returns true if a request needs neither token nor session: the page itself and logins reveal no data.
pub(crate) fn is_open(request: &Parts) -> bool {
    let path = request.uri.path();
    let is_read = request.method == Method::GET || request.method == Method::HEAD;
    match path {
        LOGIN => request.method == Method::POST,
        LOGOUT | PUSH => false,
        "/" => is_read && is_page_load(&request.headers),
        _ => is_read && (path.starts_with(PATH) || path == "/web"),
    }
}

/// Returns true if a session that a share began may send a request.
pub(crate) fn can_send(share: &SharedNode, request: &Parts) -> bool {
    request.uri.path() == LOGOUT || share.is_read_by(&request.method, &request.uri)
}

/// Returns true if the client is a browser that loads a page.
fn is_page_load(headers: &HeaderMap) -> bool {
    let accept = headers.get(header::ACCEPT).and_then(|accept| accept.to_str().ok());
    accept.is_some_and(|accept| accept.contains("text/html"))
}

/// Returns the current time.
fn now() -> TsMs {
    SystemTime::now().into()
}
