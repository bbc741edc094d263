//! Other machines: echo turns over TLS and through ssh, and one list over twenty machines. A real sshd on loopback.
#![expect(clippy::print_stdout, reason = "the report goes to stdout")]

#[path = "support/server_process.rs"]
mod server_process;
#[allow(dead_code, reason = "shared by all benchmarks, none uses all of it")]
mod support;

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use nerve_api::request::ExecuteInput;
use nerve_client::{NerveClient, RemoteNode, SshTarget, Tls};
use nerve_testkit::{Hermetic, wait_until};
use serde_json::Value;

use server_process::{LiveServer, nerve, run};
use support::{Goal, Report, Samples};

const RUNS: usize = 7;
const TURNS: usize = 100;
/// Number of machines in the list.
const MACHINES: usize = 20;
const LISTS: usize = 30;
const NERVE: &str = env!("CARGO_BIN_EXE_nerve");

#[tokio::main]
async fn main() -> Result<()> {
    if support::is_debug_build() {
        return Ok(());
    }
    let mut report = Report::new(
        "Machines",
        &format!(
            "The other machines are servers with homes of their own on this machine, reached over loopback: \
             with TLS, or through OpenSSH's sshd and one shared login each. {TURNS} sequential turns `echo N` on \
             a node over bash, {RUNS} runs by each in turn; *over local*: the median of a run minus that of the \
             Unix socket. `ls`: the whole process `nerve ls --all-machines` over {MACHINES} servers with a node \
             each, {LISTS} times. The programs of all machines share the two cores here: ssh, sshd, a shell and \
             `nerve connect` for each."
        ),
    );
    let here = Hermetic::new()?;
    let sshd = Sshd::start(&here)?;
    turns(&mut report, &here, &sshd).await?;
    lists(&mut report, &here, &sshd).await?;
    report.print();
    Ok(())
}

/// Measures turns by each transport, and what each costs more than the Unix socket.
async fn turns(report: &mut Report, here: &Hermetic, sshd: &Sshd) -> Result<()> {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_string()])?;
    let private = |name: &str, text: String| -> Result<PathBuf> {
        let path = here.root().join(name);
        fs::write(&path, text)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600))?;
        Ok(path)
    };
    let cert = private("cert.pem", made.cert.pem())?;
    let key = private("key.pem", made.key_pair.serialize_pem())?;
    let options = ["--tcp", "0", "--tls-cert", text(&cert)?, "--tls-key", text(&key)?];
    let server = LiveServer::start_listening(&options)?;
    let status: Value = serde_json::from_slice(&server.run(&["server", "status", "--json"])?.stdout)?;
    let port = status["tcp"].as_str().and_then(|address| address.rsplit_once(':')).context("no port")?.1;
    let token = String::from_utf8(server.run(&["token", "show"])?.stdout)?;

    let local = server.client().await?;
    server_process::bash(&local, "echo", "BENCH> ").await?;
    let authority = Tls::Authorities(fs::read(&cert)?);
    let tls = NerveClient::connect_tcp(&format!("localhost:{port}"), token.trim(), &authority).await?;
    let target = sshd.target(here, "turns", &server.home)?;
    let ssh = NerveClient::connect_ssh(target.clone()).await?;
    let clients = [("Unix socket", local, None), ("TLS", tls, Some(1.0)), ("ssh", ssh, Some(3.0))];
    let mut medians = vec![Vec::new(); clients.len()];
    for run in 1..=RUNS {
        eprintln!("machines: run {run} of {RUNS}");
        for ((_, client, _), medians) in clients.iter().zip(&mut medians) {
            medians.push(echo(&client.node("echo", None)).await?);
        }
    }
    for ((name, _, goal), runs) in clients.iter().zip(&medians) {
        report.row(&format!("turn, {name}: median"), &Samples::new(runs.clone()).median("ms"));
        if let Some(goal) = goal {
            let over = runs.iter().zip(&medians[0]).map(|(run, local)| run - local).collect();
            report.goal(
                &format!("turn, {name}: over local"),
                &Samples::new(over).median("ms"),
                Goal::AtMost(*goal),
            );
        }
    }
    target.end_master().await;
    Ok(())
}

/// Returns the median of turns in ms.
async fn echo(node: &RemoteNode) -> Result<f64> {
    let (timeout, mut times) = (Some(Duration::from_secs(10).into()), Vec::with_capacity(TURNS));
    for number in 1..=TURNS {
        let start = Instant::now();
        let answer = node.execute(ExecuteInput { timeout, ..format!("echo {number}").into() }).await?;
        times.push(start.elapsed().as_secs_f64() * 1e3);
        ensure!(answer.response.text == number.to_string(), "answered {:?}", answer.response.text);
    }
    Ok(Samples::new(times).quantile(0.5))
}

/// Measures the list over all machines: the first one, which logs in, and later ones.
async fn lists(report: &mut Report, here: &Hermetic, sshd: &Sshd) -> Result<()> {
    let mut servers = Vec::new();
    for number in 0..MACHINES {
        let server = LiveServer::start()?;
        server_process::bash(&server.client().await?, "one", "BENCH> ").await?;
        let name = format!("m{number}");
        sshd.add_host(&name, &server.home)?;
        run(here, &["machine", "add", &name, &format!("ssh://{name}"), "--program", NERVE])?;
        servers.push(server);
    }
    let list = || -> Result<f64> {
        let start = Instant::now();
        let output = sshd.nerve(here, &["ls", "--all-machines"]).stdout(Stdio::piped()).output()?;
        let elapsed = start.elapsed().as_secs_f64() * 1e3;
        let rows = String::from_utf8(output.stdout)?.lines().filter(|row| row.contains("one")).count();
        ensure!(rows == MACHINES, "{rows} machines of {MACHINES} replied");
        Ok(elapsed)
    };
    let login = support::Figure::one(list()?, "ms");
    let times = (0..LISTS).map(|_| list()).collect::<Result<Vec<f64>>>()?;
    report.row(&format!("ls over {MACHINES} machines: the first, which logs in"), &login);
    report.goal(
        &format!("ls over {MACHINES} machines: later ones"),
        &Samples::new(times).median("ms"),
        Goal::AtMost(50.0),
    );
    sshd.nerve(here, &["machine", "disconnect"]).status()?;
    Ok(())
}

/// An sshd on loopback, and a client configuration that knows it.
struct Sshd {
    folder: PathBuf,
    port: u16,
    process: Child,
}

impl Drop for Sshd {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Sshd {
    fn start(here: &Hermetic) -> Result<Sshd> {
        let folder = here.root().join("ssh");
        fs::create_dir_all(&folder)?;
        for key in ["host_key", "user_key"] {
            let mut keygen = Command::new("ssh-keygen");
            keygen.args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(folder.join(key));
            ensure!(keygen.status().context("ssh-keygen is missing")?.success(), "ssh-keygen failed");
        }
        // Without systemd, nothing has created the directory that sshd of root needs.
        if fs::metadata("/run/sshd").is_err() {
            let _ = fs::create_dir_all("/run/sshd");
        }
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let path = folder.display();
        let config = format!(
            "ListenAddress 127.0.0.1:{port}\nHostKey {path}/host_key\nPidFile none\nAuthorizedKeysFile {path}/user_key.pub\n\
             StrictModes no\nUsePAM no\nPasswordAuthentication no\nKbdInteractiveAuthentication no\nPermitRootLogin yes\n\
             AcceptEnv NERVE_HOME\nMaxStartups 100\nSetEnv HOME={}\n",
            here.home().display()
        );
        fs::write(folder.join("sshd_config"), config)?;
        let key = fs::read_to_string(folder.join("host_key.pub"))?;
        fs::write(folder.join("known_hosts"), format!("[127.0.0.1]:{port} {key}"))?;
        fs::write(folder.join("config"), "")?;
        let program = folder.join("ssh");
        fs::write(&program, format!("#!/bin/sh\nexec ssh -F '{path}/config' \"$@\"\n"))?;
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755))?;
        let mut command = here.command("/usr/sbin/sshd");
        command.arg("-D").arg("-E").arg(folder.join("log")).arg("-f").arg(folder.join("sshd_config"));
        let process = command.spawn().context("sshd is missing")?;
        let sshd = Sshd { folder, port, process };
        let listens = || TcpStream::connect(("127.0.0.1", sshd.port)).is_ok();
        ensure!(wait_until(Duration::from_secs(30), listens), "sshd does not listen");
        Ok(sshd)
    }

    /// Adds a host whose nerve has this home.
    fn add_host(&self, name: &str, home: &Hermetic) -> Result<()> {
        let (folder, port, nerve_home) = (self.folder.display(), self.port, home.nerve_home());
        let host = format!(
            "Host {name}\n  HostName 127.0.0.1\n  Port {port}\n  IdentityFile {folder}/user_key\n  IdentitiesOnly yes\n  \
             IdentityAgent none\n  UserKnownHostsFile {folder}/known_hosts\n  GlobalKnownHostsFile /dev/null\n  \
             SetEnv NERVE_HOME={}\n",
            nerve_home.display()
        );
        let config = self.folder.join("config");
        Ok(fs::write(&config, fs::read_to_string(&config)? + &host)?)
    }

    /// Adds a host and returns its target, whose connections share a login.
    fn target(&self, here: &Hermetic, name: &str, home: &Hermetic) -> Result<SshTarget> {
        self.add_host(name, home)?;
        let sockets = here.root().join("sockets");
        fs::create_dir_all(&sockets)?;
        fs::set_permissions(&sockets, fs::Permissions::from_mode(0o700))?;
        let mut target = SshTarget::parse(&format!("ssh://{name}")).context("no address")?;
        target.ssh = self.folder.join("ssh").into();
        target.nerve = NERVE.to_string();
        target.control_directory = Some(sockets);
        Ok(target)
    }

    /// Prepares a command on this machine that uses the client configuration.
    fn nerve(&self, here: &Hermetic, arguments: &[&str]) -> Command {
        let mut command = nerve(here, arguments);
        command.env("NERVE_SSH", self.folder.join("ssh"));
        command
    }
}

fn text(path: &Path) -> Result<&str> {
    path.to_str().context("no text")
}
