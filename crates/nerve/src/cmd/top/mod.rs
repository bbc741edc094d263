//! `nerve top`: a dashboard of the nodes of all servers.

mod actions;
mod git_branch;
pub(super) mod line_list;
mod server_watch;

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use nerve_machine::address::is_on_machine;
use nerve_server::paths::ServerPaths;
use nerve_tui::dashboard::{Dashboard, DashboardEvent, DashboardSession, Effect, NodeKey};
use nerve_types::os::FolderWatcher;
use tokio::sync::mpsc;
use tokio_util::task::AbortOnDropHandle;

use self::actions::Action;
use self::server_watch::Update;
use crate::cmd::screen_support;
use crate::cmd::server::machines;
use crate::exit::DONE;
use crate::settings;
use nerve_cli::top::TopArgs;

/// Capacity of the queue of updates. Server watches wait while it is full.
const MAX_PENDING: usize = 256;

/// Runs `nerve top` and returns the exit code.
pub(crate) async fn run(args: TopArgs) -> Result<u8> {
    screen_support::require("'nerve top'", "'nerve ls' prints the nodes")?;
    let has_colors = settings::has_colors(args.no_colors);
    let mut top = Top::new(args.server, args.all_machines)?;
    let mut session = DashboardSession::start(Dashboard::default(), has_colors)?;
    top.watch_servers();
    loop {
        tokio::select! {
            biased;
            event = session.next() => match event {
                DashboardEvent::Closed(number) => return Ok(number.map_or(DONE, |number| 128 + number)),
                DashboardEvent::Effect(Effect::Quit) => return Ok(DONE),
                DashboardEvent::Effect(Effect::Suspend) => session.suspend()?,
                DashboardEvent::Effect(Effect::Attach(key)) => {
                    session = top.run_viewer(session, &attach_arguments(&key), has_colors).await?;
                }
                DashboardEvent::Effect(Effect::OpenRecording(key)) => match find_recording(session.respond(), &key) {
                    Some(recording) => {
                        let arguments = ["view".to_string(), recording];
                        session = top.run_viewer(session, &arguments, has_colors).await?;
                    }
                    None => session.respond().show_message(format!("node '{}' is not recorded", key.node)),
                },
                DashboardEvent::Effect(effect) => top.start_action(effect, session.respond()),
            },
            Some(update) = top.updates.recv() => update.apply(&mut session),
            () = wait_for_socket_change(&top.watcher) => top.watch_servers(),
        }
    }
}

/// The connections behind the dashboard.
struct Top {
    paths: ServerPaths,
    /// The only server to show.
    server: Option<String>,
    /// The folder of the servers' sockets.
    watcher: Option<FolderWatcher>,
    watches: BTreeMap<String, AbortOnDropHandle<()>>,
    _machine_watches: Vec<AbortOnDropHandle<()>>,
    sender: mpsc::Sender<Update>,
    updates: mpsc::Receiver<Update>,
}

impl Top {
    fn new(server: Option<String>, all_machines: bool) -> Result<Top> {
        let paths = ServerPaths::from_env();
        // A bad name is an error before the terminal is taken over.
        let name = server.as_deref().unwrap_or("default");
        let machines = match machines().find_server(name)? {
            Some(machine) => vec![machine],
            None if all_machines => machines().list()?,
            None => Vec::new(),
        };
        if !is_on_machine(name) {
            paths.socket(name)?;
        }
        let watcher = FolderWatcher::new();
        // Without a watcher, servers that start later are not found.
        let watcher =
            watcher.inspect_err(|error| tracing::warn!(%error, "cannot watch the folder of sockets")).ok();
        let (sender, updates) = mpsc::channel(MAX_PENDING);
        let watch = |machine| tokio::spawn(server_watch::run_machine(machine, sender.clone()));
        let machine_watches = machines.into_iter().map(watch).map(AbortOnDropHandle::new).collect();
        let watches = BTreeMap::new();
        Ok(Top { paths, server, watcher, watches, _machine_watches: machine_watches, sender, updates })
    }

    /// Watches the servers that have a socket and are not watched.
    fn watch_servers(&mut self) {
        self.watches.retain(|_, watch| !watch.is_finished());
        // The folder may not have existed before.
        if let Some(watcher) = &self.watcher
            && let Err(error) = watcher.watch_folder(&self.paths.runtime)
        {
            tracing::warn!(%error, "cannot watch the folder of sockets");
        }
        for name in self.paths.servers() {
            let is_shown = self.server.as_ref().is_none_or(|server| *server == name);
            let Ok(socket) = self.paths.socket(&name) else { continue };
            if is_shown && !self.watches.contains_key(&name) {
                let watch = tokio::spawn(server_watch::run(name.clone(), socket, self.sender.clone()));
                self.watches.insert(name, AbortOnDropHandle::new(watch));
            }
        }
    }

    /// Runs another command of this program in the terminal. The first line of its errors becomes the message.
    async fn run_viewer(
        &mut self,
        session: DashboardSession,
        arguments: &[String],
        has_colors: bool,
    ) -> Result<DashboardSession> {
        let mut dashboard = session.leave();
        let program = crate::current_exe::path()?;
        let mut command = tokio::process::Command::new(program);
        let child = command.args(arguments).stderr(std::process::Stdio::piped()).spawn();
        let output = child.context("cannot start the viewer")?.wait_with_output().await?;
        let errors = String::from_utf8_lossy(&output.stderr);
        if !output.status.success()
            && let Some(error) = errors.lines().find(|line| !line.trim().is_empty())
        {
            dashboard.show_message(error.trim());
        }
        Ok(DashboardSession::start(dashboard, has_colors)?)
    }

    /// Starts an action on a server. Its outcome arrives as an update.
    fn start_action(&self, effect: Effect, dashboard: &mut Dashboard) {
        let selected = dashboard.selected_row().map(|row| row.key.clone());
        let server = self.server.clone().or(selected.map(|key| key.server)).unwrap_or("default".to_string());
        if let Some(action) = Action::from_effect(effect, server) {
            let (paths, sender) = (self.paths.clone(), self.sender.clone());
            tokio::spawn(async move {
                let update =
                    action.run(&paths).await.unwrap_or_else(|error| Update::Message(format!("{error:#}")));
                // The dashboard may have been left.
                let _ = sender.send(update).await;
            });
        }
    }
}

/// Waits until a socket is created.
async fn wait_for_socket_change(watcher: &Option<FolderWatcher>) {
    let changed = match watcher {
        Some(watcher) => watcher.changed().await.is_ok(),
        None => false,
    };
    if !changed {
        std::future::pending().await
    }
}

fn attach_arguments(key: &NodeKey) -> [String; 6] {
    ["attach", &key.node, "--server", &key.server, "--session", &key.session].map(str::to_string)
}

/// Returns the recording of a node, with its machine.
fn find_recording(dashboard: &Dashboard, key: &NodeKey) -> Option<String> {
    let row = dashboard.selected_row().filter(|row| row.key == *key)?;
    let path = row.info.metadata.known_text("recording_path")?;
    Some(if is_on_machine(&key.server) { format!("{}/{path}", key.server) } else { path.to_string() })
}
