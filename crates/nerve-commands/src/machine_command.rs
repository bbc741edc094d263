//! `nerve machine`: the list of machines, and the check of connections to them.

use std::path::PathBuf;
use std::thread;
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result};
use clap::{Args, Subcommand, ValueHint};
use nerve_machine::connect::{CONNECT_TIMEOUT, MachineReply};
use nerve_machine::doctor::Check;
use nerve_machine::recordings::RecordingCache;
use nerve_machine::{Machine, Machines};
use nerve_types::activity::TsMs;
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::failure::{FAILED, Failure, INTERRUPTED, USAGE};
use crate::out;

/// Time limit for a machine to reply in a list of machines.
const LIST_TIMEOUT: Duration = Duration::from_secs(5);

/// Exit status of ssh for its own errors (ssh(1)).
const SSH_FAILED: u8 = 255;

#[expect(missing_docs, reason = "clap would print it as the help of the command")]
#[derive(Debug, Subcommand)]
pub enum MachineCommand {
    /// Add a machine
    Add(AddArgs),
    /// List the machines: whether they reply, and their last contact
    #[command(
        alias = "ls",
        after_long_help = "\
All machines are asked in parallel, each for at most 5 seconds.

EXAMPLES
  nerve machine list
  nerve machine list --json | jq '.machines[] | select(.reachable | not)'"
    )]
    List,
    /// Remove a machine from the list
    #[command(
        visible_alias = "rm",
        after_long_help = "\
Nothing changes on the machine: its nodes and recordings stay.

EXAMPLES
  nerve machine remove work"
    )]
    Remove(NameArg),
    /// End the connection that commands share with a machine
    #[command(after_long_help = "\
Commands share one login for each machine, which ends 10 minutes after the last use. This ends it now, with all commands over it:
'nerve attach' to the machine, and prompts that wait for their answer. The next command logs in again.

EXAMPLES
  nerve machine disconnect work
  nerve machine disconnect")]
    Disconnect(MachineSelection),
    /// Check each step of the connection to a machine
    #[command(after_long_help = "\
Checks ssh, the connection, nerve on the machine, its version and its server, and prints what helps. Exits with 1 if a step fails.

EXAMPLES
  nerve machine doctor
  nerve machine doctor work --json")]
    Doctor(MachineSelection),
}

/// Arguments of `nerve machine add`.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Connections to an ssh:// address run 'ssh HOST nerve connect' with your own ssh configuration, and must work without a password. The list
is in 'machines.json' in the directory of the settings. It has paths of token files, but no tokens.

EXAMPLES
  nerve machine add work ssh://me@work.example.com
  nerve machine add laptop ssh://laptop --program '~/.local/bin/nerve'
  nerve machine add build tls://build.example.com:7070 \\
      --token-file ~/.config/nerve/build.token
  nerve ls --all-machines
  nerve send work/default/me 'Run the tests'")]
pub struct AddArgs {
    /// Name: 1-32 of a-z, 0-9 and '-'
    pub name: String,
    /// Address of the machine.
    #[arg(help = "ssh://[USER@]HOST[:PORT] or tls://HOST:PORT")]
    pub address: String,
    /// nerve program there, for ssh [default: nerve, which the login shell must find]
    #[arg(long, value_name = "PATH")]
    pub program: Option<String>,
    /// Server there, for ssh [default: default]
    #[arg(long, value_name = "NAME")]
    pub server: Option<String>,
    /// File with the server's token, for tls://
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with = "token_env")]
    pub token_file: Option<PathBuf>,
    /// Environment variable with the server's token, for tls://
    #[arg(long, value_name = "NAME")]
    pub token_env: Option<String>,
    /// PEM file of the certificate authorities to trust, for tls:// [default: the usual authorities]
    #[arg(long = "ca", value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub ca_file: Option<PathBuf>,
}

/// The name of a machine.
#[derive(Debug, Args)]
pub struct NameArg {
    /// Machine
    #[arg(value_name = "MACHINE")]
    pub name: String,
}

/// One machine, or all.
#[derive(Debug, Args)]
pub struct MachineSelection {
    /// Machine [default: all]
    #[arg(value_name = "MACHINE")]
    pub name: Option<String>,
}

/// Runs a command. `version`: that of this program.
///
/// # Errors
/// The list cannot be read or changed, there is no such machine, or a step of a connection fails.
pub async fn run(machines: &Machines, command: MachineCommand, is_json: bool, version: &str) -> Result<()> {
    match command {
        MachineCommand::Add(args) => add(machines, args, is_json),
        MachineCommand::List => list(machines, is_json).await,
        MachineCommand::Disconnect(args) => disconnect(machines, args, is_json).await,
        MachineCommand::Remove(args) => {
            let machine = machines.remove(&args.name)?;
            machines.disconnect(&machine).await;
            match is_json {
                true => out::json(&machine),
                false => out::line(format_args!("machine '{}' removed", machine.name)),
            }
        }
        MachineCommand::Doctor(args) => doctor(machines, args, is_json, version).await,
    }
}

fn add(machines: &Machines, args: AddArgs, is_json: bool) -> Result<()> {
    let absolute = |path: Option<PathBuf>| {
        path.map(std::path::absolute).transpose().context("cannot find the current directory")
    };
    let machine = Machine {
        name: args.name,
        address: args.address,
        program: args.program,
        server: args.server,
        token_file: absolute(args.token_file)?,
        token_env: args.token_env,
        ca_file: absolute(args.ca_file)?,
    };
    machines.add(machine.clone())?;
    if is_json {
        return out::json(&machine);
    }
    out::line(format_args!("machine '{}' added", machine.name))?;
    out::note(format_args!("check the connection: nerve machine doctor {}", machine.name));
    Ok(())
}

async fn list(machines: &Machines, is_json: bool) -> Result<()> {
    let query = machines.query_all(LIST_TIMEOUT, |_, client| async move { client.ping().await });
    let replies = out::progress("connecting", query).await?;
    if is_json {
        let list: Vec<Value> = replies
            .iter()
            .map(|reply| {
                let mut value = reply_json(reply);
                if let Ok(pong) = &reply.outcome {
                    value["version"] = pong.version.as_str().into();
                    value["node_count"] = pong.nodes.into();
                }
                value
            })
            .collect();
        return out::json(&json!({ "machines": list }));
    }
    if replies.is_empty() {
        out::note("no machines; add one with 'nerve machine add NAME ssh://HOST'");
        return Ok(());
    }
    let rows: Vec<Vec<String>> = replies
        .iter()
        .map(|reply| {
            let (state, nodes, version) = match &reply.outcome {
                Ok(pong) => ("ready".to_string(), pong.nodes.to_string(), pong.version.clone()),
                Err(error) => {
                    let since = format_contact(reply.last_contact);
                    (format!("unreachable, {since}: {}", error.message), String::new(), String::new())
                }
            };
            vec![reply.machine.name.clone(), reply.machine.address.clone(), nodes, version, state]
        })
        .collect();
    out::table_with_numbers(&["machine", "address", "nodes", "version", "state"], &rows, &["nodes"])
}

impl MachineSelection {
    /// Returns the selected machines.
    fn find(&self, machines: &Machines) -> Result<Vec<Machine>> {
        let selected = match &self.name {
            Some(name) => vec![machines.find(name)?],
            None => machines.list()?,
        };
        if selected.is_empty() {
            out::note("no machines; add one with 'nerve machine add NAME ssh://HOST'");
        }
        Ok(selected)
    }
}

async fn disconnect(machines: &Machines, selection: MachineSelection, is_json: bool) -> Result<()> {
    let selected = selection.find(machines)?;
    let all = selected.iter().map(|machine| machines.disconnect(machine));
    let ended = futures_util::future::join_all(all).await;
    let results = selected.iter().zip(ended);
    if is_json {
        let value = |(machine, ended): (&Machine, bool)| json!({ "machine_name": machine.name, "address": machine.address, "disconnected": ended });
        return out::json(&json!({ "machines": results.map(value).collect::<Vec<_>>() }));
    }
    for (machine, ended) in results {
        let result = if ended { "disconnected" } else { "had no shared connection" };
        out::line(format_args!("machine '{}' {result}", machine.name))?;
    }
    Ok(())
}

async fn doctor(
    machines: &Machines,
    selection: MachineSelection,
    is_json: bool,
    version: &str,
) -> Result<()> {
    let selected = selection.find(machines)?;
    let (mut failed, mut documents) = (Vec::new(), Vec::new());
    let all = out::progress("checking machines", machines.diagnose_all(&selected, version)).await;
    for (machine, checks) in selected.iter().zip(&all) {
        let ok = checks.iter().all(|check| check.ok == Some(true));
        if !ok {
            failed.push(machine.name.as_str());
        }
        if is_json {
            let checks: Vec<Value> = checks.iter().map(check_as_json).collect();
            let (name, address) = (&machine.name, &machine.address);
            documents.push(json!({ "machine_name": name, "address": address, "ok": ok, "checks": checks }));
        } else {
            out::line(format_args!("{} {}", machine.name, machine.address))?;
            checks.iter().flat_map(format_check).try_for_each(out::line)?;
        }
    }
    if is_json {
        out::json(&json!({ "ok": failed.is_empty(), "machines": documents }))?;
    }
    if failed.is_empty() {
        return Ok(());
    }
    Err(Failure::new(FAILED, format!("no connection to: {}", failed.join(", "))).into())
}

/// Formats a check: its result, and its hint in a second line. Both may have text of the machine, which must not control the terminal
/// or imitate further lines.
fn format_check(check: &Check) -> Vec<String> {
    let one_line = |text: &str| out::sanitize(&text.replace('\n', " "));
    let mark = out::mark(check.ok == Some(true), check.ok.is_some());
    let result = format!("  {mark} {:<10} {}", check.step.name(), one_line(&check.found));
    let hint = check.hint.as_ref().map(|hint| {
        let (faint, hint) = (out::FAINT, one_line(hint));
        format!("       {:<10} {faint}{hint}{faint:#}", "")
    });
    [result].into_iter().chain(hint).collect()
}

fn check_as_json(check: &Check) -> Value {
    json!({ "name": check.step.name(), "ok": check.ok, "found": check.found, "hint": check.hint })
}

/// Runs `nerve attach` on a machine, in this terminal. `options`: those of its command line. Returns its exit code.
///
/// # Errors
/// The machine is not reached through ssh, or ssh cannot be started or fails.
pub async fn attach(machines: &Machines, machine: &Machine, node: &str, options: &[String]) -> Result<u8> {
    let Some(target) = machines.ssh_target(machine, CONNECT_TIMEOUT) else {
        let message = format!("cannot attach on machine '{}': its address has no ssh", machine.label());
        let hint = "add it with its ssh:// address, or print the text: nerve node read MACHINE/SESSION/NODE";
        return Err(Failure::new(USAGE, message).hint(hint).into());
    };
    let (server, node) = (format!("--server={}", target.server), node.to_string());
    let words = [&["attach".to_string(), server], options, &["--".to_string(), node]].concat();
    let status = target.interactive_command(&words, target.sharing().await).status();
    let status = status.with_context(|| format!("cannot start {}", target.ssh.display()))?;
    if status.code() == Some(SSH_FAILED.into()) {
        let message = format!("connection to '{}' failed or broke: see the report of ssh", machine.label());
        let check = if machine.name.is_empty() { "list" } else { "doctor" };
        let hint = format!("check the connection: nerve machine {check} {}", machine.name);
        return Err(Failure::new(SSH_FAILED, message).hint(hint.trim_end()).into());
    }
    Ok(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(FAILED))
}

/// Copies a recording of a machine into the cache, and shows the progress. Returns the path of the copy. Also works in a runtime.
///
/// # Errors
/// See [`Machines::fetch_recording`]. Ctrl+C.
pub fn fetch_recording(
    machines: &Machines,
    machine: &str,
    name: &str,
    cache: &RecordingCache,
) -> Result<PathBuf> {
    let machine = machines.find(machine)?;
    let work = || -> Result<PathBuf> {
        let title = format!("copying '{name}' from {}", machine.label());
        let (step, steps) = watch::channel(title.clone());
        let on_progress = |done: u64, total: u64| {
            let percent = (done.saturating_mul(100)).checked_div(total).unwrap_or(100);
            step.send_replace(format!("{title}: {percent} %"));
        };
        let fetch = machines.fetch_recording(&machine, name, cache, on_progress);
        let work = async {
            tokio::select! {
                biased;
                _ = tokio::signal::ctrl_c() => Err(anyhow::Error::from(Failure::new(INTERRUPTED, "interrupted"))),
                path = out::progress_with_steps(steps, fetch) => path.map_err(anyhow::Error::from),
            }
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.context("cannot start the runtime")?.block_on(work)
    };
    // The thread of a runtime cannot wait for another one.
    let done = thread::scope(|scope| scope.spawn(work).join());
    done.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Returns a machine and whether it replied, as JSON.
pub(crate) fn reply_json<T>(reply: &MachineReply<T>) -> Value {
    let at = match reply.outcome {
        Ok(_) => Some(SystemTime::now()),
        Err(_) => reply.last_contact,
    };
    let mut value = json!({
        "machine_name": reply.machine.name,
        "address": reply.machine.address,
        "server_name": reply.machine.server_name(),
        "reachable": reply.outcome.is_ok(),
        "last_contact_at": at.map(|at| TsMs::from(at).iso()),
    });
    if let Err(error) = &reply.outcome {
        value["error"] = error.message.as_str().into();
        value["error_type"] = error.kind.as_str().into();
        value["hint"] = error.hint.as_deref().into();
    }
    value
}

/// Formats the time of the last contact: `last contact 5m ago`.
pub fn format_contact(at: Option<SystemTime>) -> String {
    let Some(at) = at else { return "no contact so far".to_string() };
    // The clock may have been set back since.
    let seconds = at.elapsed().unwrap_or_default().as_secs();
    let age = match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m", seconds / 60),
        3600..86400 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86400),
    };
    format!("last contact {age} ago")
}

#[cfg(test)]
mod tests {
    use nerve_machine::doctor::Step;

    use super::*;

    #[test]
    fn hostile_text_of_a_machine_stays_text() {
        let hostile = "x\x1b]0;evil\x07\r\n  ok         y".to_string();
        let (found, hint) = (hostile.clone(), Some(hostile));
        let lines = format_check(&Check { step: Step::Server, ok: Some(false), found, hint });
        assert_eq!(lines.len(), 2);
        for line in &lines {
            assert!(!line.contains("\x1b]") && !line.contains(['\x07', '\r', '\n']), "{line:?}");
            assert!(line.contains("x]0;evil"), "{line:?}");
        }
    }

    #[test]
    fn contact_has_age_in_its_largest_unit() {
        let ago = |seconds| format_contact(Some(SystemTime::now() - Duration::from_secs(seconds)));
        assert_eq!(ago(90), "last contact 1m ago");
        assert_eq!(ago(7300), "last contact 2h ago");
        assert_eq!(ago(200_000), "last contact 2d ago");
        assert!(format_contact(None).contains("no contact"));
        let in_future = SystemTime::now() + Duration::from_secs(3600);
        assert_eq!(format_contact(Some(in_future)), "last contact 0s ago");
    }
}
