//! Installs missing Debian packages that tests and benchmarks use.

use std::path::Path;
use std::process::Command;

use crate::programs;
use crate::project;

/// A Debian package and the check that shows whether it is installed.
struct Package {
    name: &'static str,
    what_for: &'static str,
    present: fn() -> bool,
}

const PACKAGES: &[Package] = &[
    Package {
        name: "git",
        what_for: "listing the project's files",
        present: || programs::find("git").is_some(),
    },
    Package { name: "procps", what_for: "looking at processes", present: || programs::find("ps").is_some() },
    Package { name: "tmux", what_for: "comparing with tmux", present: || programs::find("tmux").is_some() },
    Package {
        name: "util-linux",
        what_for: "a network without the world",
        present: || programs::find("unshare").is_some(),
    },
    Package {
        name: "iproute2",
        what_for: "a network without the world",
        present: || programs::find("ip").is_some(),
    },
    Package {
        name: "asciinema",
        what_for: "reading exported recordings",
        present: || programs::find("asciinema").is_some(),
    },
    Package {
        name: "jq",
        what_for: "the examples in the README and docs/",
        present: || programs::find("jq").is_some(),
    },
    Package {
        name: "binutils",
        what_for: "packing a program",
        present: || programs::find("readelf").is_some(),
    },
    Package { name: "xz-utils", what_for: "packing a tarball", present: || programs::find("xz").is_some() },
    Package { name: "curl", what_for: "HTTP/2 from outside", present: || programs::find("curl").is_some() },
    Package { name: "wrk", what_for: "measuring HTTP", present: || programs::find("wrk").is_some() },
    Package {
        name: "openssh-client",
        what_for: "reaching other machines",
        present: || programs::find("ssh").is_some() && programs::find("ssh-keygen").is_some(),
    },
    Package {
        name: "openssh-server",
        what_for: "reaching other machines",
        present: || Path::new("/usr/sbin/sshd").exists(),
    },
    Package { name: "zsh", what_for: "driving a shell", present: || programs::find("zsh").is_some() },
    Package { name: "fish", what_for: "driving a shell", present: || programs::find("fish").is_some() },
    Package { name: "sqlite3", what_for: "driving a REPL", present: || programs::find("sqlite3").is_some() },
    Package { name: "python3", what_for: "driving a REPL", present: || programs::find("python3").is_some() },
    Package { name: "python3-venv", what_for: "packages of PyPI", present: || has_module("venv, ensurepip") },
    Package {
        name: "chromium",
        what_for: "using the web console",
        present: || programs::find("chromium").is_some(),
    },
    Package {
        name: "openssl",
        what_for: "certificates for tests",
        present: || programs::find("openssl").is_some(),
    },
    Package {
        name: "python3-pexpect",
        what_for: "comparing with pexpect",
        present: || has_module("pexpect"),
    },
    Package {
        name: "python3-libtmux",
        what_for: "comparing with libtmux",
        present: || has_module("libtmux"),
    },
];

/// Installs missing packages if run as root. Returns one line for each package that is still missing.
pub(crate) fn install_missing() -> Vec<String> {
    let missing = missing();
    if missing.is_empty() {
        println!("Debian packages: all there");
        return Vec::new();
    }
    let names: Vec<&str> = missing.iter().map(|package| package.name).collect();
    if programs::is_root() && programs::find("apt-get").is_some() {
        println!("Debian packages: installing {}", names.join(" "));
        if let Err(error) = install(&names) {
            eprintln!("{error:#}");
        }
    }
    self::missing()
        .iter()
        .map(|package| format!("{} is missing ({}); apt-get install {0}", package.name, package.what_for))
        .collect()
}

fn missing() -> Vec<&'static Package> {
    PACKAGES.iter().filter(|package| !(package.present)()).collect()
}

fn install(names: &[&str]) -> anyhow::Result<()> {
    project::run(apt_get().args(["update", "-qq"]))?;
    project::run(apt_get().args(["install", "-y", "-qq", "--no-install-recommends"]).args(names))
}

fn apt_get() -> Command {
    let mut command = Command::new("apt-get");
    command.env("DEBIAN_FRONTEND", "noninteractive");
    command
}

/// Checks Debian's own interpreter, which has Debian's packages; another `python3` may come first in `PATH`.
fn has_module(name: &str) -> bool {
    let import = format!("import {name}");
    ["python3", "/usr/bin/python3"].iter().any(|python| programs::succeeds(python, &["-c", &import]))
}
