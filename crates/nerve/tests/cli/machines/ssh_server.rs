//! An sshd on loopback with its own keys, and a client configuration that knows it.

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use nerve_testkit::harness::KillOnDrop;
use nerve_testkit::{Hermetic, wait_until};

use crate::harness::{DEADLINE, Home, NERVE};

/// Attempts to find a port that is still free when sshd takes it.
const PORT_ATTEMPTS: usize = 10;
const SSHD: &str = "/usr/sbin/sshd";

/// A running sshd. The hosts in its client's configuration differ in the home of their nerve.
pub(crate) struct SshServer {
    folder: PathBuf,
    /// Directory of the client's master connections.
    sockets: PathBuf,
    port: u16,
    _process: KillOnDrop,
}

impl Drop for SshServer {
    /// Ends the master connections, which would stay.
    fn drop(&mut self) {
        for socket in self.masters().into_iter().chain(sockets_in(&self.folder)) {
            let _ = control(&socket, "exit");
        }
    }
}

impl SshServer {
    /// Starts sshd. Its files are in the home of `client`, which reaches it.
    pub(crate) fn start(client: &Home) -> SshServer {
        SshServer::start_with(client, "")
    }

    /// Starts sshd with further lines of its configuration.
    pub(crate) fn start_with(client: &Home, options: &str) -> SshServer {
        let folder = client.hermetic.root().join("ssh");
        fs::create_dir_all(&folder).unwrap();
        for key in ["host_key", "user_key", "other_key"] {
            let file = folder.join(key);
            let mut keygen = Command::new("ssh-keygen");
            keygen.args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(file);
            assert!(keygen.status().unwrap().success());
        }
        fs::copy(folder.join("user_key.pub"), folder.join("authorized_keys")).unwrap();
        // Without systemd, nothing has created the directory that sshd of root needs.
        if rustix::process::getuid().is_root() {
            fs::create_dir_all("/run/sshd").unwrap();
        }
        let mut started = (0..PORT_ATTEMPTS).find_map(|_| listen(&client.hermetic, &folder, options));
        let (port, process) = started.take().unwrap_or_else(|| panic!("sshd does not listen"));
        let sockets = client.hermetic.nerve_home().join("run/ssh");
        let server = SshServer { folder, sockets, port, _process: process };
        server.trust_host_key("host_key.pub");
        fs::write(server.config(), "").unwrap();
        let ssh = format!("#!/bin/sh\nexec ssh -F '{}' \"$@\"\n", server.config().display());
        write_program(&server.program(), &ssh);
        server
    }

    /// Starts sshd with these further settings for the machine `laptop`, and adds it to the list of `here`.
    pub(crate) fn add_laptop<'a>(here: &'a Home, laptop: &Home, settings: &str) -> (SshServer, Client<'a>) {
        let sshd = SshServer::start_with(here, settings);
        sshd.add_host("laptop", &laptop.hermetic.nerve_home());
        let client = Client { home: here, ssh: sshd.program() };
        client.add("laptop", "ssh://laptop");
        (sshd, client)
    }

    /// Adds a host to the client's configuration, whose nerve has this home.
    pub(crate) fn add_host(&self, name: &str, nerve_home: &Path) {
        self.add_host_with(name, nerve_home, "user_key", &user());
    }

    /// Adds a host with a key and a user.
    pub(crate) fn add_host_with(&self, name: &str, nerve_home: &Path, key: &str, user: &str) {
        let (folder, port) = (self.folder.display(), self.port);
        let host = format!(
            "Host {name}\n  HostName 127.0.0.1\n  Port {port}\n  User {user}\n  IdentityFile {folder}/{key}\n  IdentitiesOnly yes\n  \
             IdentityAgent none\n  UserKnownHostsFile {folder}/known_hosts\n  GlobalKnownHostsFile /dev/null\n  \
             SetEnv NERVE_HOME={}\n",
            nerve_home.display()
        );
        let config = fs::read_to_string(self.config()).unwrap();
        fs::write(self.config(), config + &host).unwrap();
    }

    /// Adds lines to the entry of the host that was added last. `{folder}` is that of the server's files.
    pub(crate) fn add_options(&self, lines: &str) {
        let config = fs::read_to_string(self.config()).unwrap();
        fs::write(self.config(), config + &lines.replace("{folder}", self.folder.to_str().unwrap())).unwrap();
    }

    /// Returns the number of logins so far.
    pub(crate) fn logins(&self) -> usize {
        let log = fs::read_to_string(self.folder.join("sshd.log")).unwrap();
        log.lines().filter(|line| line.contains("Accepted publickey")).count()
    }

    /// Returns the sockets of nerve's master connections.
    pub(crate) fn masters(&self) -> Vec<PathBuf> {
        sockets_in(&self.sockets).into_iter().filter(|path| path.extension().is_none()).collect()
    }

    /// Returns the sockets that are forwarded to servers.
    pub(crate) fn forwarded(&self) -> Vec<PathBuf> {
        sockets_in(&self.sockets).into_iter().filter(|path| path.extension().is_some()).collect()
    }

    /// Returns the socket of a master connection of the user's own configuration.
    pub(crate) fn own_master(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Returns the process of the only master connection.
    pub(crate) fn master_process(&self) -> u32 {
        let masters = self.masters();
        assert_eq!(masters.len(), 1, "{masters:?}");
        let report = control(&masters[0], "check").unwrap();
        report.split_once("pid=").unwrap().1.split_once(')').unwrap().0.parse().unwrap()
    }

    /// Replaces the client's known keys of the host with this one.
    pub(crate) fn trust_host_key(&self, public_key: &str) {
        let key = fs::read_to_string(self.folder.join(public_key)).unwrap();
        let known = format!("[127.0.0.1]:{} {key}", self.port);
        fs::write(self.folder.join("known_hosts"), known).unwrap();
    }

    /// Returns the ssh program that uses the client's configuration.
    pub(crate) fn program(&self) -> PathBuf {
        self.folder.join("ssh")
    }

    fn config(&self) -> PathBuf {
        self.folder.join("config")
    }
}

fn sockets_in(folder: &Path) -> Vec<PathBuf> {
    let files = fs::read_dir(folder).into_iter().flatten().flatten();
    files.filter(|file| file.file_type().unwrap().is_socket()).map(|file| file.path()).collect()
}

/// Sends a command to a master connection, and returns the report. A stopped master does not reply.
fn control(socket: &Path, name: &str) -> std::io::Result<String> {
    let mut command = Command::new("timeout");
    command.args(["5", "ssh", "-F", "none", "-O", name, "-S"]).arg(socket).arg("any");
    Ok(String::from_utf8_lossy(&command.output()?.stderr).into_owned())
}

/// Starts sshd on a free port. Returns `None` if another process took the port.
fn listen(home: &Hermetic, folder: &Path, options: &str) -> Option<(u16, KillOnDrop)> {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let path = folder.display();
    // The startup files of the user's own shell stay out.
    let config = format!(
        "ListenAddress 127.0.0.1:{port}\nHostKey {path}/host_key\nPidFile none\nAuthorizedKeysFile {path}/authorized_keys\n\
         StrictModes no\nUsePAM no\nPasswordAuthentication no\nKbdInteractiveAuthentication no\nPermitRootLogin yes\n\
         AcceptEnv NERVE_HOME\nMaxStartups 100\nSetEnv HOME={}\n{options}",
        home.home().display()
    );
    fs::write(folder.join("sshd_config"), config).unwrap();
    let mut command = home.command(SSHD);
    command.arg("-D").arg("-E").arg(folder.join("sshd.log")).arg("-f").arg(folder.join("sshd_config"));
    let mut process = KillOnDrop::spawn(command);
    let listens = wait_until(DEADLINE, || {
        TcpStream::connect(("127.0.0.1", port)).is_ok() || process.0.try_wait().unwrap().is_some()
    });
    let has_ended = process.0.try_wait().unwrap().is_some();
    (listens && !has_ended).then_some((port, process))
}

/// Writes a stand-in for ssh that runs the command of a host here, in the home of that name under `homes`. `before`: what the login
/// shell there does first.
pub(crate) fn write_local_ssh(path: &Path, homes: &Path, before: &str) {
    let text = format!(
        "#!/bin/sh\nwhile [ \"$1\" != -- ]; do shift; done\nexport NERVE_HOME='{}'/$2\n{before}\nshift 2\neval \"exec $1\"\n",
        homes.display()
    );
    write_program(path, &text);
}

/// Writes a shell script that can be run.
pub(crate) fn write_program(path: &Path, text: &str) {
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// Returns the name of the user of this process.
fn user() -> String {
    let output = Command::new("id").arg("-un").output().unwrap();
    String::from_utf8(output.stdout).unwrap().trim().to_string()
}

/// A home whose commands use an ssh program.
pub(crate) struct Client<'a> {
    pub(crate) home: &'a Home,
    pub(crate) ssh: PathBuf,
}

impl Client<'_> {
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = self.home.command(args);
        command.env("NERVE_SSH", &self.ssh);
        command
    }

    pub(crate) fn nerve(&self, args: &[&str]) -> nerve_testkit::harness::CommandOutput {
        self.home.run(self.command(args))
    }

    pub(crate) fn ok(&self, args: &[&str]) -> String {
        self.nerve(args).success()
    }

    /// Adds a machine whose nerve is the program under test.
    pub(crate) fn add(&self, name: &str, address: &str) {
        self.ok(&["machine", "add", name, address, "--program", NERVE]);
    }

    /// Returns the entry of a machine in `ls --all-machines`, which must not fail.
    pub(crate) fn listed(&self, name: &str) -> serde_json::Value {
        let list: serde_json::Value =
            serde_json::from_str(&self.ok(&["ls", "--all-machines", "--json"])).unwrap();
        let machines = list["machines"].as_array().unwrap();
        machines.iter().find(|machine| machine["machine_name"] == name).unwrap().clone()
    }
}
