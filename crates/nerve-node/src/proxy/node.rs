//! The proxy of one node, running or ended.

use serde_json::Value;
use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::sync::{Arc, Weak};

use nerve_agent::profile::Profile;
use nerve_api::reply::ModelUsage;
use nerve_host::environment::{Environment, PROXY_VARIABLES};
use nerve_proxy::Totals;
use parking_lot::Mutex;
use tokio::sync::Notify;
use uuid::Uuid;

use super::ProxySettings;
use super::launch::{ProxyLaunch, ProxyStart, failed_proxy, start_shared, write_error};
use super::persist::StoredProxy;
use super::settings::needs_token;
use super::state::{ProxyShared, ProxyState, Token};
use super::usage::SpendSink;
use super::vars::proxy_vars;
use crate::error::EngineError;
use crate::telemetry::TraceContext;
use crate::usage_ledger::UsageLedger;

/// The proxy of a node. Cheap to clone; clones are the same proxy.
#[derive(Debug, Clone)]
pub struct NodeProxy {
    inner: Arc<ProxyShared>,
}

impl NodeProxy {
    /// Starts the proxy of a node that is about to be created, and adds the program's variables to `env`. Must be called on a
    /// runtime.
    ///
    /// # Errors
    /// InvalidRequest: invalid settings, a program without proxy support, or variables that are already set. Process: the log
    /// cannot be written, or no port is available.
    pub(crate) fn start(
        launch: ProxyLaunch<'_>,
        settings: ProxySettings,
        profile: &Profile,
        env: &mut Environment,
        server_env: &BTreeMap<String, String>,
    ) -> Result<NodeProxy, EngineError> {
        super::check(&settings)?;
        let vars = proxy_vars(profile, &settings, env, server_env)?;
        let id = Uuid::new_v4().simple().to_string();
        let token = needs_token(&settings).then(|| {
            // 244 random bits.
            Token(format!("{}{}", Uuid::new_v4().simple(), Uuid::new_v4().simple()))
        });
        let spent = Totals::default();
        let start = ProxyStart { id: &id, settings: &settings, port: 0, token: token.clone(), spent };
        let mut inner = start_shared(launch, start)?;
        let Some(address) = inner.address else {
            return Err(EngineError::internal("the proxy has no port"));
        };
        inner.variables = [Some(&vars.url), vars.token.as_ref().filter(|_| token.is_some())]
            .into_iter()
            .flatten()
            .cloned()
            .collect();
        if token.is_some() {
            // The proxy holds the key, so the program must not inherit one.
            env.remove_all(&vars.unset);
        }
        env.remove_all(settings.api_key_env.as_slice());
        env.set.insert(vars.url.clone(), format!("http://{address}"));
        if let (Some(name), Some(Token(token))) = (&vars.token, &token) {
            env.set.insert(name.clone(), token.clone());
        }
        env.set.insert(PROXY_VARIABLES.to_string(), inner.variables.join(","));
        let proxy = NodeProxy { inner: Arc::new(inner) };
        if let Err(error) = proxy.inner.write() {
            return Err(write_error(&error, launch.node));
        }
        proxy.spawn_persister();
        Ok(proxy)
    }

    /// Restarts the proxy of a running node with its stored state. On failure, the node reports the reason.
    /// Must be called on a runtime.
    pub fn resume(launch: ProxyLaunch<'_>, id: &str) -> NodeProxy {
        let stored = match &launch.proxies.folder {
            Some(folder) => StoredProxy::read(&StoredProxy::path(folder, launch.server, id))
                .map_err(|error| error.to_string()),
            None => Err("this server stores no proxies".to_string()),
        };
        let stored = match stored {
            Ok(stored) => stored,
            Err(error) => {
                let why = format!(
                    "cannot read the stored state of its proxy: {error}; its agent cannot reach the model: create the node again"
                );
                return NodeProxy { inner: Arc::new(failed_proxy(id, None, why)) };
            }
        };
        let StoredProxy { settings, port, token, spent } = stored;
        let start = ProxyStart { id, settings: &settings, port, token: token.map(Token), spent };
        match start_shared(launch, start) {
            Ok(inner) => {
                let proxy = NodeProxy { inner: Arc::new(inner) };
                proxy.spawn_persister();
                proxy
            }
            Err(error) => {
                let why = format!(
                    "its proxy did not restart, so its agent cannot reach the model: {}; fix that and restart the server, or create the node again",
                    error.message
                );
                let mut inner = failed_proxy(id, Some(settings), why);
                inner.address = Some((Ipv4Addr::LOCALHOST, port).into());
                inner.state = Mutex::new(ProxyState::Ended(spent));
                NodeProxy { inner: Arc::new(inner) }
            }
        }
    }

    /// Returns the id of the stored state.
    pub(crate) fn id(&self) -> &str {
        &self.inner.id
    }

    /// Returns the settings, if they are known.
    pub(crate) fn settings(&self) -> Option<&ProxySettings> {
        self.inner.settings.as_ref()
    }

    /// Returns why the proxy does not run although it should.
    pub(crate) fn failure(&self) -> Option<&str> {
        self.inner.failure.as_deref()
    }

    /// Removes and returns the interruptions of the proxy's log and their ends.
    pub(crate) fn take_log_faults(&self) -> Vec<String> {
        self.inner.log_faults.take()
    }

    /// Removes the proxy's variables from a program's environment. They are no part of the node's definition.
    pub(crate) fn remove_env(&self, env: &mut BTreeMap<String, String>) {
        for name in &self.inner.variables {
            env.remove(name);
        }
    }

    /// Counts the usage in `ledger` from now on.
    pub(crate) fn count_in(&self, ledger: &UsageLedger) {
        // An error means that it counts already.
        let _ = self.inner.tracker.ledger.set(ledger.clone());
    }

    /// Begins a turn. `sink` receives the usage of each of its requests that end before the next turn begins; their spans are
    /// children of `span`.
    pub(crate) fn begin_turn(&self, number: u64, sink: Option<SpendSink>, span: Option<Arc<TraceContext>>) {
        self.inner.tracker.begin(number, sink, span);
    }

    /// Ends the turn.
    pub(crate) fn end_turn(&self) {
        self.inner.tracker.end();
    }

    /// Returns the usage of the turn so far.
    pub(crate) fn turn_usage(&self, number: u64) -> Option<ModelUsage> {
        self.inner.tracker.turn_usage(number)
    }

    /// Returns the proxy's part of the node's info: names and values.
    pub(crate) fn metadata(&self) -> impl Iterator<Item = (String, Value)> {
        let inner = &self.inner;
        let spent = inner.spent();
        let settings = inner.settings.as_ref();
        let url = inner.address.map(|address| format!("http://{address}"));
        let cost =
            settings.and_then(|settings| settings.prices).map(|_| (spent.cost_usd * 1e6).round() / 1e6);
        let text = |text: String| Value::from(text);
        [
            ("proxy", settings.map(|settings| settings.kind.as_str().into())),
            ("proxy_url", url.map(text)),
            ("proxy_upstream", Some(inner.upstream.clone()).filter(|host| !host.is_empty()).map(text)),
            ("proxy_requests", Some(spent.requests.into())),
            ("proxy_refused", (spent.refused > 0).then(|| spent.refused.into())),
            ("proxy_tokens", Some(spent.usage.total().into())),
            ("proxy_cost_usd", cost.map(Value::from)),
            ("proxy_log", inner.log.as_ref().map(|path| path.display().to_string().into())),
            ("proxy_trouble", inner.failure.clone().map(text)),
        ]
        .into_iter()
        .filter_map(|(name, value)| Some((name.to_string(), value?)))
    }

    /// Ends the proxy and removes its stored state.
    pub(crate) async fn end(&self) {
        self.shut_down(false).await;
    }

    /// Ends the proxy but keeps its stored state, from which a new server can restart it.
    pub(crate) async fn detach(&self) {
        self.shut_down(true).await;
    }

    async fn shut_down(&self, keeps_state: bool) {
        let _shutdown = self.inner.shutdown.lock().await;
        let last = self.inner.spent();
        let state = std::mem::replace(&mut *self.inner.state.lock(), ProxyState::Ended(last));
        if let ProxyState::Running(proxy) = state {
            let spent = proxy.shutdown().await;
            *self.inner.state.lock() = ProxyState::Ended(spent);
        }
        let inner = self.inner.clone();
        let task = tokio::task::spawn_blocking(move || {
            if keeps_state {
                if let Err(error) = inner.write() {
                    tracing::warn!(%error, "the totals of a proxy were not stored");
                }
            } else {
                inner.forget();
            }
        });
        // An error means that the thread panicked. That is no reason to panic here too.
        let _ = task.await;
    }

    /// Stores the totals from now on.
    fn spawn_persister(&self) {
        if self.inner.file.is_some() {
            let (inner, call_ended) = (Arc::downgrade(&self.inner), self.inner.call_ended.clone());
            tokio::spawn(persist_totals(inner, call_ended));
        }
    }
}

/// Stores the totals after requests. Requests that end at the same time share one write.
async fn persist_totals(inner: Weak<ProxyShared>, call_ended: Arc<Notify>) {
    loop {
        call_ended.notified().await;
        let Some(inner) = inner.upgrade() else { return };
        let written = tokio::task::spawn_blocking(move || inner.write()).await;
        if let Ok(Err(error)) = written {
            tracing::warn!(%error, "the totals of a proxy were not stored");
        }
    }
}
