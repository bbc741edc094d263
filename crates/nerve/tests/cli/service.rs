//! `nerve service`, with a script in place of `systemctl`.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;

use crate::harness::Home;

/// A home whose PATH has only a `systemctl` that logs its arguments, or nothing.
struct Fixture {
    home: Home,
    bin: PathBuf,
}

impl Fixture {
    fn new(script: Option<&str>) -> Fixture {
        let home = Home::new();
        let bin = home.hermetic.work().join("bin");
        fs::create_dir(&bin).unwrap();
        if let Some(script) = script {
            let log = bin.join("log").display().to_string();
            let path = bin.join("systemctl");
            fs::write(&path, format!("#!/bin/sh\necho \"$@\" >> '{log}'\n{script}\n")).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        }
        Fixture { home, bin }
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = self.home.command(args);
        command.env("PATH", &self.bin).env("XDG_CONFIG_HOME", self.home.hermetic.config());
        command
    }

    fn unit(&self) -> PathBuf {
        self.home.hermetic.config().join("systemd/user/nerve.service")
    }

    fn log(&self) -> Vec<String> {
        let log = fs::read_to_string(self.bin.join("log")).unwrap_or_default();
        log.lines().map(str::to_string).collect()
    }
}

#[test]
fn service_is_installed_shown_and_removed() {
    let fixture = Fixture::new(Some("case \"$2\" in is-*) echo yes;; esac"));
    let nerve = |args: &[&str]| fixture.home.run(fixture.command(args));
    nerve(&["service", "status"]).assert_stderr(3, &["'nerve.service'"]);
    let installed = nerve(&["service", "install"]).success();
    assert!(installed.contains("service 'nerve.service' installed and started"), "{installed}");
    assert!(installed.contains("loginctl enable-linger"), "{installed}");
    let reload = "--user daemon-reload";
    assert_eq!(fixture.log(), [reload, reload, "--user enable --now nerve.service"]);
    let unit = fs::read_to_string(fixture.unit()).unwrap();
    for line in
        ["KillMode=process", " server start --foreground --restore --name default\n", "Environment=\"PATH="]
    {
        assert!(unit.contains(line), "{unit}");
    }
    assert_eq!(nerve(&["service", "install", "--print"]).success(), unit);
    assert!(nerve(&["service", "status"]).success().contains("yes"));
    let status = nerve(&["service", "status", "--json"]).json();
    assert_eq!((&status["unit"], &status["active"]), (&"nerve.service".into(), &"yes".into()), "{status}");
    assert_eq!(nerve(&["service", "remove"]).success(), "service 'nerve.service' removed\n");
    assert!(!fixture.unit().exists());
}

#[test]
fn missing_or_failing_systemd_leaves_nothing_behind() {
    let missing = Fixture::new(None);
    missing
        .home
        .run(missing.command(&["service", "install"]))
        .assert_stderr(1, &["'systemctl'", "hint", "nerve server start --restore"]);
    let failing =
        Fixture::new(Some("case \"$2\" in enable) echo 'Failed to connect to bus' >&2; exit 1;; esac"));
    failing
        .home
        .run(failing.command(&["service", "install"]))
        .assert_stderr(1, &["Failed to connect to bus"]);
    assert!(!missing.unit().exists() && !failing.unit().exists());
    let both = missing.home.run(missing.command(&["service", "install", "--print", "--json"]));
    both.assert_stderr(2, &["--json"]);
    // A printed unit needs no systemd.
    let unit = missing.home.run(missing.command(&["service", "install", "work", "--print"])).success();
    assert!(unit.contains("--restore --name work\n"), "{unit}");
}

#[test]
fn service_is_not_installed_over_a_running_server() {
    let fixture = Fixture::new(Some("case \"$2\" in is-active) exit 3;; esac"));
    fixture.home.ok(&["server", "start"]);
    fixture
        .home
        .run(fixture.command(&["service", "install"]))
        .assert_stderr(1, &["server 'default'", "nerve server stop default"]);
    assert!(!fixture.unit().exists());
    fixture.home.ok(&["server", "stop"]);
    fixture.home.run(fixture.command(&["service", "install"])).success();
}

#[test]
fn unit_has_the_variables_of_the_folders() {
    let fixture = Fixture::new(None);
    let mut command = fixture.command(&["service", "install", "--print"]);
    command
        .current_dir("/tmp")
        .env("NERVE_HOME", "relative")
        .env("AH_HOME", "/a")
        .env("XDG_STATE_HOME", "/s");
    let unit = fixture.home.run(command).success();
    let config = format!("XDG_CONFIG_HOME={}", fixture.home.hermetic.config().display());
    for variable in ["NERVE_HOME=/tmp/relative", "AH_HOME=/a", "XDG_STATE_HOME=/s", config.as_str()] {
        assert!(unit.contains(&format!("Environment=\"{variable}\"")), "{unit}");
    }
}
