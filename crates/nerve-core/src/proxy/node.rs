//! The proxy of one node, running or not.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use nerve_proxy::{Proxy, Spent};
use nerve_term::profile::Profile;
use tokio::sync::Notify;
use uuid::Uuid;

use super::ProxySpec;
use super::launch::{Starting, forms_of, gone, not_kept, open};
use super::persist::Kept;
use super::usage::{SpendSink, Tally, TurnUsage};
use crate::error::{EngineError, ErrorKind};

/// The proxy of a node. Cheap to clone; all clones are the same proxy.
#[derive(Debug, Clone)]
pub struct NodeProxy {
    inner: Arc<Inner>,
}

#[derive(Debug)]
pub(super) struct Inner {
    pub(super) id: String,
    /// `None`: it is gone with its server, and so is what was kept of it.
    pub(super) spec: Option<ProxySpec>,
    pub(super) address: Option<SocketAddr>,
    pub(super) token: Option<Token>,
    pub(super) upstream: String,
    pub(super) log: Option<PathBuf>,
    /// Names of the variables that its program was given.
    pub(super) variables: Vec<String>,
    pub(super) tally: Arc<Tally>,
    pub(super) running: Mutex<Running>,
    /// One ends it; whoever wants that too waits until it has ended.
    pub(super) ending: tokio::sync::Mutex<()>,
    /// Where it is kept.
    pub(super) file: Option<PathBuf>,
    /// One writes the file at a time; `true`: nobody does any more.
    pub(super) writing: Mutex<bool>,
    /// Something has passed.
    pub(super) passed: Arc<Notify>,
    /// Why it does not run.
    pub(super) trouble: Option<String>,
}

#[derive(Debug)]
pub(super) enum Running {
    Yes(Proxy),
    /// It has ended, and this had passed.
    No(Spent),
}

/// What a program shows to be let in.
#[derive(Clone)]
pub(super) struct Token(pub(super) String);

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token(…)")
    }
}

impl NodeProxy {
    /// Starts the proxy of a node that is about to be made, and puts what its program must know into `env`. Must be called on a runtime.
    ///
    /// # Errors
    /// InvalidRequest: settings that cannot be, a program that cannot be told, variables that somebody has set already. Process: a log
    /// that cannot be written, no port.
    pub(crate) fn start(
        starting: Starting<'_>,
        spec: ProxySpec,
        profile: &Profile,
        env: &mut BTreeMap<String, String>,
        env_remove: &mut Vec<String>,
    ) -> Result<NodeProxy, EngineError> {
        spec.check()?;
        let forms = forms_of(profile, &spec, env, env_remove)?;
        let id = Uuid::new_v4().simple().to_string();
        let token = spec.gives_token().then(|| {
            // 244 bits of chance.
            Token(format!("{}{}", Uuid::new_v4().simple(), Uuid::new_v4().simple()))
        });
        let begun = (0, token.clone(), Spent::default());
        let mut inner = open(starting, &id, &spec, begun)?;
        let Some(address) = inner.address else {
            return Err(EngineError::new(ErrorKind::Internal, "a proxy has no port"));
        };
        inner.variables = [Some(&forms.url), forms.token.as_ref().filter(|_| token.is_some())]
            .into_iter()
            .flatten()
            .cloned()
            .collect();
        env.insert(forms.url.clone(), format!("http://{address}"));
        if let (Some(name), Some(Token(token))) = (&forms.token, &token) {
            env.insert(name.clone(), token.clone());
            // The key is the proxy's, not the program's.
            env_remove.extend(forms.unset.iter().cloned());
        }
        env_remove.extend(spec.api_key_env.clone().filter(|name| !inner.variables.contains(name)));
        let proxy = NodeProxy { inner: Arc::new(inner) };
        if let Err(error) = proxy.inner.write() {
            return Err(not_kept(&error, starting.node));
        }
        proxy.keep();
        Ok(proxy)
    }

    /// Starts the proxy of a node that runs already, as it was. Where that fails, the node says so ([`NodeProxy::trouble`]). Must be
    /// called on a runtime.
    pub(crate) fn resume(starting: Starting<'_>, id: &str) -> NodeProxy {
        let kept = match &starting.proxies.folder {
            Some(folder) => {
                Kept::read(&Kept::path(folder, starting.server, id)).map_err(|error| error.to_string())
            }
            None => Err("this server keeps no proxies".to_string()),
        };
        let kept = match kept {
            Ok(kept) => kept,
            Err(error) => {
                let why = format!(
                    "what was kept of its proxy cannot be read: {error}; its agent reaches no model: make the node anew"
                );
                return NodeProxy { inner: Arc::new(gone(id, None, why)) };
            }
        };
        let token = kept.token.map(Token);
        let begun = (kept.port, token.clone(), Spent::from(kept.spent));
        match open(starting, id, &kept.spec, begun) {
            Ok(inner) => {
                let proxy = NodeProxy { inner: Arc::new(inner) };
                proxy.keep();
                proxy
            }
            Err(error) => {
                let why = format!(
                    "its proxy is not there again, and its agent reaches no model: {}; mend that and start the server again, or make the node anew",
                    error.message
                );
                let mut inner = gone(id, Some(kept.spec), why);
                inner.address = Some((Ipv4Addr::LOCALHOST, kept.port).into());
                inner.running = Mutex::new(Running::No(Spent::from(kept.spent)));
                NodeProxy { inner: Arc::new(inner) }
            }
        }
    }

    /// Names what is kept of it.
    pub(crate) fn id(&self) -> &str {
        &self.inner.id
    }

    /// Its settings, as far as they are known.
    pub(crate) fn spec(&self) -> Option<&ProxySpec> {
        self.inner.spec.as_ref()
    }

    /// Why it does not run, where it should.
    pub(crate) fn trouble(&self) -> Option<&str> {
        self.inner.trouble.as_deref()
    }

    /// Takes out what was put into a program's environment for it: that is no part of how the node was made.
    pub(crate) fn take_out(&self, env: &mut BTreeMap<String, String>) {
        for name in &self.inner.variables {
            env.remove(name);
        }
    }

    /// A turn begins; `sink` is told what each of its requests uses, of those that end before the next turn begins.
    pub(crate) fn begin_turn(&self, number: u64, sink: Option<SpendSink>) {
        self.inner.tally.begin(number, sink);
    }

    /// No turn runs any more.
    pub(crate) fn end_turn(&self) {
        self.inner.tally.end();
    }

    /// What the turn has used until now.
    pub(crate) fn used_in_turn(&self, number: u64) -> Option<TurnUsage> {
        self.inner.tally.used(number)
    }

    /// What is told of it in the node's info: names and values.
    pub(crate) fn facts(&self) -> Vec<(&'static str, String)> {
        let inner = &self.inner;
        let spent = inner.spent();
        let spec = inner.spec.as_ref();
        let url = inner.address.map(|address| format!("http://{address}"));
        let cost = spec.and_then(|spec| spec.prices).map(|_| format!("{:.6}", spent.cost_usd));
        [
            ("proxy", spec.map(|spec| spec.kind.as_str().to_string())),
            ("proxy_url", url),
            ("proxy_upstream", Some(inner.upstream.clone()).filter(|host| !host.is_empty())),
            ("proxy_requests", Some(spent.requests.to_string())),
            ("proxy_refused", (spent.refused > 0).then(|| spent.refused.to_string())),
            ("proxy_tokens", Some(spent.usage.total().to_string())),
            ("proxy_cost_usd", cost),
            ("proxy_log", inner.log.as_ref().map(|path| path.display().to_string())),
            ("proxy_trouble", inner.trouble.clone()),
        ]
        .into_iter()
        .filter_map(|(name, value)| Some((name, value?)))
        .collect()
    }

    /// Ends it, with what is kept of it.
    pub(crate) async fn end(&self) {
        self.shut_down(false).await;
    }

    /// Ends it; a new server can start it again.
    pub(crate) async fn leave(&self) {
        self.shut_down(true).await;
    }

    async fn shut_down(&self, is_kept: bool) {
        let _alone = self.inner.ending.lock().await;
        let last = self.inner.spent();
        let running = std::mem::replace(&mut *self.inner.running(), Running::No(last));
        if let Running::Yes(proxy) = running {
            let spent = proxy.shutdown().await;
            *self.inner.running() = Running::No(spent);
        }
        let inner = self.inner.clone();
        let done = tokio::task::spawn_blocking(move || {
            if is_kept {
                if let Err(error) = inner.write() {
                    tracing::warn!(%error, "what a proxy has counted is not kept");
                }
            } else {
                inner.forget();
            }
        });
        // A disk that hangs is no reason to panic here too.
        let _ = done.await;
    }

    /// Keeps what it has counted, as it goes on.
    fn keep(&self) {
        if self.inner.file.is_some() {
            let (inner, passed) = (Arc::downgrade(&self.inner), self.inner.passed.clone());
            tokio::spawn(keep(inner, passed));
        }
    }
}

/// Writes down what has passed, whenever something has; many requests at once are one write.
async fn keep(inner: Weak<Inner>, passed: Arc<Notify>) {
    loop {
        passed.notified().await;
        let Some(inner) = inner.upgrade() else { return };
        let written = tokio::task::spawn_blocking(move || inner.write()).await;
        if let Ok(Err(error)) = written {
            tracing::warn!(%error, "what a proxy has counted is not kept");
        }
    }
}

impl Inner {
    fn running(&self) -> MutexGuard<'_, Running> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn spent(&self) -> Spent {
        match &*self.running() {
            Running::Yes(proxy) => proxy.spent(),
            Running::No(spent) => *spent,
        }
    }

    /// Blocks.
    fn write(&self) -> std::io::Result<()> {
        let is_over = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let (Some(file), Some(spec), Some(address), false) = (&self.file, &self.spec, self.address, *is_over)
        else {
            return Ok(());
        };
        let token = self.token.as_ref().map(|Token(token)| token.clone());
        Kept { spec: spec.clone(), port: address.port(), token, spent: self.spent().into() }.write(file)
    }

    /// Blocks.
    fn forget(&self) {
        let mut is_over = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        *is_over = true;
        if let Some(file) = &self.file {
            // Gone already is as good.
            let _ = std::fs::remove_file(file);
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // Whoever writes down what passes goes.
        self.passed.notify_one();
    }
}
