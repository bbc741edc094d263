//! `nerve service`: installs, removes and shows a systemd user service that runs a server.

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::PathBuf;
use std::process::{Command, Output};

use anyhow::{Context, Result};
use nerve_cli::server::NameArgs;
use nerve_cli::service::{InstallArgs, ServiceArgs, ServiceCommand};
use nerve_server::daemon::{NameStatus, holder};
use nerve_server::paths::ServerPaths;
use serde_json::{Value, json};

use crate::exit::{FAILED, Failure, NOT_FOUND, USAGE};
use crate::out;

/// Variables of this process that the server needs to find the agents and its files.
const VARIABLES: [&str; 5] = ["PATH", "NERVE_HOME", "AH_HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME"];

/// Runs the subcommand.
pub(crate) fn run(args: &ServiceArgs) -> Result<()> {
    match &args.command {
        ServiceCommand::Install(args) => install(args),
        ServiceCommand::Uninstall(args) => uninstall(&Service::new(&args.name)?, args.json),
        ServiceCommand::Status(args) => show(&Service::new(&args.name)?, args.json),
    }
}

/// The service of a server.
struct Service {
    server: String,
    /// Name of the unit.
    unit: String,
    /// Path of the unit file.
    path: PathBuf,
}

impl Service {
    fn new(name: &NameArgs) -> Result<Service> {
        let server = name.get();
        // Checks the name.
        ServerPaths::from_env().socket(&server)?;
        let unit = match server.as_str() {
            "default" => "nerve.service".to_string(),
            name => format!("nerve-{name}.service"),
        };
        let config = std::env::var_os("XDG_CONFIG_HOME").filter(|path| !path.is_empty()).map(PathBuf::from);
        let config = config.or_else(|| Some(std::env::home_dir()?.join(".config")));
        let config = config.context("cannot find the folder of user services: HOME is not set")?;
        Ok(Service { path: config.join("systemd/user").join(&unit), server, unit })
    }

    fn as_json(&self) -> Value {
        json!({ "server_name": self.server, "unit": self.unit, "file": self.path })
    }

    /// Returns the text of the unit file.
    fn text(&self) -> Result<String> {
        let program = crate::current_exe::path()?;
        let program = program.to_str().context("the path of this program is not UTF-8")?;
        let mut text = format!(
            "[Unit]\n\
             Description=nerve server {}\n\
             \n\
             [Service]\n\
             ExecStart={} server start --foreground --restore --name {}\n",
            self.server,
            // `$` begins a variable only in commands.
            quote(program).replace('$', "$$"),
            self.server
        );
        for name in VARIABLES {
            if let Ok(value) = std::env::var(name) {
                // The service runs in another folder.
                let value = match name {
                    "NERVE_HOME" if !value.is_empty() => {
                        let path = std::path::absolute(&value).context("cannot resolve NERVE_HOME")?;
                        path.to_str().context("the path of NERVE_HOME is not UTF-8")?.to_string()
                    }
                    _ => value,
                };
                let _ = writeln!(text, "Environment={}", quote(&format!("{name}={value}")));
            }
        }
        // Hosts and their agents survive a crash of the server, and the next one takes them over.
        text.push_str("KillMode=process\nRestart=on-failure\n\n[Install]\nWantedBy=default.target\n");
        Ok(text)
    }
}

fn install(args: &InstallArgs) -> Result<()> {
    let service = Service::new(&args.name)?;
    let text = service.text()?;
    if args.print && args.json {
        let failure = Failure::new(USAGE, "cannot print the unit as JSON: it is a text for systemd");
        return Err(failure.hint("omit --json").into());
    }
    if args.print {
        return out::text(text.trim_end());
    }
    // Nothing is written without a systemd that can use it.
    systemctl(&["daemon-reload"])?;
    check_not_running(&service)?;
    if let Some(folder) = service.path.parent() {
        fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    }
    fs::write(&service.path, text).with_context(|| format!("cannot write {}", service.path.display()))?;
    let started = systemctl(&["daemon-reload"]).and_then(|()| systemctl(&["enable", "--now", &service.unit]));
    if started.is_err() {
        let _ = fs::remove_file(&service.path);
        let _ = systemctl(&["daemon-reload"]);
    }
    started?;
    if args.json {
        return out::json(&service.as_json());
    }
    out::line(format_args!("service '{}' installed and started: {}", service.unit, service.path.display()))?;
    out::line("it ends at logout, unless you run 'loginctl enable-linger'")
}

/// Fails if a server of this name runs that is not the service: the service could not start.
fn check_not_running(service: &Service) -> Result<()> {
    let (name, paths) = (&service.server, ServerPaths::from_env());
    let is_held = holder(&paths, name)? != NameStatus::Free;
    if !is_held || call(&["is-active", &service.unit])?.status.success() {
        return Ok(());
    }
    let message = format!("cannot install service '{}': server '{name}' is running", service.unit);
    Err(Failure::new(FAILED, message).hint(format!("stop it first: 'nerve server stop {name}'")).into())
}

fn uninstall(service: &Service, json: bool) -> Result<()> {
    check_installed(service)?;
    systemctl(&["disable", "--now", &service.unit])?;
    fs::remove_file(&service.path).with_context(|| format!("cannot remove {}", service.path.display()))?;
    systemctl(&["daemon-reload"])?;
    if json {
        return out::json(&service.as_json());
    }
    out::line(format_args!("service '{}' removed", service.unit))
}

fn show(service: &Service, json: bool) -> Result<()> {
    check_installed(service)?;
    let answer = |question: &str| -> Result<String> {
        let output = call(&[question, &service.unit])?;
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_string())
    };
    if json {
        let mut document = service.as_json();
        (document["enabled"], document["active"]) =
            (answer("is-enabled")?.into(), answer("is-active")?.into());
        return out::json(&document);
    }
    out::fields(&[
        ("unit", service.unit.clone()),
        ("file", service.path.display().to_string()),
        ("enabled", answer("is-enabled")?),
        ("active", answer("is-active")?),
    ])
}

fn check_installed(service: &Service) -> Result<()> {
    if service.path.is_file() {
        return Ok(());
    }
    let message = format!("service '{}' is not installed: no file {}", service.unit, service.path.display());
    Err(Failure::new(NOT_FOUND, message).hint("install it with 'nerve service install'").into())
}

/// Runs `systemctl --user`. An exit status other than 0 is an error.
fn systemctl(args: &[&str]) -> Result<()> {
    let output = call(args)?;
    if output.status.success() {
        return Ok(());
    }
    let stderr = String::from_utf8_lossy(&output.stderr);
    let message = format!("'systemctl --user {}' failed: {}", args.join(" "), out::sanitize(stderr.trim()));
    Err(without_systemd(message))
}

fn call(args: &[&str]) -> Result<Output> {
    Command::new("systemctl").arg("--user").args(args).output().map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => {
            without_systemd("cannot use a systemd service: 'systemctl' is not on the PATH".to_string())
        }
        _ => anyhow::Error::new(error).context("cannot run 'systemctl'"),
    })
}

fn without_systemd(message: String) -> anyhow::Error {
    Failure::new(FAILED, message).hint("without systemd, run 'nerve server start --restore' at login").into()
}

/// Quotes a word of a unit file (systemd.syntax(7)): specifiers and quotes have no effect.
fn quote(word: &str) -> String {
    let escaped = word.replace('\\', "\\\\").replace('"', "\\\"").replace('%', "%%");
    format!("\"{escaped}\"")
}
