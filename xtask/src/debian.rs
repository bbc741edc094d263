//! Debian packages the tests and benches use: installs those that are missing.

use std::process::Command;

use crate::project;
use crate::tools;

/// A package and how to see that it is not needed any more.
struct Package {
    name: &'static str,
    what_for: &'static str,
    present: fn() -> bool,
}

const PACKAGES: &[Package] = &[
    Package {
        name: "git",
        what_for: "listing the project's files",
        present: || tools::find("git").is_some(),
    },
    Package { name: "procps", what_for: "looking at processes", present: || tools::find("ps").is_some() },
    Package { name: "tmux", what_for: "comparing with tmux", present: || tools::find("tmux").is_some() },
    Package {
        name: "util-linux",
        what_for: "a network without the world",
        present: || tools::find("unshare").is_some(),
    },
    Package {
        name: "iproute2",
        what_for: "a network without the world",
        present: || tools::find("ip").is_some(),
    },
    Package {
        name: "asciinema",
        what_for: "reading exported recordings",
        present: || tools::find("asciinema").is_some(),
    },
    Package { name: "jq", what_for: "the README's examples", present: || tools::find("jq").is_some() },
    Package { name: "curl", what_for: "HTTP/2 from outside", present: || tools::find("curl").is_some() },
    Package { name: "wrk", what_for: "measuring HTTP", present: || tools::find("wrk").is_some() },
    Package { name: "python3", what_for: "driving a REPL", present: || tools::find("python3").is_some() },
    Package { name: "python3-venv", what_for: "packages of PyPI", present: || has_module("venv, ensurepip") },
    Package { name: "python3-pytest", what_for: "testing the Python SDK", present: || has_module("pytest") },
    Package {
        name: "openssl",
        what_for: "certificates for tests",
        present: || tools::find("openssl").is_some(),
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

/// Installs what is missing, where we may. Gives one line for each package that is still missing.
pub(crate) fn install_missing() -> Vec<String> {
    let missing = missing();
    if missing.is_empty() {
        println!("Debian packages: all there");
        return Vec::new();
    }
    let names: Vec<&str> = missing.iter().map(|package| package.name).collect();
    if tools::is_root() && tools::find("apt-get").is_some() {
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

/// Debian's own interpreter has Debian's packages; a `python3` from elsewhere may shadow it.
fn has_module(name: &str) -> bool {
    let import = format!("import {name}");
    ["python3", "/usr/bin/python3"].iter().any(|python| tools::succeeds(python, &["-c", &import]))
}
